#include "src/stores/redis/redis_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/port/multi_request.h"
#include "src/port/read_behind.h"
#include "src/port/value_watches.h"
#include "src/recipes/recipe_store.h"
#include "src/stores/redis/confirming.h"
#include "src/stores/redis/doctor.h"
#include "src/stores/redis/guarantees.h"
#include "src/stores/redis/listing.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"
#include "src/stores/redis/protocol/owner_json.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/recipes/options.h"
#include "src/stores/redis/recipes/recipe_backend.h"
#include "src/stores/redis/renewer.h"
#include "src/stores/redis/sentinel/sentinel_primary.h"
#include "src/stores/redis/transport/confirmed_link.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/handshake.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/subscriber.h"
#include "src/stores/redis/trial.h"

namespace holdfast::stores {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;
using port::Done;
using port::EndStatus;
using redis::Missing;
using redis::Reply;
using redis::ScriptCall;
using redis::ScriptClock;
using redis::ScriptName;

constexpr std::size_t kMaxValue = 4096;

std::atomic<bool> uses_push_reader{true};

Error closed_error() { return {Errc::kClosed, "the redis store was closed"}; }

Result<AcquisitionState> refusal(const port::AcquireRequest& request) {
  return redis::acquire_answer("invalid", request);
}

class RedisStore final : public port::Store {
 public:
  // `sentinels`: null for a plain server.
  RedisStore(redis::RemotePtr remote, std::shared_ptr<redis::SentinelPrimary> sentinels,
             const port::StoreContext& context, RedisTuning tuning)
      : loop_(context.loop),
        listener_(context.listener),
        name_space_(context.name_space),
        address_(remote->address.display()),
        requests_(base::to_hex(base::random_128().high, 0).substr(0, 16), std::move(tuning.now)),
        pipeline_(*context.io, remote),
        confirmed_(redis::make_confirmed(context, remote)),
        direct_(remote),
        renewer_(remote, requests_, redis::confirmation_of(context, remote->address),
                 [this](std::string line) {
                   loop_->post([this, line = std::move(line)] { listener_->on_alarm(line); });
                 }),
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
        sentinels_(std::move(sentinels)),
        remote_(std::move(remote)) {}

  // Errors: kUnavailable, kPermissionDenied.
  Result<void> connect(base::BootInstant open_by) {
    // The scripts are made before any thread uses this client, because this initializes OpenSSL. A
    // child that is forked during that initialization would wait for its end for ever.
    static_cast<void>(redis::script(ScriptName::kAcquire, redis::ScriptClock::kServer));
    const base::BootInstant deadline =
        std::min(open_by, base::BootClock::now() + 2 * remote_->address.connect_timeout);
    if (const auto found = remote_->primary->resolve(deadline); !found) {
      return Error(found.error().code(), address_ + ": " + found.error().message());
    }
    auto turn = direct_.try_take();
    if (!turn) return closed_error();
    const std::string_view words[] = {"TIME"};
    std::string wire;
    redis::append_command(wire, words);
    wire += requests_.call(ScriptName::kRights, name_space_ + "/", {}).whole();
    const base::BootInstant sent = base::BootClock::now();
    const auto replies = turn->call(wire, 2, deadline, /*reads_only=*/true);
    if (!replies) return replies.error();
    // If the permissions are incomplete here, the first request checks them for its own lock.
    may_write_ = redis::rights_answer(replies->back(), address_).has_value();
    if (auto reply = redis::checked(replies->front(), address_); !reply) return reply.error();
    if (const std::vector<Reply>& time = replies->front().items; time.size() == 2) {
      std::string micros = "00000" + time[1].text;
      renewer_.watch_clock(sent, time[0].text + micros.substr(micros.size() - 6));
    }
    // Subscribes ahead of need: a holder must hear of a break, and the first waiter loses no time.
    subscriber_.ensure(deadline, [](const Result<void>&) {});
    return {};
  }

  Guarantees guarantees() const override { return redis::guarantees(remote_->address); }

