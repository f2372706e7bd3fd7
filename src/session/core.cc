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

Result<void> Core::close(std::chrono::nanoseconds limit) {
  if (forked()) return forked_error();
  const BootInstant until = base::BootClock::now() + limit;
  if (closed_.exchange(true)) return await_close(until);
  Result<void> outcome = close_now(until);
  const base::LocalLock lock(mutex_);
  close_outcome_ = outcome;
  drained_.notify_all();
  return outcome;
}

// Another call closes it, or has done so: what that comes to goes for this one.
Result<void> Core::await_close(BootInstant until) {
  const base::LocalLock lock(mutex_);
  while (!close_outcome_) {
    const auto now = base::BootClock::now();
    if (now >= until) {
      return Error(Errc::kTimedOut, "another close()" + at_store() + " is still under way");
    }
    drained_.wait_for(mutex_, until - now);
  }
  return *close_outcome_;
}

Result<void> Core::close_now(BootInstant until) {
  if (!store_) {
    loop_.stop();
    return {};
  }
  end_all();
  std::size_t left = 0;
  {
    const base::LocalLock lock(mutex_);
    while (releases_under_way_ + waiting_.size() + calls_under_way_ > 0) {
      const auto now = base::BootClock::now();
      if (now >= until) break;
      drained_.wait_for(mutex_, until - now);
    }
    left = releases_under_way_ + waiting_.size();
    samplers_.clear();
  }
  store_->close(std::max(until, base::BootClock::now() + std::chrono::milliseconds(10)));
  renewal_.stop();
  {
    // Calls that wait for a reply get one from Store::close(), by the loop.
    const base::LocalLock lock(mutex_);
    while (calls_under_way_ > 0) drained_.wait_for(mutex_, std::chrono::milliseconds(100));
  }
  loop_.stop();
  if (left == 0) return {};
  return Error(Errc::kTimedOut, std::to_string(left) + " releases" + at_store() +
                                    " were not confirmed in time; the store frees those locks at "
                                    "the end of their leases");
}

void Core::close(std::chrono::nanoseconds limit, const Done<void>& done) {
  if (forked()) return done(forked_error());
  try {
    base::start_thread("holdfast-close", [self = shared_from_this(), limit, done] {
      done(self->close(limit));
    }).detach();
  } catch (const std::system_error& error) {
    done(Error(Errc::kUnavailable,
               "no thread to close the client on: " + std::string(error.what())));
  }
}

// Waits end with kClosed, held leases are lost to their holders and given back.
void Core::end_all() {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  std::vector<AcquisitionPtr> waiting;
  for (const auto& [id, acquisition] : waiting_) waiting.push_back(acquisition);
  for (const auto& acquisition : waiting) {
    execute(acquisition, acquisition->acquire->on_cancel(now, Errc::kClosed));
  }
  while (!sleepers_.empty()) rouse(sleepers_.begin()->second, closed_error());
  std::vector<AcquisitionPtr> held;
  for (const auto& [at, acquisition] : schedule_) {
    if (!acquisition->renewal || acquisition->releasing || acquisition->keeping) continue;
    held.push_back(acquisition);
  }
  for (const auto& acquisition : held) {
    lose(acquisition, Error(Errc::kClosed, "the client was closed"));
    if (!acquisition->perhaps_kept) send_release(acquisition);
  }
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
