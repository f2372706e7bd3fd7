#include "src/stores/zookeeper/transport/link.h"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <zookeeper/zookeeper.h>

namespace holdfast::stores::zookeeper {

// The requests without an answer of the library.
class Calls {
 public:
  struct Call {
    Calls* all;
    Link::Done done;
  };

  explicit Calls(port::Loop& loop) : loop_(&loop) {}

  const Call* add(Link::Done done) {
    auto call = std::make_unique<Call>(Call{this, std::move(done)});
    const Call* const key = call.get();
    const std::lock_guard lock(mutex_);
    calls_.emplace(key, std::move(call));
    return key;
  }
  void answer(const Call* call, Reply reply) {
    std::unique_lock lock(mutex_);
    const auto found = calls_.extract(call);
    lock.unlock();
    post(found.mapped()->done, std::move(reply));
  }
  // Call it after the library's threads have ended. They drop requests that they have not
  // completed.
  void answer_all(int rc) {
    std::unique_lock lock(mutex_);
    const auto left = std::exchange(calls_, {});
    lock.unlock();
    for (const auto& [key, call] : left) post(call->done, Reply{rc});
  }

 private:
  void post(const Link::Done& done, Reply reply) {
    loop_->post([done, reply = std::move(reply)] { done(reply); });
  }

  port::Loop* loop_;
  std::mutex mutex_;
  std::unordered_map<const Call*, std::unique_ptr<Call>> calls_;
};

namespace {

using Call = Calls::Call;

// When an even number of servers all refuse, version 3.8.0 of the library then tries only every
// second one, hundreds of times a second, and may never ask a server that is back. An odd number
// avoids this, so one server is named twice.
std::string odd_number_of(const std::string& servers) {
  const auto commas = std::count(servers.begin(), servers.end(), ',');
  return commas % 2 == 0 ? servers : servers + "," + servers.substr(0, servers.find(','));
}

NodeStat stat_from(const Stat* stat) {
  if (stat == nullptr) return {};
  return {static_cast<std::uint64_t>(stat->czxid),
          static_cast<std::uint64_t>(stat->mzxid),
          stat->version,
          stat->cversion,
          stat->dataLength,
          stat->mtime};
}

void answer(const void* data, Reply reply) {
  const auto* const call = static_cast<const Call*>(data);
  call->all->answer(call, std::move(reply));
}

void on_text(int rc, const char* text, const Stat* stat, const void* data) {
  Reply reply{rc};
  if (rc == ZOK) {
    reply.text = text != nullptr ? text : "";
    reply.stat = stat_from(stat);
  }
  answer(data, std::move(reply));
}

void on_data(int rc, const char* value, int length, const Stat* stat, const void* data) {
  Reply reply{rc};
  if (rc == ZOK) {
    if (value != nullptr && length > 0) reply.text.assign(value, static_cast<std::size_t>(length));
    reply.stat = stat_from(stat);
  }
  answer(data, std::move(reply));
}

void on_names(int rc, const String_vector* names, const Stat* stat, const void* data) {
  Reply reply{rc};
  if (rc == ZOK) {
    for (int i = 0; names != nullptr && i < names->count; ++i) {
      reply.names.emplace_back(names->data[i]);
    }
    reply.stat = stat_from(stat);
  }
  answer(data, std::move(reply));
}

void on_stat(int rc, const Stat* stat, const void* data) {
  Reply reply{rc};
  if (rc == ZOK) reply.stat = stat_from(stat);
  answer(data, std::move(reply));
}

void on_void(int rc, const void* data) { answer(data, Reply{rc}); }

void on_path(int rc, const char*, const void* data) { answer(data, Reply{rc}); }

void ignore_log(const char*) {}

}  // namespace

struct Link::State {
  State(port::Loop& on, std::function<void(LinkEvent)> tell)
      : loop(&on), calls(on), on_event(std::move(tell)) {}

  // The target of a watch. It is freed after its call, or with the link.
  struct Watch {
    std::weak_ptr<State> state;
    std::weak_ptr<contend::Waker> waker;
    std::string then_list;
  };

