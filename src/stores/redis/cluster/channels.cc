// Pushes in a cluster: the sharded channels of a client, and how they follow their slots.
#include <chrono>
#include <utility>

#include <asio/post.hpp>

#include "src/stores/redis/cluster/cluster.h"
#include "src/stores/redis/protocol/slot.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;

constexpr std::chrono::milliseconds kBeforeJoiningAgain{50};
// Slots move one by one, and each makes everybody ask.
constexpr std::chrono::milliseconds kBetweenMisses{250};

}  // namespace

Subscriber::Events Cluster::events_of(Node& node) {
  Subscriber::Events events;
  events.on_subscribed = [this, &node](bool again) {
    if (again) events_.on_alarm(node.server->where() + ": connected again");
  };
  events.on_lost = [this, &node](const Error& why) { on_lost(node, why); };
  events.on_batch = [this, &node](std::string_view name) { on_joined(node, std::string(name)); };
  events.on_shard = [this, &node](std::string_view name, std::string_view payload) {
    const auto known = channels_.find(std::string(name));
    if (known == channels_.end() || shut_) return;
    if (known->second.is_value) return events_.on_value(known->first);
    events_.on_push(payload, &node == &node_of(known->second.slot));
  };
  events.on_dropped = [this, &node](std::string_view name, const Error& why) {
    on_dropped(node, std::string(name), why);
  };
  return events;
}

void Cluster::subscribe(std::uint16_t slot, base::BootInstant deadline, port::Done<void> done) {
  asio::post(io_, [self = shared_from_this(), slot, deadline, done = std::move(done)] {
    self->subscribe_on_loop(slot, deadline, done);
  });
}

void Cluster::subscribe_on_loop(std::uint16_t slot, base::BootInstant deadline,
                                const port::Done<void>& done) {
  const Error closed(Errc::kClosed, where_ + ": the client is closed: connect again");
  if (shut_) return done(closed);
  if (subscribed_[slot]) return done({});
  const auto [place_of_it, fresh] = channels_.try_emplace(requests_.channel_in(slot));
  Channel& channel = place_of_it->second;
  channel.slot = slot;
  // Whichever comes first: the confirmation, a refusal, or the deadline.
  auto waiter = std::make_shared<port::Done<void>>(done);
  const auto finish = [waiter](const Result<void>& result) {
    if (const auto once = std::exchange(*waiter, nullptr)) once(result);
  };
  channel.waiters.emplace_back(finish);
  after(deadline - BootClock::now(), [this, finish, closed] {
    if (shut_) return finish(closed);  // close() runs what waits for its time.
    finish(Error(Errc::kUnavailable,
                 where_ + ": the subscription was not confirmed within the deadline: retry"));
  });
  place(place_of_it->first, channel);
}

void Cluster::join(const std::string& name) {
  on_loop([this, name] {
    Channel& channel = channels_[name];
    channel.slot = slot_of_key(name);
    channel.is_value = true;
    place(name, channel);
  });
}

void Cluster::leave(const std::string& name) {
  on_loop([this, name] {
    const auto known = channels_.find(name);
    if (known == channels_.end()) return;
    if (known->second.at != nullptr) known->second.at->server->subscriber().leave(name);
    channels_.erase(known);
  });
}

// Subscribes at the slot's owner.
void Cluster::place(const std::string& name, Channel& channel) {
  Node& owner = node_of(channel.slot);
  if (channel.at != nullptr && channel.at != &owner) {
    channel.at->server->subscriber().leave(name);
    set_confirmed(channel, false);
  }
  if (std::exchange(channel.at, &owner) != &owner || !channel.confirmed) {
    owner.server->subscriber().join(name);
  }
  if (channel.waiters.empty()) return;
  owner.server->subscriber().ensure(
      BootClock::now() + remote_->address.connect_timeout, [this, name](const Result<void>& up) {
        const auto known = channels_.find(name);
        if (up || known == channels_.end()) return;
        suspect();
        for (const auto& each : std::exchange(known->second.waiters, {})) each(up);
      });
}

void Cluster::on_joined(Node& node, const std::string& name) {
  const auto known = channels_.find(name);
  if (shut_ || known == channels_.end() || known->second.at != &node) return;
  Channel& channel = known->second;
  set_confirmed(channel, true);
  for (const auto& each : std::exchange(channel.waiters, {})) each({});
  const bool again = std::exchange(channel.was_confirmed, true);
  if (channel.is_value) return events_.on_value(name);
  if (again) missed_soon();
}

void Cluster::on_dropped(Node& node, const std::string& name, const Error& why) {
  const auto known = channels_.find(name);
  if (shut_ || known == channels_.end() || known->second.at != &node) return;
  Channel& channel = known->second;
  set_confirmed(channel, false);
  channel.at = nullptr;
  if (why.code() == Errc::kPermissionDenied) {
    for (const auto& each : std::exchange(channel.waiters, {})) each(why);
    return;
  }
  // The server that gives the slot away knows who has it.
  learn(node, std::nullopt, [this, name](const Result<void>&) {
    after(kBeforeJoiningAgain, [this, name] {
      const auto again = channels_.find(name);
      if (!shut_ && again != channels_.end() && again->second.at == nullptr) {
        place(name, again->second);
      }
    });
  });
  missed_soon();
}

void Cluster::on_lost(Node& node, const Error& why) {
  if (shut_) return;
  for (auto& [name, channel] : channels_) {
    if (channel.at == &node) set_confirmed(channel, false);
  }
  if (!node.primary->retired()) {
    events_.on_alarm(node.server->where() + ": the connection is lost; reconnecting. Waiters keep "
                     "waiting, leases last until their deadlines: " + why.message());
  }
  suspect();
}

void Cluster::set_confirmed(Channel& channel, bool confirmed) {
  channel.confirmed = confirmed;
  if (!channel.is_value) subscribed_[channel.slot] = confirmed;
}

void Cluster::missed_soon() {
  if (std::exchange(missed_due_, true)) return;
  after(kBetweenMisses, [this] {
    missed_due_ = false;
    if (!shut_) events_.on_missed();
  });
}

}  // namespace holdfast::stores::redis
