#include "src/stores/holdfast/holdfast_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/port/multi_request.h"
#include "src/port/value_watches.h"
#include "src/stores/holdfast/guarantees.h"
#include "src/stores/holdfast/server_tls.h"
#include "src/stores/holdfast/servers.h"
#include "src/stores/holdfast/service_primary.h"
#include "src/stores/holdfast/status.h"
#include "src/stores/holdfast/url.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"
#include "src/stores/redis/protocol/owner_json.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/renewer.h"
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

constexpr std::size_t kMaxValue = 4096;
constexpr std::size_t kLocksInPage = 128;
// While no server leads.
constexpr std::chrono::milliseconds kBetweenTries{100};

Result<AcquisitionState> refusal(const port::AcquireRequest& request) {
  return redis::acquire_answer("invalid", request);
}

class HoldfastStore final : public port::Store {
 public:
  HoldfastStore(redis::RemotePtr remote, const port::StoreContext& context)
      : loop_(context.loop),
        listener_(context.listener),
        address_(remote->address.display()),
        // One character less than on Redis: the server then keeps it without an allocation.
        requests_(base::to_hex(base::random_128().high, 0).substr(0, 15), {},
                  redis::ScriptHost::kService),
        pipeline_(*context.io, remote),
        direct_(remote),
        renewer_(remote, requests_, {}, {}),
        subscriber_(*context.io, remote, redis::channel_of(requests_.client()),
                    {[this](std::string_view payload) { on_message(payload); },
                     [this](bool again) { on_subscribed(again); },
                     [this](const Error& why) { on_lost(why); },
                     [this](std::string_view channel) { values_->tell(std::string(channel)); }}),
        values_(std::make_shared<port::ValueWatches>(*loop_,
                                                     [this](const std::string& channel, bool join) {
                                                       join ? subscriber_.join(channel)
                                                            : subscriber_.leave(channel);
                                                     })),
        remote_(std::move(remote)) {}