  // A listing that the library's thread requested when a watch fired, ahead of the loop. The woken
  // waiter uses it. It was requested after every answer that the loop had got by then.
  struct Ahead {
    std::string path;
    Done done;  // Empty until a waiter wants it.
  };

  zhandle_t* handle = nullptr;
  port::Loop* loop;
  Calls calls;
  std::function<void(LinkEvent)> on_event;  // Called on the loop.
  Options options;
  const ACL_vector* acl = &ZOO_OPEN_ACL_UNSAFE;
  bool logs_in = false;
  std::atomic<bool> closed{false};
  std::mutex mutex;
  std::unordered_map<Watch*, std::unique_ptr<Watch>> watches;
  std::weak_ptr<State>* self = nullptr;  // The context of the library's handle.
  std::shared_ptr<Ahead> ahead;          // On the loop, while it wakes a waiter.

  Watch* add(const std::shared_ptr<State>& owner, const contend::WakerPtr& waker,
             const std::string& then_list) {
    if (!waker) return nullptr;
    auto watch = std::make_unique<Watch>(Watch{owner, waker, then_list});
    Watch* const key = watch.get();
    const std::lock_guard lock(mutex);
    watches.emplace(key, std::move(watch));
    return key;
  }
  void drop(Watch* watch) {
    const std::lock_guard lock(mutex);
    watches.erase(watch);
  }

  static void on_session(zhandle_t*, int type, int state, const char*, void* context) {
    if (type != ZOO_SESSION_EVENT || context == nullptr) return;
    const auto self = static_cast<std::weak_ptr<State>*>(context)->lock();
    if (!self || self->closed) return;
    const LinkEvent event = state == ZOO_CONNECTED_STATE         ? LinkEvent::kConnected
                            : state == ZOO_EXPIRED_SESSION_STATE ? LinkEvent::kExpired
                            : state == ZOO_AUTH_FAILED_STATE     ? LinkEvent::kAuthFailed
                                                                 : LinkEvent::kDisconnected;
    self->loop->post([self, event] {
      if (!self->closed) self->on_event(event);
    });
  }

  static void on_watch(zhandle_t*, int type, int, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT || context == nullptr) return;  // The library renews the watch.
    auto* const watch = static_cast<Watch*>(context);
    const auto self = watch->state.lock();
    if (!self || self->closed) return;
    const bool lists = !watch->then_list.empty() && !watch->waker.expired();
    auto listing = lists ? std::make_shared<Ahead>(Ahead{watch->then_list, {}}) : nullptr;
    // Posted before the listing's answer can be.
    self->loop->post([self, watch, listing] {
      if (self->closed) return;
      const auto waker = watch->waker.lock();
      self->drop(watch);
      if (!waker) return;
      self->ahead = listing;
      waker->wake();
      self->ahead = nullptr;
    });
    if (lists) self->ask_for(listing);
  }

  void ask_for(const std::shared_ptr<Ahead>& listing) {
    const Call* const asked = call(Done::always([listing](const Reply& reply) {
      if (listing->done) std::exchange(listing->done, {})(reply);
    }));
    sent(zoo_awget_children2(handle, listing->path.c_str(), nullptr, nullptr, &on_names, asked),
         asked);
  }

  // The library sets no watch on a missing node.
  const Call* call_for(const std::shared_ptr<State>& owner, Watch* watch, Done done) {
    if (watch == nullptr) return call(std::move(done));
    return call(Done::always([owner, watch, done = std::move(done)](const Reply& reply) {
      if (reply.rc != ZOK) owner->drop(watch);
      done(reply);
    }));
  }

  // Also answers a request that the library refused at once.
  void sent(int rc, const Call* call) const {
    if (rc == ZOK) return;
    answer(call, Reply{rc});
  }
  const Call* call(Done done) { return calls.add(std::move(done)); }
};

// After a server's address changes, it is found again within this time.
constexpr int kLooksUpAgainMs = 1000;