  // A waiter subscribes before it enters the queue; otherwise it could miss its grant. A first try
  // without waiting needs no subscription, and often gets the lock.
  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    if (redis::malformed(request)) {
      return loop_->post([refused = refusal(request), done = std::move(done)] { done(refused); });
    }
    if (!may_write_)
      return ask_for_rights(&RedisStore::acquire, std::move(request), std::move(done));
    // No acquisition overtakes such a first try: the server would refuse the lower number of the
    // overtaken one as too old.
    if (!request.may_wait || (subscriber_.confirmed() && subscribing_ == 0)) {
      send_acquire(std::move(request), std::move(done));
      return;
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
        subscribed ? send_acquire(std::move(request), std::move(done)) : done(subscribed.error());
        --subscribing_;
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
      return loop_->post([refused = *std::move(refused), done] { done(refused); });
    }
    if (!may_write_) {
      with_rights<Grants>(requests.front().name, requests.front().deadline, std::move(done),
                          [this, requests](Done<Grants> then) mutable {
                            try_acquire_all(std::move(requests), std::move(then));
                          });
      return;
    }
    ScriptCall script = requests_.acquire_all(requests);
    const auto deadline = requests.front().deadline;
    run_confirmed(std::move(script), deadline,
                  [this, requests = std::move(requests), done = std::move(done)](
                      const Result<Reply>& reply, const Missing& missing) mutable {
                    if (!reply) return done(reply.error());
                    auto grants = redis::acquire_all_answer(*reply, requests);
                    if (missing.empty() || !grants || !*grants) return done(std::move(grants));
                    redis::give_back_all(*this, address_, requests, missing, std::move(done));
                  });
  }

  void release_all(std::vector<port::AcquisitionRequest> requests,
                   Done<std::vector<Result<EndStatus>>> done) override {
    ++ends_under_way_;
    ScriptCall script = requests_.end_all(requests);
    const auto deadline = requests.front().deadline;
    run(std::move(script), deadline,
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
    redis::list_locks(
        {[this](const std::vector<std::string_view>& words, base::BootInstant until,
                Done<Reply> then) { read(words, until, std::move(then)); },
         [this](std::string name, base::BootInstant until, Done<std::optional<LockInfo>> then) {
           inspect(std::move(name), until, std::move(then));
         },
         [this](const std::string& line) { listener_->on_alarm(line); }},
        std::move(prefix), limit, deadline, std::move(done));
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    if (!may_write_) {
      return ask_for_rights(&RedisStore::break_lock, std::move(request), std::move(done));
    }
    const std::string token = request.token.epoch == 0 ? redis::padded(request.token.counter) : "-";
    run(requests_.call(ScriptName::kBreak, request.name,
                       {token, redis::trace_to_json(request.token, request.by)}),
        request.deadline, told(request.name, std::move(done)));
  }

  Result<port::WatchHandle> watch(std::string, port::EventSink) override {
    return Error(Errc::kUnsupported, "the redis store does not tell every change");
  }

  void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) override {
    redis::examine(
        {[this](const std::vector<std::string_view>& words, base::BootInstant until,
                Done<Reply> then) { read(words, until, std::move(then)); },
         [this](base::BootInstant until, Done<void> then) { try_lock(until, std::move(then)); },
         [this](base::BootInstant until, Done<void> then) {
           subscriber_.ensure(until, std::move(then));
         }},
        remote_->address, deadline, std::move(done));
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    if (value.size() > kMaxValue) return refuse_value(holder.name, std::move(done));
    run_confirmed(requests_.call(ScriptName::kSetValue, holder.name,
                                 {redis::id_text(holder.id), value, "v", "0", "0"}),
                  holder.deadline, redis::value_set(address_, holder.name, std::move(done)));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    if (request.value && request.value->size() > kMaxValue) {
      return refuse_value(request.name, std::move(done));
    }
    run_confirmed(
        requests_.call(ScriptName::kSetValue, request.name,
                       {redis::id_text(request.id), request.value.value_or(""),
                        request.value ? "v" : "-", std::to_string(request.seq),
                        std::to_string(request.ttl.count())}),
        request.deadline, redis::value_set(address_, request.name, std::move(done)));
  }