  // Errors: kUnavailable, kUnsupported, kVersionMismatch.
  // While a server takes over from another one, none leads. So several servers are asked again.
  Result<void> connect(base::BootInstant open_by) {
    const auto patience = 2 * remote_->address.connect_timeout;  // For one round.
    const bool several = remote_->address.nodes.size() > 1;
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

  Guarantees guarantees() const override { return holdfast::guarantees(durable_, shared_); }

  // A waiter subscribes before it enters the queue; otherwise it could miss its grant. A first try
  // without waiting needs no subscription, and often gets the lock. No acquisition overtakes such a
  // first try: the server would refuse the lower number of the overtaken one as too old.
  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    if (redis::malformed(request)) {
      return answer_later(refusal(request), std::move(done));
    }
    if (!request.may_wait || (subscriber_.confirmed() && subscribing_ == 0)) {
      return send_acquire(std::move(request), std::move(done));
    }
    ++subscribing_;
    port::AcquireRequest attempt = request;
    attempt.may_wait = false;
    send_acquire(std::move(attempt), [this, request = std::move(request), done = std::move(done)](
                                         Result<AcquisitionState> state) mutable {
      if (!state || state->status != AcquisitionStatus::kBusy) {
        --subscribing_;
        return done(std::move(state));
      }
      const auto deadline = request.deadline;
      subscriber_.ensure(deadline, [this, request = std::move(request), done = std::move(done)](
                                       const Result<void>& subscribed) mutable {
        if (subscribed) {
          send_acquire(std::move(request), std::move(done));
          --subscribing_;
        } else {
          --subscribing_;
          done(subscribed.error());
        }
      });
    });
  }

  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    loop_->post([states = renewer_.renew(items, deadline), done = std::move(done)]() mutable {
      done(std::move(states));
    });
  }

  void give_up_renewal() noexcept override { renewer_.give_up(); }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end("release", std::move(request), std::move(done));
  }

  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end("cancel", std::move(request), std::move(done));
  }

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    if (auto refused = refuse_all(requests)) {
      return answer_later(Result<Grants>(*std::move(refused)), std::move(done));
    }
    const auto deadline = requests.front().deadline;
    ScriptCall call = requests_.acquire_all(requests);
    run(std::move(call), deadline,
        [requests = std::move(requests), done = std::move(done)](const Result<Reply>& reply) {
          reply ? done(redis::acquire_all_answer(*reply, requests)) : done(reply.error());
        });
  }

  void release_all(std::vector<port::AcquisitionRequest> requests,
                   Done<std::vector<Result<EndStatus>>> done) override {
    ++ends_under_way_;
    const auto deadline = requests.front().deadline;
    ScriptCall call = requests_.end_all(requests);
    run(std::move(call), deadline,
        [this, requests = std::move(requests), done = std::move(done)](const Result<Reply>& reply) {
          ended_one();
          reply ? done(redis::end_all_answer(*reply, requests)) : done(reply.error());
        });
  }

  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(requests_.call(ScriptName::kDowngrade, request.name, {redis::id_text(request.id)}),
        request.deadline,
        [name = request.name, done = std::move(done)](const Result<Reply>& reply) {
          reply ? done(redis::downgrade_answer(reply->text, name)) : done(reply.error());
        });
  }

  void inspect(std::string name, base::BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    run(requests_.call(ScriptName::kInspect, name, {}), deadline,
        [name, done = std::move(done)](const Result<Reply>& reply) {
          reply ? done(redis::view_of(*reply, name)) : done(reply.error());
        });
  }

  void list(std::string prefix, std::size_t limit, base::BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    auto found = std::make_shared<std::vector<LockInfo>>();
    list_page({std::move(prefix), limit, deadline, std::move(done)}, found, "");
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    const std::string token = request.token.epoch == 0 ? redis::padded(request.token.counter) : "-";
    run(requests_.call(ScriptName::kBreak, request.name,
                       {token, redis::trace_to_json(request.token, request.by)}),
        request.deadline, done_of(request.name, std::move(done)));
  }

  Result<port::WatchHandle> watch(std::string, port::EventSink) override {
    return Error(Errc::kUnsupported, "the lock service does not tell every change yet");
  }

  void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) override {
    read(words({"HF1", "status", "0"}), deadline,
         [way = holdfast::way_to(remote_->address),
          done = std::move(done)](const Result<Reply>& reply) {
           if (!reply) return done(reply.error());
           const auto status = holdfast::status_of(*reply);
           status ? done(holdfast::findings_of(*status, way)) : done(status.error());
         });
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    if (value.size() > kMaxValue) {
      return answer_later(redis::done_answer("toolarge", holder.name), std::move(done));
    }
    run(requests_.call(ScriptName::kSetValue, holder.name,
                       {redis::id_text(holder.id), value, "v", "0", "0"}),
        holder.deadline, done_of(holder.name, std::move(done)));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    if (request.value && request.value->size() > kMaxValue) {
      return answer_later(redis::done_answer("toolarge", request.name), std::move(done));
    }
    run(requests_.call(
            ScriptName::kSetValue, request.name,
            {redis::id_text(request.id), request.value.value_or(""), request.value ? "v" : "-",
             std::to_string(request.seq), std::to_string(request.ttl.count())}),
        request.deadline, done_of(request.name, std::move(done)));
  }

  void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) override {
    read(words({"HF1", "value", "1", redis::record_key(name)}), deadline,
         [done = std::move(done)](const Result<Reply>& reply) {
           reply ? done(reply->text) : done(reply.error());
         });
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return values_->add(redis::value_key(name), std::move(changed));
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    run(requests_.call(ScriptName::kResize, request.name,
                       {redis::id_text(request.id), requests_.client(), std::to_string(capacity)}),
        request.deadline, done_of(request.name, std::move(done)));
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    if (redis::malformed(request)) return refusal(request);
    // A first try, without a subscription, must not wait.
    const bool alone = request.may_wait && !subscriber_.confirmed();
    port::AcquireRequest attempt = request;
    if (alone) attempt.may_wait = false;
    const auto reply = run_here(requests_.acquire(attempt), request.deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<AcquisitionState>(reply->error());
    auto state = redis::acquire_answer((*reply)->text, attempt);
    if (alone && state && state->status == AcquisitionStatus::kBusy) return std::nullopt;
    return state;
  }

  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    const auto reply = run_here(requests_.end("release", request), request.deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<EndStatus>(reply->error());
    return redis::end_answer((*reply)->text, request.name);
  }

  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override {
    if (auto refused = refuse_all(requests)) return Result<Grants>(*std::move(refused));
    const auto reply = run_here(requests_.acquire_all(requests), requests.front().deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<Grants>(reply->error());
    return redis::acquire_all_answer(**reply, requests);
  }

  std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    const auto reply = run_here(requests_.end_all(requests), requests.front().deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<std::vector<Result<EndStatus>>>(reply->error());
    return redis::end_all_answer(**reply, requests);
  }

  port::PushReader* push_reader() override { return &subscriber_.push_reader(); }

  void close(base::BootInstant deadline) override {
    closing_ = true;
    {
      const base::LocalLock lock(mutex_);
      for (auto now = base::BootClock::now(); ends_under_way_ > 0 && now < deadline;
           now = base::BootClock::now()) {
        ended_.wait_for(mutex_, deadline - now);
      }
    }
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

  static std::optional<Error> refuse_all(const std::vector<port::AcquireRequest>& requests) {
    if (auto good = port::check_multi(requests); !good) return good.error();
    for (const port::AcquireRequest& request : requests) {
      if (redis::malformed(request)) return refusal(request).error();
    }
    return std::nullopt;
  }

  template <typename T>
  void answer_later(Result<T> answer, Done<T> done) {
    loop_->post([answer = std::move(answer), done = std::move(done)] { done(answer); });
  }

  static Done<Reply> done_of(std::string name, Done<bool> done) {
    return [name = std::move(name), done = std::move(done)](const Result<Reply>& reply) {
      reply ? done(redis::done_answer(reply->text, name)) : done(reply.error());
    };
  }

  void run(const ScriptCall& call, base::BootInstant deadline, Done<Reply> done) {
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

  // Runs it on the calling thread; nullopt if another thread is using this connection.
  std::optional<Result<Reply>> run_here(const ScriptCall& call, base::BootInstant deadline) {
    auto turn = direct_.try_take();
    if (!turn) return std::nullopt;
    auto replies = turn->call(call.by_hash(), 1, deadline);
    if (!replies) return Result<Reply>(replies.error());
    return redis::checked(std::move(replies->front()), address_);
  }

  void send_acquire(port::AcquireRequest request, Done<AcquisitionState> done) {
    const auto deadline = request.deadline;
    ScriptCall call = requests_.acquire(request);
    run(call, deadline,
        [request = std::move(request), done = std::move(done)](const Result<Reply>& reply) {
          reply ? done(redis::acquire_answer(reply->text, request)) : done(reply.error());
        });
  }

  void end(const char* how, port::AcquisitionRequest request, Done<EndStatus> done) {
    ++ends_under_way_;
    const auto deadline = request.deadline;
    ScriptCall call = requests_.end(how, request);
    run(call, deadline,
        [this, name = std::move(request.name), done = std::move(done)](const Result<Reply>& reply) {
          ended_one();
          reply ? done(redis::end_answer(reply->text, name)) : done(reply.error());
        });
  }

  void ended_one() {
    if (--ends_under_way_ > 0 || !closing_) return;
    const base::LocalLock lock(mutex_);
    ended_.notify_all();
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

  // --- On the loop, or on the thread that reads pushes.

  void on_message(std::string_view payload) {
    if (const auto key = redis::told_value(payload)) return values_->tell(std::string(*key));
    if (const auto push = redis::parse_push(payload)) listener_->on_push(*push);
  }

  // The subscriber's connection always exists, so its loss also reaches a client that only waits.
  void on_lost(const Error& why) {
    if (closing_) return;
    listener_->on_alarm(
        address_ + ": the connection is lost; reconnecting. Waiters keep waiting, leases last " +
        "until their deadlines: " + why.message());
  }

  void on_subscribed(bool again) {
    values_->tell_all();
    if (!again) return listener_->on_pushes_begin();
    listener_->on_alarm(address_ + ": connected again");
    listener_->on_pushes_missed();
  }

  port::Loop* const loop_;
  port::Listener* const listener_;
  const std::string address_;
  const redis::Requests requests_;
  bool durable_ = false;  // Set by connect(), as is the next.
  bool shared_ = false;
  std::atomic<int> subscribing_{0};  // Acquires whose first try, without waiting, is under way.

  std::atomic<std::size_t> ends_under_way_{0};
  std::atomic<bool> closing_{false};  // The thread that ends the last one wakes close().
  base::LocalMutex mutex_;
  base::LocalCondition ended_;  // With the mutex.

  redis::Pipeline pipeline_;
  redis::DirectLink direct_;
  redis::Renewer renewer_;  // The renewal thread's.
  redis::Subscriber subscriber_;
  const std::shared_ptr<port::ValueWatches> values_;
  const redis::RemotePtr remote_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_holdfast_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  if (context.server_tls != nullptr) {
    auto made = holdfast::make_server_tls(context.server_tls->certificate, context.server_tls->key);
    if (!made) return made.error();
    context.server_tls->made = *std::move(made);
    return std::unique_ptr<port::Store>();
  }
  auto address = holdfast::parse_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "holdfast"); !known) return known.error();
  if (context.servers != nullptr) {
    port::ServersJob& job = *context.servers;
    if (job.step_down) {
      auto asked = holdfast::ask_to_step_down(*address);
      if (!asked) return asked.error();
      job.asked = *std::move(asked);
      return std::unique_ptr<port::Store>();
    }
    auto found = holdfast::ask_servers(*address);
    if (!found) return found.error();
    job.found = *std::move(found);
    return std::unique_ptr<port::Store>();
  }
  auto primary = std::make_shared<holdfast::ServicePrimary>(*address);
  auto remote = redis::Remote::make(*std::move(address), std::move(primary));
  if (!remote) return remote.error();
  auto store = std::make_unique<HoldfastStore>(*std::move(remote), context);
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