std::shared_ptr<Link> Link::open(const Options& options, port::Loop& loop,
                                 std::function<void(LinkEvent)> on_event) {
  auto state = std::make_shared<State>(loop, std::move(on_event));
  state->options = options;
  // The handle owns this pointer: callbacks may come until zookeeper_close() returns.
  state->self = new std::weak_ptr<State>(state);
  zoo_deterministic_conn_order(0);
  // The library's log is off, because it names servers and paths. Its errors reach us as codes.
  state->handle = zookeeper_init2(odd_number_of(options.servers).c_str(), &State::on_session,
                                  static_cast<int>(options.session.count()), nullptr, state->self,
                                  0, &ignore_log);
  if (state->handle == nullptr) {
    delete state->self;
    return nullptr;
  }
  // Without a delay the library looks the servers' names up in nearly every turn of its thread.
  zoo_set_servers_resolution_delay(state->handle, kLooksUpAgainMs);
  if (!options.auth.empty()) state->acl = &ZOO_CREATOR_ALL_ACL;
  auto link = std::shared_ptr<Link>(new Link(std::move(state)));
  static_cast<void>(link->log_in());
  return link;
}

// From then on the library sends the log-in first on every connection.
bool Link::log_in() {
  const std::string& auth = state_->options.auth;
  if (state_->logs_in || auth.empty()) return true;
  state_->logs_in = zoo_add_auth(state_->handle, "digest", auth.data(),
                                 static_cast<int>(auth.size()), nullptr, nullptr) == ZOK;
  return state_->logs_in;
}

Link::Link(std::shared_ptr<State> state) : state_(std::move(state)) {}

Link::~Link() { close(); }

void Link::close() {
  if (state_->closed.exchange(true) || state_->handle == nullptr) return;
  // This waits for the library's threads, so no callback runs afterwards.
  zookeeper_close(state_->handle);
  state_->calls.answer_all(ZCLOSING);
  delete state_->self;
  const std::lock_guard lock(state_->mutex);
  state_->watches.clear();
}

void Link::abandon() noexcept { state_->closed = true; }

void Link::create(const std::string& path, const std::string& data, NodeKind kind, Done done) {
  const int mode = kind == NodeKind::kPersistent  ? ZOO_PERSISTENT
                   : kind == NodeKind::kContainer ? ZOO_CONTAINER
                   : kind == NodeKind::kEphemeral ? ZOO_EPHEMERAL
                                                  : ZOO_EPHEMERAL_SEQUENTIAL;
  const Call* const call = state_->call(std::move(done));
  state_->sent(zoo_acreate2(state_->handle, path.c_str(), data.data(),
                            static_cast<int>(data.size()), state_->acl, mode, &on_text, call),
               call);
}

void Link::get(const std::string& path, const contend::WakerPtr& waker, Done done,
               const std::string& then_list) {
  auto* const watch = state_->add(state_, waker, then_list);
  const Call* const call = state_->call_for(state_, watch, std::move(done));
  state_->sent(zoo_awget(state_->handle, path.c_str(), watch ? &State::on_watch : nullptr, watch,
                         &on_data, call),
               call);
}

void Link::children(const std::string& path, const contend::WakerPtr& waker, Done done) {
  const auto& listing = state_->ahead;
  // The woken waiter takes the listing that is already under way.
  if (listing && !waker && !listing->done && listing->path == path) {
    listing->done = std::move(done);
    return;
  }
  auto* const watch = state_->add(state_, waker, {});
  const Call* const call = state_->call_for(state_, watch, std::move(done));
  state_->sent(zoo_awget_children2(state_->handle, path.c_str(), watch ? &State::on_watch : nullptr,
                                   watch, &on_names, call),
               call);
}

void Link::set(const std::string& path, const std::string& data, std::int32_t version, Done done) {
  const Call* const call = state_->call(std::move(done));
  state_->sent(zoo_aset(state_->handle, path.c_str(), data.data(), static_cast<int>(data.size()),
                        version, &on_stat, call),
               call);
}

void Link::remove(const std::string& path, Done done) {
  const Call* const call = state_->call(std::move(done));
  state_->sent(zoo_adelete(state_->handle, path.c_str(), -1, &on_void, call), call);
}