  void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) override {
    const std::string key = redis::value_key(name);
    read({"GET", key}, deadline, [done = std::move(done)](const Result<Reply>& reply) {
      reply ? done(reply->text) : done(reply.error());
    });
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return values_->add(redis::value_key(name), std::move(changed));
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    run(requests_.call(ScriptName::kResize, request.name,
                       {redis::id_text(request.id), requests_.client(), std::to_string(capacity)}),
        request.deadline, told(request.name, std::move(done)));
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    if (redis::malformed(request)) return refusal(request);
    if (!may_write_ || confirmed_ != nullptr) return std::nullopt;
    if (request.may_wait && !subscriber_.confirmed()) return acquire_unsubscribed(request);
    const auto reply = run_here(requests_.acquire(request), request.deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<AcquisitionState>(reply->error());
    return redis::acquire_answer((*reply)->text, request);
  }

  // The pipeline answers in the order of execution, and sends nothing of an old connection later.
  void acquire_and_read(port::AcquireRequest request, std::string beside,
                        Done<StateAndValue> done) override {
    if (!goes_at_once(request)) {
      return Store::acquire_and_read(std::move(request), std::move(beside), std::move(done));
    }
    const auto deadline = request.deadline;
    port::acquire_and_read_behind(
        [&](auto told) { send_acquire(std::move(request), std::move(told)); },
        [=, this](auto told) { get_value(beside, deadline, std::move(told)); }, std::move(done));
  }

  std::optional<Result<StateAndValue>> acquire_and_read_inline(
      const port::AcquireRequest& request, const std::string& beside) override {
    if (!goes_at_once(request)) return std::nullopt;
    const auto replies =
        call_here(requests_.acquire(request), request.deadline, {}, redis::read_of(beside));
    if (!replies) return std::nullopt;
    if (!*replies) return Result<StateAndValue>(replies->error());
    const auto state = judged((*replies)->front());
    if (!state) return Result<StateAndValue>(state.error());
    return redis::acquire_and_read_answer(*state, (*replies)->back(), request);
  }

  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    const auto reply =
        run_here(requests_.end("release", request), request.deadline, request.others_wait);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<EndStatus>(reply->error());
    return redis::end_answer((*reply)->text, request.name);
  }

  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override {
    if (auto refused = refuse_all(requests)) return Result<Grants>(*std::move(refused));
    if (!may_write_ || confirmed_ != nullptr) return std::nullopt;
    const auto reply = run_here(requests_.acquire_all(requests), requests.front().deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<Grants>(reply->error());
    return redis::acquire_all_answer(**reply, requests);
  }

  std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    const bool others_wait = std::any_of(requests.begin(), requests.end(),
                                         [](const auto& one) { return one.others_wait; });
    const auto reply =
        run_here(requests_.end_all(requests), requests.front().deadline, others_wait);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<std::vector<Result<EndStatus>>>(reply->error());
    return redis::end_all_answer(**reply, requests);
  }

  port::PushReader* push_reader() override {
    return uses_push_reader ? &subscriber_.push_reader() : nullptr;
  }

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
    if (confirmed_ != nullptr) confirmed_->close();
    subscriber_.close();
    direct_.close();
    renewer_.close();
    if (sentinels_ != nullptr) sentinels_->close();
  }

  void abandon_after_fork() noexcept override {
    pipeline_.abandon();
    if (confirmed_ != nullptr) confirmed_->abandon();
    subscriber_.abandon();
    direct_.abandon();
    renewer_.abandon();
    if (sentinels_ != nullptr) sentinels_->abandon();
  }

 private:
  // Checks the permissions before the first script that writes, because a script that is refused
  // halfway leaves its first writes behind.
  template <typename Answer, typename Then>
  void with_rights(const std::string& name, base::BootInstant deadline, Done<Answer> done,
                   Then then) {
    run(requests_.call(ScriptName::kRights, name, {}), deadline,
        [this, then = std::move(then), done = std::move(done)](const Result<Reply>& reply) mutable {
          if (!reply) return done(reply.error());
          if (auto may = redis::rights_answer(*reply, address_); !may) return done(may.error());
          may_write_ = true;
          then(std::move(done));
        });
  }

  template <typename Request, typename Answer>
  void ask_for_rights(void (RedisStore::*then)(Request, Done<Answer>), Request request,
                      Done<Answer> done) {
    const std::string name = request.name;
    const auto deadline = request.deadline;
    with_rights<Answer>(name, deadline, std::move(done),
                        [this, then, request = std::move(request)](Done<Answer> next) mutable {
                          (this->*then)(std::move(request), std::move(next));
                        });
  }

  // Over this store's usual connections, without a question before it.
  bool goes_at_once(const port::AcquireRequest& request) const {
    return !redis::malformed(request) && may_write_ && confirmed_ == nullptr &&
           (!request.may_wait || (subscriber_.confirmed() && subscribing_ == 0));
  }

  void refuse_value(const std::string& name, Done<bool> done) {
    loop_->post([name, done = std::move(done)] { done(redis::done_answer("toolarge", name)); });
  }

  static Done<Reply> told(std::string name, Done<bool> done) {
    return [name = std::move(name), done = std::move(done)](const Result<Reply>& reply) {
      reply ? done(redis::done_answer(reply->text, name)) : done(reply.error());
    };
  }

  static std::optional<Error> refuse_all(const std::vector<port::AcquireRequest>& requests) {
    if (auto good = port::check_multi(requests); !good) return good.error();
    for (const port::AcquireRequest& request : requests) {
      if (redis::malformed(request)) return refusal(request).error();
    }
    return std::nullopt;
  }

  // Sends the script's hash, or its whole text while the server is not known to have it (after a
  // restart or a failover). Hashes only go out once the server has shown that it knows the script:
  // a request that is refused for an unknown hash is sent again, and later requests would overtake
  // it.
  void run(ScriptCall script, base::BootInstant deadline, Done<Reply> done) {
    const bool known = known_[index_of(script)];
    redis::Command command{known ? script.by_hash() : script.whole(), script.reads_only()};
    if (known) command.part = script.batch_part_of(command.wire);
    pipeline_.send(std::move(command), deadline,
                   [this, script = std::move(script), deadline,
                    done = std::move(done)](Result<Reply> reply) mutable {
                     if (!note_known(script, reply)) {
                       return done(judged(std::move(reply), script.reads_only()));
                     }
                     pipeline_.send({script.whole(), script.reads_only()}, deadline,
                                    [this, script, done = std::move(done)](Result<Reply> whole) {
                                      note_known(script, whole);
                                      done(judged(std::move(whole), script.reads_only()));
                                    });
                   });
  }

  // As run(), and tells whether the replicas have confirmed it.
  using DoneConfirmed = std::function<void(Result<Reply>, const Missing&)>;
  void run_confirmed(ScriptCall script, base::BootInstant deadline, DoneConfirmed done) {
    if (confirmed_ == nullptr) {
      return run(std::move(script), deadline,
                 [done = std::move(done)](Result<Reply> reply) { done(std::move(reply), {}); });
    }
    const bool known = known_[index_of(script)];
    std::string wire = known ? script.by_hash() : script.whole();
    confirmed_->send(std::move(wire), deadline,
                     [this, script = std::move(script), deadline,
                      done = std::move(done)](Result<redis::ConfirmedReply> answer) mutable {
                       if (!answer) return done(answer.error(), {});
                       Result<Reply> reply = std::move(answer->reply);
                       // Unknown from now on, so it goes whole.
                       if (note_known(script, reply)) {
                         return run_confirmed(std::move(script), deadline, std::move(done));
                       }
                       done(judged(std::move(reply)), answer->missing);
                     });
  }

  // Returns true if the script must be sent whole.
  bool note_known(const ScriptCall& script, const Result<Reply>& reply) {
    const bool unknown = redis::is_unknown_script(reply);
    if (reply && known_[index_of(script)] == unknown) known_[index_of(script)] = !unknown;
    return unknown;
  }

  static std::size_t index_of(const ScriptCall& script) {
    return static_cast<std::size_t>(script.name());
  }

  // Runs the script on the calling thread; nullopt if another thread is using this connection.
  // `pushes_first` puts a PING before the script. The server writes its answers in the reverse
  // order in which they became due, and the PING makes this connection's answer due first. So the
  // next holder gets its grant before this caller gets its answer.
  std::optional<Result<Reply>> run_here(const ScriptCall& script, base::BootInstant deadline,
                                        bool pushes_first = false) {
    auto replies =
        call_here(script, deadline, pushes_first ? redis::Handshake::ping() : std::string(), {});
    if (!replies) return std::nullopt;
    if (!*replies) return Result<Reply>(replies->error());
    return judged(std::move((*replies)->back()));
  }

  // With one command before the script, or one after it; "": none.
  std::optional<Result<std::vector<Reply>>> call_here(const ScriptCall& script,
                                                      base::BootInstant deadline,
                                                      const std::string& before,
                                                      const std::string& after) {
    auto turn = direct_.try_take();
    if (!turn) return std::nullopt;
    const std::size_t at = before.empty() ? 0 : 1;
    const auto call = [&](const std::string& text) {
      return turn->call(before + text + after, at + (after.empty() ? 1 : 2), deadline);
    };
    auto replies = call(known_[index_of(script)] ? script.by_hash() : script.whole());
    if (replies && note_known(script, (*replies)[at])) replies = call(script.whole());
    return replies;
  }

  Result<Reply> judged(Result<Reply> reply, bool reads_only = false) {
    auto outcome = redis::checked(std::move(reply), address_, reads_only);
    // A permission was revoked: the next request asks again which ones are left.
    if (!outcome && outcome.error().code() == Errc::kPermissionDenied) may_write_ = false;
    return outcome;
  }

  void read(const std::vector<std::string_view>& words, base::BootInstant deadline,
            Done<Reply> done) {
    redis::Command command;
    command.reads_only = true;
    redis::append_command(command.wire, words);
    pipeline_.send(std::move(command), deadline,
                   [this, done = std::move(done)](Result<Reply> reply) {
                     done(redis::checked(std::move(reply), address_, /*reads_only=*/true));
                   });
  }

  // Tries without waiting; nullopt if it would have to wait.
  std::optional<Result<AcquisitionState>> acquire_unsubscribed(port::AcquireRequest request) {
    request.may_wait = false;
    auto state = acquire_inline(request);
    if (state && *state && (*state)->status == AcquisitionStatus::kBusy) return std::nullopt;
    return state;
  }

  void send_acquire(port::AcquireRequest request, Done<AcquisitionState> done) {
    ScriptCall script = requests_.acquire(request);
    const auto deadline = request.deadline;
    run_confirmed(
        std::move(script), deadline,
        [this, request = std::move(request), done = std::move(done)](const Result<Reply>& reply,
                                                                     const Missing& missing) {
          if (!reply) return done(reply.error());
          auto state = redis::acquire_answer(reply->text, request);
          const bool held = state && state->status == AcquisitionStatus::kHeld;
          if (held && !missing.empty()) {
            return redis::give_back(*this, address_, request, missing, done);
          }
          done(std::move(state));
        });
  }

  void ended_one() {
    if (--ends_under_way_ > 0 || !closing_) return;
    const base::LocalLock lock(mutex_);
    ended_.notify_all();
  }

  void end(const char* how, port::AcquisitionRequest request, Done<EndStatus> done) {
    ++ends_under_way_;
    ScriptCall script = requests_.end(how, request);
    const auto deadline = request.deadline;
    run(std::move(script), deadline,
        [this, request = std::move(request), done = std::move(done)](const Result<Reply>& reply) {
          ended_one();
          reply ? done(redis::end_answer(reply->text, request.name)) : done(reply.error());
        });
  }

  void try_lock(base::BootInstant deadline, Done<void> done) {
    const std::string name =
        (name_space_.empty() ? "" : name_space_ + "/") + "holdfast-doctor/" + requests_.client();
    redis::try_lock(
        {*this,
         [this](port::AcquireRequest request, Done<AcquisitionState> then) {
           send_acquire(std::move(request), std::move(then));
         },
         [=, this](const Done<void>& then) {
           run(requests_.call(ScriptName::kRights, name,
                              {"doctor", redis::channel_of(requests_.client())}),
               deadline, [this, then](const Result<Reply>& reply) {
                 then(reply ? redis::rights_answer(*reply, address_) : reply.error());
               });
         },
         [=, this](const port::Task& then) {
           const std::string key = redis::record_key(name);
           read({"DEL", key, key + ":t", key + ":h", key + ":w", key + ":q", key + ":m", key + ":b",
                 key + ":v"},
                base::BootClock::now() + std::chrono::seconds(1),
                [then](const Result<Reply>&) { then(); });
         }},
        name, deadline, std::move(done));
  }

  // --- On the loop.

  void on_message(std::string_view payload) {
    if (const auto key = redis::told_value(payload)) return values_->tell(std::string(*key));
    auto push = redis::parse_push(payload);
    // A grant that another client's release made counts after a confirmed renewal of one's own.
    if (push && confirmed_ != nullptr) push->kind = port::Push::Kind::kHint;
    if (push) listener_->on_push(*push);
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
  const std::string name_space_;
  const std::string address_;
  const redis::Requests requests_;
  std::array<std::atomic<bool>, redis::kScripts> known_{};  // To the server, by its answers.
  std::atomic<bool> may_write_{false};                      // By the permissions at the last check.

  std::atomic<int> subscribing_{0};  // Acquires whose first try, without waiting, is under way.

  std::atomic<std::size_t> ends_under_way_{0};
  std::atomic<bool> closing_{false};  // The thread that ends the last one wakes close().
  base::LocalMutex mutex_;
  base::LocalCondition ended_;  // With the mutex.

  redis::Pipeline pipeline_;
  const std::unique_ptr<redis::ConfirmedLink> confirmed_;  // Null unless replicas have to confirm.
  redis::DirectLink direct_;
  redis::Renewer renewer_;  // After connect(), the renewal thread's.
  redis::Subscriber subscriber_;
  const std::shared_ptr<port::ValueWatches> values_;
  const std::shared_ptr<redis::SentinelPrimary> sentinels_;
  const redis::RemotePtr remote_;
};

}  // namespace

