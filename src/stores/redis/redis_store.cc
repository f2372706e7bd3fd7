#include "src/stores/redis/redis_store.h"

#include <algorithm>
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
#include "src/stores/redis/cluster/cluster.h"
#include "src/stores/redis/cluster_doctor.h"
#include "src/stores/redis/confirming.h"
#include "src/stores/redis/connections.h"
#include "src/stores/redis/doctor.h"
#include "src/stores/redis/guarantees.h"
#include "src/stores/redis/listing.h"
#include "src/stores/redis/opening.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"
#include "src/stores/redis/protocol/owner_json.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/recipes/recipe_backend.h"
#include "src/stores/redis/records.h"
#include "src/stores/redis/renewal_threads.h"
#include "src/stores/redis/sentinel/sentinel_primary.h"
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
using redis::ScriptName;

constexpr std::size_t kMaxValue = 4096;

std::atomic<bool> uses_push_reader{true};

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
        requests_(base::to_hex(base::random_128().high, 0).substr(0, 16), std::move(tuning.now),
                  remote->address.nodes.empty() ? redis::ScriptHost::kServer
                                                : redis::ScriptHost::kCluster),
        server_(make_server(context, remote)),
        cluster_(make_cluster(context, remote)),
        values_(std::make_shared<port::ValueWatches>(
            *loop_, [this](const std::string& channel, bool join) { hear(channel, join); })),
        sentinels_(std::move(sentinels)),
        remote_(std::move(remote)),
        renewals_(
            *loop_,
            [this](const std::vector<port::RenewItem>& items, base::BootInstant deadline) {
              return cluster_ != nullptr ? cluster_->renew(items, deadline)
                                         : server_->renewer().renew(items, deadline);
            },
            /*has_threads=*/remote_->address.replicas > 0) {}

  // Errors: kUnavailable, kPermissionDenied.
  Result<void> connect(base::BootInstant open_by) {
    // The scripts are made before any thread uses this client, because this initializes OpenSSL. A
    // child that is forked during that initialization would wait for its end for ever.
    static_cast<void>(redis::script(ScriptName::kAcquire));
    const base::BootInstant deadline =
        std::min(open_by, base::BootClock::now() + 2 * remote_->address.connect_timeout);
    const ScriptCall rights = requests_.call(ScriptName::kRights, name_space_ + "/", {});
    if (cluster_ != nullptr) {
      if (auto opened = cluster_->open(deadline); !opened) return opened;
      auto greeted = cluster_->owner(rights.slot()).greet(rights, deadline);
      if (greeted) cluster_->greet_all(name_space_ + "/", deadline);
      return greeted;
    }
    if (const auto found = remote_->primary->resolve(deadline); !found) {
      return Error(found.error().code(), address_ + ": " + found.error().message());
    }
    if (auto greeted = server_->greet(rights, deadline); !greeted) return greeted;
    // Subscribes ahead of need: a holder must hear of a break, and the first waiter loses no time.
    server_->subscriber().ensure(deadline, [](const Result<void>&) {});
    return {};
  }

  Guarantees guarantees() const override { return redis::guarantees(remote_->address); }

  // A waiter subscribes before it enters the queue; otherwise it could miss its grant. A first try
  // without waiting needs no subscription, and often gets the lock.
  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    if (redis::malformed(request)) {
      return loop_->post([refused = refusal(request), done = std::move(done)] { done(refused); });
    }
    if (!may_write(request.name))
      return ask_for_rights(&RedisStore::acquire, std::move(request), std::move(done));
    // No acquisition overtakes such a first try: the server would refuse the lower number of the
    // overtaken one as too old.
    const bool hears = hears_of(request.name);
    if (!request.may_wait || (hears && subscribing_ == 0)) {
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
      const std::string name = request.name;
      subscribe(name, deadline, [this, request = std::move(request), done = std::move(done)](
                                       const Result<void>& subscribed) mutable {
        subscribed ? send_acquire(std::move(request), std::move(done)) : done(subscribed.error());
        --subscribing_;
      });
    });
  }

  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    renewals_.renew(std::move(items), deadline, std::move(done));
  }

  // Renewals that have threads do not block each other.
  void give_up_renewal() noexcept override {
    if (!renewals_.blocks()) return;
    cluster_ != nullptr ? cluster_->give_up_renewal() : server_->renewer().give_up();
  }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end("release", std::move(request), std::move(done));
  }

  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end("cancel", std::move(request), std::move(done));
  }

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    if (cluster_ != nullptr) return Store::try_acquire_all(std::move(requests), std::move(done));
    if (auto refused = refuse_all(requests)) {
      return loop_->post([refused = *std::move(refused), done] { done(refused); });
    }
    if (!may_write(requests.front().name)) {
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
    if (cluster_ != nullptr) return Store::release_all(std::move(requests), std::move(done));
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
    const std::vector<redis::Connections*> all = servers();
    auto lists = std::make_shared<redis::Lists>(all.size(), limit, std::move(done));
    for (redis::Connections* server : all) {
      redis::list_locks(
          {reader_of(*server),
           [this](std::string name, base::BootInstant until, Done<std::optional<LockInfo>> then) {
             inspect(std::move(name), until, std::move(then));
           },
           cluster_ != nullptr, [this](const std::string& line) { listener_->on_alarm(line); }},
          prefix, limit, deadline, lists->one_more());
    }
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    if (!may_write(request.name)) {
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
    const auto trial = [this](base::BootInstant until, Done<void> then) {
      try_lock(until, std::move(then));
    };
    if (cluster_ != nullptr) {
      return cluster_->with_all([=, this, done = std::move(done)](
                                    const std::vector<redis::Connections*>& nodes) mutable {
        if (nodes.empty()) return done(Error(Errc::kClosed, "the redis store was closed"));
        redis::ClusterAccess access{{}, trial, {}, remote_->address.tls};
        for (redis::Connections* node : nodes) {
          const redis::RedisAddress& at = node->remote().address;
          access.nodes.push_back({port::Endpoint{at.host, at.port}.text(), reader_of(*node)});
        }
        access.subscribe = [this](base::BootInstant until, Done<void> then) {
          subscribe(trial_name(), until, std::move(then));
        };
        redis::examine_cluster(std::move(access), deadline, std::move(done));
      });
    }
    redis::examine({reader_of(*server_), trial,
                    [this](base::BootInstant until, Done<void> then) {
                      server_->subscriber().ensure(until, std::move(then));
                    },
                    sentinels_ == nullptr ? redis::AskSentinel() : sentinels_->asker()},
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
    read(name, {"GET", key}, deadline, [done = std::move(done)](const Result<Reply>& reply) {
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
    if (!may_write(request.name) || remote_->address.replicas > 0) return std::nullopt;
    if (!hears_of(request.name) && request.may_wait) return acquire_unsubscribed(request);
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
    const auto replies = server_->call_here(requests_.acquire(request), request.deadline, {},
                                            redis::read_of(beside));
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
    if (cluster_ != nullptr) return std::nullopt;
    if (auto refused = refuse_all(requests)) return Result<Grants>(*std::move(refused));
    if (!may_write(requests.front().name) || remote_->address.replicas > 0) return std::nullopt;
    const auto reply = run_here(requests_.acquire_all(requests), requests.front().deadline);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<Grants>(reply->error());
    return redis::acquire_all_answer(**reply, requests);
  }

  std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    if (cluster_ != nullptr) return std::nullopt;
    const bool others_wait = std::any_of(requests.begin(), requests.end(),
                                         [](const auto& one) { return one.others_wait; });
    const auto reply =
        run_here(requests_.end_all(requests), requests.front().deadline, others_wait);
    if (!reply) return std::nullopt;
    if (!*reply) return Result<std::vector<Result<EndStatus>>>(reply->error());
    return redis::end_all_answer(**reply, requests);
  }

  port::PushReader* push_reader() override {
    return uses_push_reader && server_ != nullptr ? &server_->subscriber().push_reader() : nullptr;
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
    cluster_ != nullptr ? cluster_->close() : server_->close();
    renewals_.stop();
    if (sentinels_ != nullptr) sentinels_->close();
  }

  void abandon_after_fork() noexcept override {
    cluster_ != nullptr ? cluster_->abandon() : server_->abandon();
    renewals_.abandon();
    if (sentinels_ != nullptr) sentinels_->abandon();
  }

 private:
  std::unique_ptr<redis::Connections> make_server(const port::StoreContext& context,
                                             const redis::RemotePtr& remote) {
    if (!remote->address.nodes.empty()) return nullptr;
    return std::make_unique<redis::Connections>(
        remote, redis::Connections::Setup{
                    *context.io, requests_, redis::confirmation_of(context, remote->address),
                    redis::channel_of(requests_.client()),
                    {[this](std::string_view payload) { on_message(payload); },
                     [this](bool again) { on_subscribed(again); },
                     [this](const Error& why) { on_lost(why); },
                     [this](std::string_view channel) { values_->tell(std::string(channel)); }},
                    alarm()});
  }

  std::shared_ptr<redis::Cluster> make_cluster(const port::StoreContext& context,
                                               const redis::RemotePtr& remote) {
    if (remote->address.nodes.empty()) return nullptr;
    return std::make_shared<redis::Cluster>(
        *context.io, remote, requests_, name_space_,
        redis::Cluster::Events{
            [this](std::string_view payload, bool current) { on_message(payload, current); },
            [this](const std::string& channel) { values_->tell(channel); },
            [this] { listener_->on_pushes_missed(); }, alarm()});
  }

  std::function<void(std::string)> alarm() {
    return [this](std::string line) {
      loop_->post([this, line = std::move(line)] { listener_->on_alarm(line); });
    };
  }

  std::vector<redis::Connections*> servers() const {
    if (cluster_ != nullptr) return cluster_->owners();
    return {server_.get()};
  }
  redis::Connections& connections_of(std::string_view name) const {
    return cluster_ != nullptr ? cluster_->owner(requests_.slot_of(name)) : *server_;
  }
  // By the permissions at the last check.
  bool may_write(std::string_view name) const { return connections_of(name).may_write(); }

  // Whether grants of this lock are pushed to this client. If not, that is asked for.
  bool hears_of(std::string_view name) {
    if (cluster_ == nullptr) return server_->subscriber().confirmed();
    const std::uint16_t slot = requests_.slot_of(name);
    if (cluster_->subscribed(slot)) return true;
    const auto until = base::BootClock::now() + remote_->address.connect_timeout;
    cluster_->subscribe(slot, until, [](const Result<void>&) {});
    return false;
  }
  void subscribe(std::string_view name, base::BootInstant deadline, Done<void> done) {
    if (cluster_ == nullptr) return server_->subscriber().ensure(deadline, std::move(done));
    cluster_->subscribe(requests_.slot_of(name), deadline, std::move(done));
  }
  void hear(const std::string& channel, bool join) {
    if (cluster_ != nullptr) return join ? cluster_->join(channel) : cluster_->leave(channel);
    join ? server_->subscriber().join(channel) : server_->subscriber().leave(channel);
  }

  // Checks the permissions before the first script that writes, because a script that is refused
  // halfway leaves its first writes behind.
  template <typename Answer, typename Then>
  void with_rights(const std::string& name, base::BootInstant deadline, Done<Answer> done,
                   Then then) {
    redis::Connections* const server = &connections_of(name);
    run(requests_.call(ScriptName::kRights, name, {}), deadline,
        [this, server, then = std::move(then),
         done = std::move(done)](const Result<Reply>& reply) mutable {
          if (!reply) return done(reply.error());
          if (auto may = redis::rights_answer(*reply, address_); !may) return done(may.error());
          server->may_write() = true;
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
    return cluster_ == nullptr && remote_->address.replicas == 0 && !redis::malformed(request) &&
           may_write(request.name) &&
           (!request.may_wait || (server_->subscriber().confirmed() && subscribing_ == 0));
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

  void run(ScriptCall script, base::BootInstant deadline, Done<Reply> done) {
    const bool reads_only = script.reads_only();
    if (cluster_ != nullptr) {
      return cluster_->run(std::move(script), /*confirmed=*/false, deadline,
                           [this, reads_only, done = std::move(done)](Result<Reply> reply,
                                                                      const Missing&) {
                             done(judged(std::move(reply), reads_only));
                           });
    }
    server_->run(std::move(script), deadline,
                 [this, reads_only, done = std::move(done)](Result<Reply> reply) {
                   done(judged(std::move(reply), reads_only));
                 });
  }

  void run_confirmed(ScriptCall script, base::BootInstant deadline,
                     redis::Connections::DoneConfirmed done) {
    auto then = [this, done = std::move(done)](Result<Reply> reply, const Missing& missing) {
      done(judged(std::move(reply)), missing);
    };
    if (cluster_ == nullptr) return server_->run_confirmed(std::move(script), deadline, then);
    cluster_->run(std::move(script), /*confirmed=*/true, deadline, std::move(then));
  }

  std::optional<Result<Reply>> run_here(const ScriptCall& script, base::BootInstant deadline,
                                        bool pushes_first = false) {
    auto reply = cluster_ != nullptr ? cluster_->run_here(script, deadline, pushes_first)
                                     : server_->run_here(script, deadline, pushes_first);
    if (!reply) return std::nullopt;
    return judged(*std::move(reply));
  }

  Result<Reply> judged(Result<Reply> reply, bool reads_only = false) {
    auto outcome = redis::checked(std::move(reply), address_, reads_only);
    if (outcome || outcome.error().code() != Errc::kPermissionDenied) return outcome;
    // A permission was revoked: the next request asks again which ones are left.
    for (redis::Connections* each : servers()) each->may_write() = false;
    return outcome;
  }

  void read(std::string_view name, std::vector<std::string> words, base::BootInstant deadline,
            Done<Reply> done) {
    auto then = [this, done = std::move(done)](Result<Reply> reply) {
      done(redis::checked(std::move(reply), address_, /*reads_only=*/true));
    };
    if (cluster_ != nullptr) {
      return cluster_->read(requests_.slot_of(name), std::move(words), deadline, std::move(then));
    }
    server_->read({words.begin(), words.end()}, deadline, std::move(then));
  }

  // Asks this server, wherever the lock is.
  static decltype(redis::DoctorAccess::read) reader_of(redis::Connections& server) {
    return [&server](const std::vector<std::string_view>& words, base::BootInstant deadline,
                     Done<Reply> done) {
      server.read(words, deadline,
                  [where = server.where(), done = std::move(done)](Result<Reply> reply) {
                    done(redis::checked(std::move(reply), where, /*reads_only=*/true));
                  });
    };
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

  std::string trial_name() const { return redis::trial_name(name_space_, requests_); }

  void try_lock(base::BootInstant deadline, Done<void> done) {
    redis::try_lock(
        {*this, requests_, address_,
         [this](port::AcquireRequest request, Done<AcquisitionState> then) {
           send_acquire(std::move(request), std::move(then));
         },
         [this](ScriptCall script, base::BootInstant until, Done<Reply> then) {
           run(std::move(script), until, std::move(then));
         },
         [this](const std::string& name, std::vector<std::string> words, base::BootInstant until,
                Done<Reply> then) { read(name, std::move(words), until, std::move(then)); }},
        trial_name(), deadline, std::move(done));
  }

  // --- On the loop.

  // `current`: it comes from the server that has the lock now.
  void on_message(std::string_view payload, bool current = true) {
    if (const auto key = redis::told_value(payload)) return values_->tell(std::string(*key));
    auto push = redis::parse_push(payload);
    // A grant that another client's release made counts after a confirmed renewal of one's own.
    const bool counts = current && remote_->address.replicas == 0;
    if (push && !counts) push->kind = port::Push::Kind::kHint;
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
  std::atomic<int> subscribing_{0};  // Acquires whose first try, without waiting, is under way.

  std::atomic<std::size_t> ends_under_way_{0};
  std::atomic<bool> closing_{false};  // The thread that ends the last one wakes close().
  base::LocalMutex mutex_;
  base::LocalCondition ended_;  // With the mutex.

  const std::unique_ptr<redis::Connections> server_;  // Null in a cluster.
  const std::shared_ptr<redis::Cluster> cluster_;     // Null elsewhere.
  const std::shared_ptr<port::ValueWatches> values_;
  const std::shared_ptr<redis::SentinelPrimary> sentinels_;
  const redis::RemotePtr remote_;
  redis::RenewalThreads renewals_;
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
  auto opening = redis::read_url(std::move(url), context);
  if (!opening) return opening.error();
  if (context.records != nullptr) return redis::make_records(*std::move(opening), context);
  if (opening->recipe.recipe != redis::Recipe::kNone) {
    return recipes::make_store(
        redis::make_recipe_backend(std::move(opening->remote), opening->recipe, context), context);
  }
  auto store = std::make_unique<RedisStore>(
      std::move(opening->remote), std::move(opening->sentinels), context, std::move(tuning));
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
