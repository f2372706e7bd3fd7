#include "src/stores/redis/sentinel/sentinel_primary.h"

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

#include "src/port/url_parts.h"
#include "src/stores/redis/transport/loop_link.h"
#include "src/stores/redis/transport/resolver.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;

constexpr std::chrono::milliseconds kGrace{200};
constexpr char kChannel[] = "+switch-master";

}  // namespace

struct SentinelPrimary::Sentinel {
  RemotePtr remote;
  std::unique_ptr<Pipeline> pipe;
  std::unique_ptr<Subscriber> subscriber;
  bool silent = false;  // It did not answer the last question.
};

// One question to all Sentinels.
struct SentinelPrimary::Round {
  std::size_t unanswered = 0;
  std::vector<bool> expected;  // The Sentinels that answered last time, and not yet this time.
  std::vector<SentinelAnswer> answers;
  std::vector<Error> failures;
};

Result<std::shared_ptr<SentinelPrimary>> SentinelPrimary::make(asio::io_context& io,
                                                               RedisAddress address,
                                                               Told on_switch) {
  std::vector<RemotePtr> remotes;
  for (const RedisAddress& each : address.sentinels) {
    auto remote = Remote::make(each);
    if (!remote) return remote.error();
    remotes.push_back(*std::move(remote));
  }
  std::shared_ptr<SentinelPrimary> made(
      new SentinelPrimary(io, std::move(address), std::move(on_switch)));
  for (RemotePtr& remote : remotes) {
    auto sentinel = std::make_unique<Sentinel>();
    sentinel->pipe = std::make_unique<Pipeline>(io, remote);
    const std::weak_ptr<SentinelPrimary> weak = made;
    // An event says that there is something to ask. It carries no epoch, so it is not trusted.
    const auto ask = [weak] {
      if (const auto self = weak.lock()) self->ask_all();
    };
    sentinel->subscriber = std::make_unique<Subscriber>(
        io, remote, kChannel,
        Subscriber::Events{.on_message = [ask](std::string_view) { ask(); },
                           .on_subscribed =
                               [ask](bool again) {
                                 if (again) ask();
                               },
                           .on_lost = {}});
    sentinel->remote = std::move(remote);
    made->sentinels_.push_back(std::move(sentinel));
  }
  return made;
}

SentinelPrimary::SentinelPrimary(asio::io_context& io, RedisAddress address, Told on_switch)
    : io_(io),
      address_(std::move(address)),
      on_switch_(std::move(on_switch)),
      grace_(io),
      poll_(io) {}

SentinelPrimary::~SentinelPrimary() { close(); }

std::string SentinelPrimary::late() const {
  return "asking the Sentinels takes too long: look whether they run and can be reached";
}

Location SentinelPrimary::cached() const {
  const base::LocalLock lock(mutex_);
  return location_;
}

void SentinelPrimary::refresh(std::function<void(Result<Location>)> done) {
  bool closed = false;
  {
    const base::LocalLock lock(mutex_);
    closed = closed_;
    if (!closed) waiters_.push_back(std::move(done));
  }
  if (closed) return done(Error(Errc::kClosed, "the client is closed: connect again"));
  asio::post(io_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ask_all();
  });
}

void SentinelPrimary::ask_all() {
  if (shut_) return;
  if (round_ != nullptr) {
    once_more_ = true;
    return;
  }
  round_ = std::make_shared<Round>();
  round_->unanswered = sentinels_.size();
  const std::shared_ptr<Round> round = round_;
  for (const auto& each : sentinels_) round->expected.push_back(!each->silent);
  for (std::size_t i = 0; i < sentinels_.size(); ++i) ask_one(i, round);
}

void SentinelPrimary::ask_one(std::size_t index, const std::shared_ptr<Round>& round) {
  const std::string where = address_.sentinels[index].display();
  const auto deadline = BootClock::now() + address_.connect_timeout;
  auto first = std::make_shared<Result<Reply>>(Error(Errc::kUnavailable, where));
  ask(index, {"SENTINEL", "MASTER", address_.primary}, deadline,
      [first](Result<Reply> reply) { *first = std::move(reply); });
  ask(index, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", address_.primary}, deadline,
      [this, index, first, round, where](const Result<Reply>& second) {
        if (!*first) return answered(index, round, first->error());
        if (!second) return answered(index, round, second.error());
        answered(index, round, sentinel_answer(**first, *second, where, address_.primary));
      });
}

void SentinelPrimary::ask(std::size_t index, const std::vector<std::string_view>& words,
                          base::BootInstant deadline, port::Done<Reply> done) {
  Command command;
  command.reads_only = true;
  append_command(command.wire, words);
  sentinels_[index]->pipe->send(std::move(command), deadline,
                                [weak = weak_from_this(), done = std::move(done)](
                                    const Result<Reply>& reply) {
                                  if (const auto self = weak.lock()) done(reply);
                                });
}

AskSentinel SentinelPrimary::asker() {
  return [weak = weak_from_this()](std::size_t index, const std::vector<std::string_view>& words,
                                   base::BootInstant deadline, port::Done<Reply> done) {
    if (const auto self = weak.lock()) self->ask(index, words, deadline, std::move(done));
  };
}

