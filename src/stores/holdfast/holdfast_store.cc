#include "src/stores/holdfast/holdfast_store.h"

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/detail/transient.h"
#include "src/base/random.h"
#include "src/stores/holdfast/event_watches.h"
#include "src/stores/holdfast/guarantees.h"
#include "src/stores/holdfast/records.h"
#include "src/stores/holdfast/server_tls.h"
#include "src/stores/holdfast/servers.h"
#include "src/stores/holdfast/service_primary.h"
#include "src/stores/holdfast/sharded_store.h"
#include "src/stores/holdfast/status.h"
#include "src/stores/holdfast/url.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"
#include "src/stores/redis/renewer.h"
#include "src/stores/redis/script_store.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/subscriber.h"

namespace holdfast::stores {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;
using port::Done;
using port::EndStatus;
using redis::Reply;
using redis::ScriptCall;
using redis::ScriptName;

constexpr std::size_t kLocksInPage = 128;
// While no server leads.
constexpr std::chrono::milliseconds kBetweenTries{100};
constexpr std::chrono::milliseconds kForOtherShards{1'000};

class HoldfastStore final : public redis::ScriptStore {
 public:
  HoldfastStore(redis::RemotePtr remote, const port::StoreContext& context)
      // One character less than on Redis: the server then keeps it without an allocation.
      : ScriptStore(context, remote->address.display(),
                    base::to_hex(base::random_128().high, 0).substr(0, 15), {},
                    redis::ScriptHost::kService),
        pipeline_(*context.io, remote),
        direct_(remote),
        renewer_(remote, requests_, {}, {}),
        subscriber_(*context.io, remote, redis::channel_of(requests_.client()),
                    {[this](std::string_view payload) {
                       if (!watches_->on_event(payload)) on_message(payload);
                     },
                     [this](bool again) {
                       on_subscribed(again);
                       if (again) ask_about_watches();
                     },
                     [this](const Error& why) {
                       watches_->lost();
                       on_lost(why);
                       await_connection();
                     },
                     [this](std::string_view channel) {
                       watches_->joined(channel);
                       values_->tell(std::string(channel));
                     }}),
        watches_(std::make_shared<holdfast::EventWatches>(
            *loop_, [this](const std::string& channel, bool join) { hear(channel, join); })),
        remote_(std::move(remote)) {}

  // Errors: kUnavailable, kUnsupported, kVersionMismatch.
  // While a server takes over from another one, none leads. So several servers are asked again, and
  // so is one that has to take its shards first.
  Result<void> connect(base::BootInstant open_by) {
    const auto patience = 2 * remote_->address.connect_timeout;  // For one round.
    const bool several = remote_->address.nodes.size() > 1 || remote_->address.shard;
    const base::BootInstant soon = base::BootClock::now() + patience;
    const base::BootInstant until =
        several && open_by != base::BootInstant::max() ? open_by : std::min(open_by, soon);
    for (;;) {
      const base::BootInstant now = base::BootClock::now();
      auto connected = try_to_connect(std::min(until, now + patience));
      if (connected || !several || connected.error().code() != Errc::kUnavailable ||
          base::BootClock::now() + kBetweenTries >= until) {
        return connected;
      }
      std::this_thread::sleep_for(kBetweenTries);
    }
  }

  Result<void> try_to_connect(base::BootInstant deadline) {
    if (const auto found = remote_->primary->resolve(deadline); !found) {
      return Error(found.error().code(), address_ + ": " + found.error().message());
    }
    auto turn = direct_.try_take();
    const auto replies =
        turn->call(words({"HF1", "status", "0"}), 1, deadline, /*reads_only=*/true);
    if (!replies) return replies.error();
    const auto reply = redis::checked(replies->front(), address_, /*reads_only=*/true);
    if (!reply) return reply.error();
    const auto status = holdfast::status_of(*reply);
    if (!status) return Error(status.error().code(), address_ + ": " + status.error().message());
    durable_ = status->durable();
    shared_ = status->shared();
    // Subscribes ahead of need: a holder must hear of a break, and the first waiter loses no time.
    subscriber_.ensure(deadline, [](const Result<void>&) {});
    return {};
  }

  // One try to connect ends then, and the next server or shard has its turn.
  base::BootInstant round_end(base::BootInstant deadline) const {
    return std::min(deadline, base::BootClock::now() + 2 * remote_->address.connect_timeout);
  }
  // In place of connect(): another shard of the same service has told this.
  void believe(const HoldfastStore& other) {
    durable_ = other.durable_;
    shared_ = other.shared_;
  }

  Guarantees guarantees() const override { return holdfast::guarantees(durable_, shared_); }

  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    loop_->post([states = renewer_.renew(items, deadline), done = std::move(done)]() mutable {
      done(std::move(states));
    });
  }

  void give_up_renewal() noexcept override { renewer_.give_up(); }

  void list(std::string prefix, std::size_t limit, base::BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    auto found = std::make_shared<std::vector<LockInfo>>();
    list_page({std::move(prefix), limit, deadline, std::move(done)}, found, "");
  }

  void watch(std::string prefix, port::EventSink sink, base::BootInstant deadline,
             Done<port::WatchHandle> done) override {
    begin_watch(std::move(prefix), std::move(sink), deadline,
                [done = std::move(done)](Result<holdfast::BegunWatch> begun) {
                  begun->unconfirmed ? done(*begun->unconfirmed) : done(std::move(begun->handle));
                });
  }
  // As ServiceShard::watch(). It does not fail.
  void begin_watch(std::string prefix, port::EventSink sink, base::BootInstant deadline,
                   Done<holdfast::BegunWatch> done) {
    auto handle = watches_->begin(prefix, std::move(sink));
    await_watch(std::move(prefix), deadline,
                [this, handle = std::move(handle),
                 done = std::move(done)](const Result<void>& confirmed) mutable {
                  holdfast::BegunWatch begun{std::move(handle)};
                  if (!confirmed) begun.unconfirmed = confirmed.error();
                  if (!confirmed) watches_->miss(begun.handle);
                  done(std::move(begun));
                });
  }

  void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) override {
    read(words({"HF1", "status", "0"}), deadline,
         [this, deadline, way = holdfast::way_to(remote_->address),
          done = std::move(done)](const Result<Reply>& reply) {
           if (!reply) return done(reply.error());
           const auto status = holdfast::status_of(*reply);
           if (!status) return done(status.error());
           auto findings = holdfast::findings_of(*status, way);
           if (!status->shared()) return done(std::move(findings));
           read(words({"HF1", "examine", "0"}), deadline,
                [findings = std::move(findings), done](const Result<Reply>& seen) mutable {
                  auto more = holdfast::findings_of_journal(seen);
                  findings.insert(findings.end(), more.begin(), more.end());
                  done(std::move(findings));
                });
         });
  }