void Link::sync(const std::string& path, Done done) {
  const Call* const call = state_->call(std::move(done));
  state_->sent(zoo_async(state_->handle, path.c_str(), &on_path, call), call);
}

namespace {

constexpr std::size_t kMostDigits = 11;  // "-2147483648"

// The library reads and writes these until the request is answered.
struct Batch {
  std::vector<Step> steps;
  std::vector<zoo_op_t> ops;
  std::vector<zoo_op_result_t> results;
  std::vector<Stat> stats;
  std::vector<std::string> paths;
};

void prepare(Batch& batch, const ACL_vector* acl) {
  const std::size_t count = batch.steps.size();
  batch.ops.resize(count);
  batch.results.resize(count);
  batch.stats.resize(count);
  batch.paths.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Step& step = batch.steps[i];
    const int length = static_cast<int>(step.data.size());
    switch (step.kind) {
      case Step::Kind::kCheck:
        zoo_check_op_init(&batch.ops[i], step.path.c_str(), step.version);
        break;
      case Step::Kind::kSet:
        zoo_set_op_init(&batch.ops[i], step.path.c_str(), step.data.data(), length, step.version,
                        &batch.stats[i]);
        break;
      case Step::Kind::kCreate:
      case Step::Kind::kEnter: {
        const bool enters = step.kind == Step::Kind::kEnter;
        // Room for the number that the server appends, and for the terminating zero.
        batch.paths[i].resize(step.path.size() + (enters ? kMostDigits : 0) + 1);
        zoo_create_op_init(&batch.ops[i], step.path.c_str(), step.data.data(), length, acl,
                           enters ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_PERSISTENT,
                           batch.paths[i].data(), static_cast<int>(batch.paths[i].size()));
        break;
      }
      case Step::Kind::kRemove:
        zoo_delete_op_init(&batch.ops[i], step.path.c_str(), step.version);
        break;
    }
  }
}

// For an applied batch.
Reply reply_of(const Batch& batch) {
  Reply reply;
  bool set = false;
  for (std::size_t i = 0; i < batch.steps.size(); ++i) {
    const Step::Kind kind = batch.steps[i].kind;
    if (kind == Step::Kind::kEnter) reply.names.emplace_back(batch.paths[i].c_str());
    if (kind != Step::Kind::kSet || std::exchange(set, true)) continue;
    reply.stat = stat_from(&batch.stats[i]);
  }
  return reply;
}

}  // namespace

void Link::multi(std::vector<Step> steps, Done done) {
  auto batch = std::make_shared<Batch>();
  batch->steps = std::move(steps);
  prepare(*batch, state_->acl);
  const Call* const call =
      state_->call(Done::always([batch, done = std::move(done)](const Reply& reply) {
        done(reply.rc == ZOK ? reply_of(*batch) : reply);
      }));
  state_->sent(zoo_amulti(state_->handle, static_cast<int>(batch->ops.size()), batch->ops.data(),
                          batch->results.data(), &on_void, call),
               call);
}

std::uint64_t Link::session_id() const {
  return static_cast<std::uint64_t>(zoo_client_id(state_->handle)->client_id);
}

std::chrono::milliseconds Link::session_length() const {
  return std::chrono::milliseconds(zoo_recv_timeout(state_->handle));
}

bool Link::asked() const {
  const int state = zoo_state(state_->handle);
  return state != ZOO_CONNECTING_STATE && state != ZOO_NOTCONNECTED_STATE;
}

std::string Link::server() const {
  const char* const server = zoo_get_current_server(state_->handle);
  return server != nullptr ? server : "";
}

void Link::leave_server() {
  // Removing the current server from the list makes the library connect to another one.
  const std::string now = server();
  std::string others;
  std::string all = state_->options.servers;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    const std::string each = all.substr(at, end - at);
    if (each != now) others += (others.empty() ? "" : ",") + each;
    at = end + 1;
  }
  if (others.empty() || others == all) return;
  zoo_set_servers(state_->handle, odd_number_of(others).c_str());
}

}  // namespace holdfast::stores::zookeeper