void SentinelPrimary::answered(std::size_t index, const std::shared_ptr<Round>& round,
                               Result<SentinelAnswer> answer) {
  --round->unanswered;
  round->expected[index] = false;
  sentinels_[index]->silent = !answer;
  if (answer) {
    round->answers.push_back(*std::move(answer));
  } else {
    round->failures.push_back(answer.error());
  }
  if (round != round_ || shut_) return;
  const bool majority = round->answers.size() > sentinels_.size() / 2;
  const bool more = std::count(round->expected.begin(), round->expected.end(), true) > 0;
  if (round->unanswered == 0 || (majority && !more)) return end_round(round);
  if (majority) grace_.arm(kGrace, [this, round] { end_round(round); });
}

void SentinelPrimary::end_round(const std::shared_ptr<Round>& round) {
  if (round != round_ || shut_) return;
  grace_.stop();
  round_ = nullptr;
  const auto chosen = choose(round->answers, current_);
  if (chosen) {
    adopt(*chosen);
  } else if (current_) {
    tell(cached());
  } else {
    tell(why_none(*round));
  }
  if (!round->answers.empty()) listen();
  poll_.arm(kPoll, [this] { ask_all(); });
  if (std::exchange(once_more_, false)) ask_all();
}

// A name needs a lookup, and may lead elsewhere each time.
void SentinelPrimary::adopt(const SentinelAnswer& answer) {
  if (lookup_ == nullptr || !current_ || current_->host != answer.host ||
      current_->port != answer.port) {
    RedisAddress host;
    host.host = answer.host;
    host.port = answer.port;
    lookup_ = std::make_shared<Resolver>(host);
  }
  const bool numeric = !lookup_->cached().endpoints.empty();
  if (numeric) return found(answer, lookup_->cached());
  lookup_->refresh([weak = weak_from_this(), answer](const Result<Location>& looked_up) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    asio::post(self->io_, [weak, answer, looked_up] {
      if (const auto alive = weak.lock()) alive->found(answer, looked_up);
    });
  });
}

void SentinelPrimary::found(const SentinelAnswer& answer, const Result<Location>& looked_up) {
  if (shut_) return;
  if (!looked_up) return current_ ? tell(cached()) : tell(looked_up.error());
  // A later answer may have been faster.
  if (current_ && answer.epoch < current_->epoch) return tell(cached());
  Location now{looked_up->endpoints, generation()};
  for (Endpoint& each : now.endpoints) each.name = answer.host;
  const std::optional<SentinelAnswer> before = std::exchange(current_, answer);
  const bool moved = before != current_;
  if (moved) ++now.generation;
  {
    const base::LocalLock lock(mutex_);
    location_ = now;
  }
  if (moved) switch_to(now.generation);
  if (moved && before && on_switch_) {
    const auto text = [](const SentinelAnswer& each) {
      return port::Endpoint{each.host, each.port}.text() + " (epoch " + std::to_string(each.epoch) +
             ")";
    };
    on_switch_(address_.display() + ": the primary is now " + text(answer) + ", after " +
               text(*before) + "; what it does not know of is lost");
  }
  tell(now);
}

void SentinelPrimary::tell(const Result<Location>& result) {
  std::vector<std::function<void(Result<Location>)>> told;
  {
    const base::LocalLock lock(mutex_);
    told.swap(waiters_);
  }
  for (const auto& each : told) each(result);
}

Error SentinelPrimary::why_none(const Round& round) const {
  std::string all;
  bool denied = false;
  bool unknown = !round.failures.empty();
  for (const Error& each : round.failures) {
    all += (all.empty() ? "" : "; ") + each.message();
    denied = denied || each.code() == Errc::kPermissionDenied;
    unknown = unknown && each.code() == Errc::kInvalidArgument;
  }
  const Errc code = denied    ? Errc::kPermissionDenied
                    : unknown ? Errc::kInvalidArgument
                              : Errc::kUnavailable;
  std::string advice;
  if (denied) {
    advice = ". Options for the Sentinels begin with sentinel_, such as sentinel_tls_ca";
  } else if (!unknown) {
    advice = address_.sentinels.front().tls
                 ? ". Look whether they run and speak TLS"
                 : ". Look whether they run, and whether they want TLS (sentinel_tls=yes)";
  }
  return {code, "no Sentinel names the primary: " + all + advice};
}

void SentinelPrimary::listen() {
  for (const auto& each : sentinels_) {
    if (each->subscriber->confirmed()) continue;
    each->subscriber->ensure(BootClock::now() + kPoll, [](const Result<void>&) {});
  }
}

void SentinelPrimary::shut() {
  shut_ = true;
  round_ = nullptr;
  grace_.stop();
  poll_.stop();
}

void SentinelPrimary::close() {
  {
    const base::LocalLock lock(mutex_);
    if (abandoned_ || std::exchange(closed_, true)) return;
  }
  run_on_loop(io_, [this] { shut(); });
  for (const auto& each : sentinels_) {
    each->pipe->close();
    each->subscriber->close();
  }
  tell(Error(Errc::kClosed, "the client is closed: connect again"));
}

void SentinelPrimary::abandon() noexcept {
  abandoned_ = true;
  for (const auto& each : sentinels_) {
    each->pipe->abandon();
    each->subscriber->abandon();
  }
  grace_.abandon();
  poll_.abandon();
}

}  // namespace holdfast::stores::redis
