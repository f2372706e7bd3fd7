#include "src/session/core.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "src/base/exit_gate.h"
#include "src/base/fork_guard.h"
#include "src/base/random.h"
#include "src/base/thread.h"
#include "src/session/core_call.h"

namespace holdfast::session {
namespace {

// How long the last handle's destructor waits for releases that were queued: a second, less what it
// takes to end when the store does not answer.
constexpr auto kParting = std::chrono::milliseconds(900);

machine::OwnerInfo describe_owner(const ClientOptions& options) {
  machine::OwnerInfo owner;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  owner.host = host;
  owner.pid = ::getpid();
  owner.program = options.program.empty() ? program_invocation_short_name : options.program;
  const base::Random128 random = base::random_128();
  owner.owner = !options.owner.empty() ? options.owner
                                       : owner.host + "/" + std::to_string(owner.pid) + "/" +
                                             base::to_hex(random.high, random.low).substr(0, 12);
  return owner;
}

// Sums of instants and durations must not overflow.
CoreOptions bounded(CoreOptions options) {
  options.client.request_timeout =
      std::min<std::chrono::milliseconds>(options.client.request_timeout, Core::kLongestRequest);
  return options;
}

}  // namespace

Core::Core(CoreOptions options)
    : options_(bounded(std::move(options))),
      feed_(options_.client.observer ? std::make_shared<ObserverFeed>(options_.client.observer)
                                     : nullptr),
      generation_(base::process_generation()),
      owner_(describe_owner(options_.client)),
      loop_([this] { on_timer(); }) {
  bound_.rate_error_ppm = options_.client.clock_rate_error_ppm;
}

Result<std::shared_ptr<Core>> Core::make(port::StoreFactory factory, port::StoreUrl url,
                                         CoreOptions options) {
  base::arm_exit_gate();
  std::shared_ptr<Core> core(new Core(std::move(options)), &Core::dispose);
  port::StoreContext context{&core->loop_, core.get(), core->owner_.owner, &core->loop_.io(),
                             core->options_.name_space};
  const auto open_timeout = core->options_.open_timeout;
  if (open_timeout > open_timeout.zero()) context.open_by = base::BootClock::now() + open_timeout;
  auto store = factory(std::move(url), context);
  if (!store) return store.error();
  core->store_ = *std::move(store);
  const Guarantees promised = core->store_->guarantees();
  if (promised.bound_to_client) core->longest_lease_ = promised.min_ttl;
  return core;
}

void Core::dispose(Core* core) {
  if (core->forked()) {
    // The parent's threads, sockets and files are not ours to close: leave them all alone.
    if (core->store_) core->store_->abandon_after_fork();
    return;
  }
  if (base::on_library_thread()) {
    base::start_thread("holdfast-close", [core] { delete core; }).detach();
  } else {
    delete core;
  }
}

Core::~Core() {
  static_cast<void>(close(kParting));
  notifier_.stop();
}

bool Core::forked() const noexcept { return base::process_generation() != generation_; }

Error Core::forked_error() const {
  return {Errc::kClosed, "this process is a forked child of the one that connected to " +
                             options_.store_url + ": locks are not inherited; connect anew"};
}

Result<void> Core::check_alive() const {
  if (forked()) return forked_error();
  if (closed_.load(std::memory_order_acquire)) return closed_error();
  return {};
}

Error Core::closed_error() const {
  return {Errc::kClosed, "the client of " + options_.store_url + " was closed"};
}

Core::Call::Call(Core& core) : core_(core), alive_(core.check_alive()) {
  if (!alive_) return;
  const base::LocalLock lock(core_.mutex_);
  if (core_.closed_) {
    alive_ = core_.closed_error();
  } else {
    ++core_.calls_under_way_;
  }
}

Core::Call::~Call() {
  if (alive_ && !core_.forked()) core_.end_call();
}

void Core::end_call() {
  const base::LocalLock lock(mutex_);
  --calls_under_way_;
  if (closed_) drained_.notify_all();
}

Core::Turn::~Turn() HOLDFAST_NO_TSA {
  std::vector<std::function<void()>> answers;
  answers.swap(core_.answers_);
  std::vector<AcquisitionPtr> woken;
  woken.swap(core_.woken_);
  const bool to_send = !core_.outbox_.empty();
  const bool nudge = std::any_of(woken.begin(), woken.end(), [](const AcquisitionPtr& acquisition) {
    return acquisition->push_reader && *acquisition->push_reader != std::this_thread::get_id();
  });
  core_.mutex_.unlock();
  // First, and not before they could have the mutex: this is on the way of every handoff.
  for (const AcquisitionPtr& acquisition : woken) acquisition->changed.notify_all();
  if (nudge) core_.store_->push_reader()->nudge();
  for (auto& answer : answers) on_loop_ ? core_.answer_later(std::move(answer)) : answer();
  if (to_send) core_.send_outbox();
}

void Core::answer_later(std::function<void()> answer) {
  late_answers_.push_back(std::move(answer));
  if (late_answers_.size() > 1) return;
  loop_.post([this] {
    std::vector<std::function<void()>> answers;
    answers.swap(late_answers_);
    for (const auto& each : answers) each();
  });
}

BootInstant Core::request_deadline() const {
  return base::BootClock::now() + options_.client.request_timeout;
}

std::string Core::stored(const std::string& name) const {
  return options_.name_space.empty() ? name : options_.name_space + "/" + name;
}

std::string Core::shown(const std::string& stored_name) const {
  const std::size_t skip = options_.name_space.empty() ? 0 : options_.name_space.size() + 1;
  return stored_name.substr(std::min(skip, stored_name.size()));
}

port::OwnerPtr Core::owner_info(const std::string& reason, const std::string& trace_id,
                                const std::optional<Owner>& owner) const {
  auto info = std::make_shared<machine::OwnerInfo>(owner_);
  if (owner) info->owner = owner->id();
  info->reason = reason;
  info->trace_id = trace_id;
  info->since_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::wall_now().time_since_epoch())
          .count();
  return info;
}

std::string Core::owner_of(const Acquisition& acquisition) const {
  return acquisition.options.owner ? acquisition.options.owner->id() : owner_.owner;
}

std::string Core::at_store() const { return " (" + options_.store_url + ")"; }

void Core::on_push(const port::Push& push) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  const auto found = waiting_.find(push.id);
  if (found != waiting_.end()) {
    const AcquisitionPtr acquisition = found->second;
    if (acquisition->acquire) execute(acquisition, acquisition->acquire->on_push(now, push));
    return;
  }
  // A hint about a lock that is held (it was broken, perhaps): look at once.
  for (const auto& [at, acquisition] : schedule_) {
    if (acquisition->id != push.id || !acquisition->renewal || acquisition->releasing) continue;
    const AcquisitionPtr held = acquisition;
    apply(held, held->renewal->on_doubt(now));
    break;
  }
}

void Core::on_pushes_missed() {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  std::vector<AcquisitionPtr> waiting;
  for (const auto& [id, acquisition] : waiting_) waiting.push_back(acquisition);
  for (const AcquisitionPtr& acquisition : waiting) {
    if (!acquisition->acquire) continue;
    const port::Push hint{port::Push::Kind::kHint, acquisition->id, {}};
    execute(acquisition, acquisition->acquire->on_push(now, hint));
  }
  look_at_what_is_held();
}

void Core::on_pushes_begin() {
  const Turn turn(*this);
  look_at_what_is_held();
}

}  // namespace holdfast::session