  void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) override {
    read(words({"HF1", "value", "1", redis::record_key(name)}), deadline,
         [done = std::move(done)](const Result<Reply>& reply) {
           reply ? done(reply->text) : done(reply.error());
         });
  }

  port::PushReader* push_reader() override { return &subscriber_.push_reader(); }

  void close(base::BootInstant deadline) override {
    await_ends(deadline);
    pipeline_.close();
    subscriber_.close();
    direct_.close();
    renewer_.close();
  }

  void abandon_after_fork() noexcept override {
    pipeline_.abandon();
    subscriber_.abandon();
    direct_.abandon();
    renewer_.abandon();
  }

 private:
  static std::string words(const std::vector<std::string_view>& all) {
    std::string wire;
    redis::append_command(wire, all);
    return wire;
  }

  void run(ScriptCall call, base::BootInstant deadline, Done<Reply> done) override {
    redis::Command command{call.by_hash(), call.reads_only()};
    command.part = call.batch_part_of(command.wire);
    send(std::move(command), deadline, std::move(done));
  }

  void read(std::string wire, base::BootInstant deadline, Done<Reply> done) {
    send({std::move(wire), /*reads_only=*/true}, deadline, std::move(done));
  }

  void send(redis::Command command, base::BootInstant deadline, Done<Reply> done) {
    const bool reads_only = command.reads_only;
    pipeline_.send(std::move(command), deadline,
                   [this, reads_only, done = std::move(done)](Result<Reply> reply) {
                     done(redis::checked(std::move(reply), address_, reads_only));
                   });
  }

  std::optional<Result<Reply>> run_here(const ScriptCall& call, base::BootInstant deadline,
                                        bool /*pushes_first*/) override {
    auto turn = direct_.try_take();
    if (!turn) return std::nullopt;
    auto replies = turn->call(call.by_hash(), 1, deadline);
    if (!replies) return Result<Reply>(replies.error());
    return redis::checked(std::move(replies->front()), address_);
  }

  bool hears_of(std::string_view) override { return subscriber_.confirmed(); }
  void subscribe(std::string_view, base::BootInstant deadline, Done<void> done) override {
    subscriber_.ensure(deadline, std::move(done));
  }
  void hear(const std::string& channel, bool join) override {
    join ? subscriber_.join(channel) : subscriber_.leave(channel);
  }

  // A watch has no request of its own, to which a server with another journal could be the answer.
  void await_connection() {
    if (closing() || watches_->prefixes().empty()) return;
    subscriber_.ensure(base::BootInstant::max(), [this](const Result<void>& connected) {
      if (connected) return;
      if (detail::is_transient(connected.error().code())) return await_connection();
      if (!closing()) listener_->on_watches_blind(connected.error());
    });
  }

  // The server does not say which channel it refuses. A right may have been taken away meanwhile.
  void ask_about_watches() {
    const auto deadline = base::BootClock::now() + remote_->address.connect_timeout;
    for (const std::string& prefix : watches_->prefixes()) {
      read(words({"HF1", "watch", "0", prefix, requests_.client()}), deadline,
           [this, prefix](const Result<Reply>& reply) {
             if (reply || reply.error().code() != Errc::kPermissionDenied) return;
             listener_->on_alarm(address_ + ": the watch of '" + prefix +
                                 "' tells nothing any more: " + reply.error().message());
           });
    }
  }

  // The server tells on this connection whether the subscriber's has the channel, and whether the
  // user may. The channel was asked for before, so it is rarely asked twice.
  void await_watch(std::string prefix, base::BootInstant deadline, Done<void> done) {
    subscriber_.ensure(deadline, [this, prefix = std::move(prefix), deadline,
                                  done = std::move(done)](const Result<void>& subscribed) mutable {
      if (!subscribed) return done(subscribed.error());
      std::string wire = words({"HF1", "watch", "0", prefix, requests_.client()});
      read(std::move(wire), deadline,
           [this, prefix = std::move(prefix), deadline,
            done = std::move(done)](const Result<Reply>& reply) mutable {
             if (!reply) return done(reply.error());
             if (reply->text == "yes") return done({});
             if (closing() || base::BootClock::now() >= deadline) {
               return done(Error(Errc::kUnavailable,
                                 address_ + ": the server did not confirm the watch in time"));
             }
             await_watch(std::move(prefix), deadline, std::move(done));
           });
    });
  }

  struct PagedList {
    std::string prefix;
    std::size_t limit;
    base::BootInstant deadline;
    Done<std::vector<LockInfo>> done;
  };

  // One page of locks after the name `after`; then the next one.
  void list_page(PagedList listing, const std::shared_ptr<std::vector<LockInfo>>& found,
                 const std::string& after) {
    const std::string count = std::to_string(std::min(kLocksInPage, listing.limit - found->size()));
    const auto deadline = listing.deadline;
    std::string wire = words({"HF1", "list", "0", listing.prefix, count, after});
    read(std::move(wire), deadline,
         [this, listing = std::move(listing), found](const Result<Reply>& reply) {
           if (!reply) return listing.done(reply.error());
           std::string last;
           for (const Reply& item : reply->items) {
             if (item.items.size() != 2) return listing.done(redis::no_answer("list"));
             last = item.items[0].text;
             auto lock = redis::view_of(item.items[1], last);
             if (!lock) return listing.done(lock.error());
             const bool in_use = *lock && !((*lock)->holders.empty() && (*lock)->waiters.empty());
             if (in_use) found->push_back(**std::move(lock));
           }
           if (last.empty() || found->size() >= listing.limit) return listing.done(*found);
           list_page(listing, found, last);
         });
  }

  bool durable_ = false;  // Set by connect(), as is the next.
  bool shared_ = false;
  redis::Pipeline pipeline_;
  redis::DirectLink direct_;
  redis::Renewer renewer_;  // The renewal thread's.
  redis::Subscriber subscriber_;
  const std::shared_ptr<holdfast::EventWatches> watches_;
  const redis::RemotePtr remote_;
};