void use_push_reader(bool use) noexcept { uses_push_reader = use; }

Result<std::unique_ptr<port::Store>> make_redis_store(port::StoreUrl url,
                                                      const port::StoreContext& context) {
  return make_redis_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_redis_store_for_test(port::StoreUrl url,
                                                               const port::StoreContext& context,
                                                               RedisTuning tuning) {
  const auto recipe = redis::take_recipe_options(url);
  if (!recipe) return recipe.error();
  auto address = redis::parse_redis_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "redis"); !known) return known.error();
  if (auto fits = redis::check_recipe(*recipe, *address); !fits) return fits.error();
  std::shared_ptr<redis::SentinelPrimary> sentinels;
  if (!address->sentinels.empty()) {
    auto made = redis::SentinelPrimary::make(
        *context.io, *address,
        [listener = context.listener](const std::string& line) { listener->on_alarm(line); });
    if (!made) return made.error();
    sentinels = *std::move(made);
  }
  auto remote = redis::Remote::make(*std::move(address), sentinels);
  if (!remote) return remote.error();
  if (recipe->recipe != redis::Recipe::kNone) {
    return recipes::make_store(redis::make_recipe_backend(*std::move(remote), *recipe, context),
                               context);
  }
  auto store = std::make_unique<RedisStore>(*std::move(remote), std::move(sentinels), context,
                                            std::move(tuning));
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
