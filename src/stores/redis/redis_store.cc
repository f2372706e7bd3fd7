#include "src/stores/redis/redis_store.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/port/read_behind.h"
#include "src/recipes/recipe_store.h"
#include "src/stores/redis/cluster/cluster.h"
#include "src/stores/redis/connections.h"
#include "src/stores/redis/counter.h"
#include "src/stores/redis/doctor/cluster_doctor.h"
#include "src/stores/redis/doctor/doctor.h"
#include "src/stores/redis/doctor/trial.h"
#include "src/stores/redis/guarantees.h"
#include "src/stores/redis/listing.h"
#include "src/stores/redis/opening.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/recipes/recipe_backend.h"
#include "src/stores/redis/records.h"
#include "src/stores/redis/renewal_threads.h"
#include "src/stores/redis/script_store.h"
#include "src/stores/redis/sentinel/sentinel_primary.h"

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

std::atomic<bool> uses_push_reader{true};

class RedisStore final : public redis::ScriptStore {
 public:
  // `sentinels`: null for a plain server.
  RedisStore(redis::RemotePtr remote, std::shared_ptr<redis::SentinelPrimary> sentinels,
             const port::StoreContext& context, RedisTuning tuning)
      : ScriptStore(context, remote->address.display(),
                    base::to_hex(base::random_128().high, 0).substr(0, 16), std::move(tuning.now),
                    remote->address.nodes.empty() ? redis::ScriptHost::kServer
                                                  : redis::ScriptHost::kCluster),
        name_space_(context.name_space),
        server_(make_server(context, remote)),
        cluster_(make_cluster(context, remote)),
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

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    if (!redis::malformed(request) && !may_write(request.name)) {
      return ask_for_rights(&RedisStore::acquire, std::move(request), std::move(done));
    }
    ScriptStore::acquire(std::move(request), std::move(done));
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

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    if (cluster_ != nullptr) return Store::try_acquire_all(std::move(requests), std::move(done));
    if (!requests.empty() && !may_write(requests.front().name)) {
      with_rights<Grants>(requests.front().name, requests.front().deadline, std::move(done),
                          [this, requests](Done<Grants> then) mutable {
                            try_acquire_all(std::move(requests), std::move(then));
                          });
      return;
    }
    ScriptStore::try_acquire_all(std::move(requests), std::move(done));
  }

  void release_all(std::vector<port::AcquisitionRequest> requests,
                   Done<std::vector<Result<EndStatus>>> done) override {
    if (cluster_ != nullptr) return Store::release_all(std::move(requests), std::move(done));
    ScriptStore::release_all(std::move(requests), std::move(done));
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
    ScriptStore::break_lock(std::move(request), std::move(done));
  }

  void probe(base::BootInstant deadline, Done<std::vector<Finding>> done) override {
    const auto trial = [this](base::BootInstant until, Done<void> then) {
      try_lock(until, std::move(then));
    };
    if (cluster_ != nullptr) {
      return cluster_->with_all(
          [=, this, done = std::move(done)](const std::vector<redis::Connections*>& nodes) mutable {
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

  void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) override {
    const std::string key = redis::value_key(name);
    read(name, {"GET", key}, deadline, [done = std::move(done)](const Result<Reply>& reply) {
      reply ? done(reply->text) : done(reply.error());
    });
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    if (!goes_inline(request.name)) return std::nullopt;
    return ScriptStore::acquire_inline(request);
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

  std::optional<Result<StateAndValue>> acquire_and_read_inline(const port::AcquireRequest& request,
                                                               const std::string& beside) override {
    if (!goes_at_once(request)) return std::nullopt;
    const auto replies = server_->call_here(requests_.acquire(request), request.deadline, {},
                                            redis::read_of(beside));
    if (!replies) return std::nullopt;
    if (!*replies) return Result<StateAndValue>(replies->error());
    const auto state = judged((*replies)->front());
    if (!state) return Result<StateAndValue>(state.error());
    return redis::acquire_and_read_answer(*state, (*replies)->back(), request);
  }

  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override {
    if (cluster_ != nullptr) return std::nullopt;
    if (!requests.empty() && !goes_inline(requests.front().name)) return std::nullopt;
    return ScriptStore::try_acquire_all_inline(requests);
  }

  std::optional<Result<std::vector<Result<EndStatus>>>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    if (cluster_ != nullptr) return std::nullopt;
    return ScriptStore::release_all_inline(requests);
  }

  port::PushReader* push_reader() override {
    return uses_push_reader && server_ != nullptr ? &server_->subscriber().push_reader() : nullptr;
  }

  void close(base::BootInstant deadline) override {
    await_ends(deadline);
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
                    *context.io,
                    requests_,
                    redis::confirmation_of(context, remote->address),
                    redis::channel_of(requests_.client()),
                    {[this](std::string_view payload) { on_push(payload); },
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
            [this](std::string_view payload, bool current) { on_push(payload, current); },
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
  bool hears_of(std::string_view name) override {
    if (cluster_ == nullptr) return server_->subscriber().confirmed();
    const std::uint16_t slot = requests_.slot_of(name);
    if (cluster_->subscribed(slot)) return true;
    const auto until = base::BootClock::now() + remote_->address.connect_timeout;
    cluster_->subscribe(slot, until, [](const Result<void>&) {});
    return false;
  }
  void subscribe(std::string_view name, base::BootInstant deadline, Done<void> done) override {
    if (cluster_ == nullptr) return server_->subscriber().ensure(deadline, std::move(done));
    cluster_->subscribe(requests_.slot_of(name), deadline, std::move(done));
  }
  void hear(const std::string& channel, bool join) override {
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
           (!request.may_wait || (server_->subscriber().confirmed() && none_subscribes()));
  }

  // On the calling thread, which no question and no replica may keep.
  bool goes_inline(std::string_view name) const {
    return may_write(name) && remote_->address.replicas == 0;
  }

  void run(ScriptCall script, base::BootInstant deadline, Done<Reply> done) override {
    const bool reads_only = script.reads_only();
    if (cluster_ != nullptr) {
      return cluster_->run(
          std::move(script), /*confirmed=*/false, deadline,
          [this, reads_only, done = std::move(done)](Result<Reply> reply, const Missing&) {
            done(judged(std::move(reply), reads_only));
          });
    }
    server_->run(std::move(script), deadline,
                 [this, reads_only, done = std::move(done)](Result<Reply> reply) {
                   done(judged(std::move(reply), reads_only));
                 });
  }

  void run_confirmed(ScriptCall script, base::BootInstant deadline,
                     redis::Connections::DoneConfirmed done) override {
    auto then = [this, done = std::move(done)](Result<Reply> reply, const Missing& missing) {
      done(judged(std::move(reply)), missing);
    };
    if (cluster_ == nullptr) {
      return server_->run_confirmed(std::move(script), deadline, std::move(then));
    }
    cluster_->run(std::move(script), /*confirmed=*/true, deadline, std::move(then));
  }

  std::optional<Result<Reply>> run_here(const ScriptCall& script, base::BootInstant deadline,
                                        bool pushes_first) override {
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

  // `current`: it comes from the server that has the lock now. With replicas, a grant that another
  // client's release made counts after a confirmed renewal of one's own.
  void on_push(std::string_view payload, bool current = true) {
    on_message(payload, /*counts=*/current && remote_->address.replicas == 0);
  }

  const std::string name_space_;
  const std::unique_ptr<redis::Connections> server_;  // Null in a cluster.
  const std::shared_ptr<redis::Cluster> cluster_;     // Null elsewhere.
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
  if (context.counter != nullptr) return redis::make_counter(*std::move(opening), context);
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