// Puts an answer where the job wants it.
template <typename Answer>
Result<void> take(Result<Answer> answer, Answer& into) {
  if (!answer) return answer.error();
  into = *std::move(answer);
  return {};
}

Result<void> do_servers_job(port::ServersJob& job, const redis::RedisAddress& address) {
  switch (job.wish) {
    case port::ServersJob::Wish::kStatus: return take(holdfast::ask_servers(address), job.found);
    case port::ServersJob::Wish::kMembers:
      return take(holdfast::ask_for_members(address), job.members);
    case port::ServersJob::Wish::kStepDown:
      return take(holdfast::ask_to_step_down(address, job.address), job.asked);
    case port::ServersJob::Wish::kDrain:
      return take(holdfast::drain_one(address, job.address, job.patience), job.asked);
  }
  return {};
}

Result<redis::RemotePtr> make_remote(redis::RedisAddress address,
                                     const port::Endpoint& first = {}) {
  auto primary = std::make_shared<holdfast::ServicePrimary>(address, first);
  return redis::Remote::make(std::move(address), std::move(primary));
}

// The address may name one shard.
Result<std::unique_ptr<port::Store>> open_one(redis::RedisAddress address,
                                              const port::StoreContext& context,
                                              const port::Endpoint& first = {}) {
  auto remote = make_remote(std::move(address), first);
  if (!remote) return remote.error();
  if (context.records != nullptr) return holdfast::make_records(*std::move(remote), context);
  auto store = std::make_unique<HoldfastStore>(*std::move(remote), context);
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

// The leader of the shard, if the address names it as it calls itself; or a server that answers.
port::Endpoint first_server(const redis::RedisAddress& address,
                            const holdfast::ServiceShards& shards, std::uint32_t shard) {
  for (const port::Endpoint& each : address.nodes) {
    if (each.text() == shards.leaders[shard]) return each;
  }
  return shards.told_by;
}

using HoldfastStores = std::vector<std::unique_ptr<HoldfastStore>>;

// The other shards have a short time. One that is not reached in it connects when it is used, and
// so do all of the same leader: a server that hangs must not keep a client from the others.
void connect_others(const HoldfastStores& stores, const holdfast::ServiceShards& shards,
                    const HoldfastStore& connected, base::BootInstant deadline) {
  std::set<std::string> silent;
  for (std::size_t shard = 0; shard < stores.size(); ++shard) {
    HoldfastStore& one = *stores[shard];
    if (&one == &connected) continue;
    const std::string& leader = shards.leaders[shard];
    const auto until = std::min(deadline, base::BootClock::now() + kForOtherShards);
    // A server that has just started takes its shards one after the other.
    while (!silent.contains(leader) && !one.try_to_connect(until)) {
      if (base::BootClock::now() + kBetweenTries >= until) silent.insert(leader);
      std::this_thread::sleep_for(kBetweenTries);
    }
    if (silent.contains(leader)) one.believe(connected);
  }
}

// One shard tells what holds for all of them.
Result<void> connect_to_one(const HoldfastStores& stores, const holdfast::ServiceShards& shards,
                            const port::StoreContext& context) {
  std::vector<HoldfastStore*> order;
  for (std::size_t shard = 0; shard < stores.size(); ++shard) {
    const bool answers = shards.leaders[shard] == shards.told_by.text();
    order.insert(answers ? order.begin() : order.end(), stores[shard].get());
  }
  const bool endless = context.open_by == base::BootInstant::max();
  const base::BootInstant until =
      endless ? stores.front()->round_end(context.open_by) : context.open_by;
  for (;;) {
    Error last(Errc::kUnavailable, "");
    for (HoldfastStore* const each : order) {
      const auto connected = each->try_to_connect(each->round_end(context.open_by));
      if (!connected && connected.error().code() != Errc::kUnavailable) return connected;
      if (!connected) last = connected.error();
      if (!connected) continue;
      connect_others(stores, shards, *each, context.open_by);
      return {};
    }
    if (base::BootClock::now() + kBetweenTries >= until) return last;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// A service with several shards refuses a client that names none. All records are in the first one.
Result<std::unique_ptr<port::Store>> open_shards(redis::RedisAddress address,
                                                 const port::StoreContext& context) {
  const auto shards = holdfast::ask_for_shards(
      address, std::min(context.open_by, base::BootClock::now() + address.connect_timeout));
  if (!shards) return shards.error();
  if (context.records != nullptr) {
    address.shard = 0;
    const port::Endpoint first = first_server(address, *shards, 0);
    return open_one(std::move(address), context, first);
  }
  HoldfastStores stores;
  for (std::uint32_t shard = 0; shard < shards->count; ++shard) {
    address.shard = shard;
    auto remote = make_remote(address, first_server(address, *shards, shard));
    if (!remote) return remote.error();
    stores.push_back(std::make_unique<HoldfastStore>(*std::move(remote), context));
  }
  if (const auto connected = connect_to_one(stores, *shards, context); !connected) {
    for (const auto& each : stores) each->close(base::BootClock::now());
    return connected.error();
  }
  std::vector<holdfast::ServiceShard> opened;
  for (auto& each : stores) {
    HoldfastStore& shard = *each;
    opened.push_back(
        {std::move(each), [&shard](std::string prefix, port::EventSink sink, base::BootInstant by,
                                   Done<holdfast::BegunWatch> done) {
           shard.begin_watch(std::move(prefix), std::move(sink), by, std::move(done));
         }});
  }
  return holdfast::make_sharded_store(std::move(opened), *context.listener);
}

}  // namespace

Result<std::unique_ptr<port::Store>> make_holdfast_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  if (context.server_tls != nullptr) {
    port::ServerTlsJob& job = *context.server_tls;
    auto made = holdfast::make_server_tls(job.certificate, job.key, job.trusted);
    if (!made) return made.error();
    job.made = *std::move(made);
    return std::unique_ptr<port::Store>();
  }
  auto address = holdfast::parse_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "holdfast"); !known) return known.error();
  if (context.servers != nullptr) {
    if (auto done = do_servers_job(*context.servers, *address); !done) return done.error();
    return std::unique_ptr<port::Store>();
  }
  auto store = open_one(*address, context);
  if (store || store.error().code() != Errc::kVersionMismatch) return store;
  auto sharded = open_shards(*std::move(address), context);
  return sharded || sharded.error().code() != Errc::kUnsupported ? std::move(sharded)
                                                                 : std::move(store);
}

}  // namespace holdfast::stores
