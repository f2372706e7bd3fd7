#include "src/session/core_base.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <thread>

#include "src/base/fork_guard.h"
#include "src/base/random.h"
#include "src/session/async/gathered_handlers.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

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
  options.client.request_timeout = std::min<std::chrono::milliseconds>(
      options.client.request_timeout, CoreBase::kLongestRequest);
  return options;
}

}  // namespace

CoreBase::CoreBase(CoreOptions options)
    : options_(bounded(std::move(options))),
      generation_(base::process_generation()),
      owner_(describe_owner(options_.client)),
      // The turn takes the mutex first. Whoever armed the timer held it, and all layers were made
      // by then.
      loop_([this] {
        const Turn turn(*this);
        on_timer();
      }) {
  bound_.rate_error_ppm = options_.client.clock_rate_error_ppm;
}

bool CoreBase::forked() const noexcept { return base::process_generation() != generation_; }

Error CoreBase::forked_error() const {
  return {Errc::kClosed, "this process is a forked child of the one that connected to " +
                             options_.store_url + ": locks are not inherited; connect again"};
}

Result<void> CoreBase::check_alive() const {
  if (forked()) return forked_error();
  if (closed_.load(std::memory_order_acquire)) return closed_error();
  return {};
}

Error CoreBase::closed_error() const {
  return {Errc::kClosed, "the client of " + options_.store_url + " was closed"};
}

CoreBase::Call::Call(CoreBase& core) : core_(core), alive_(core.check_alive()) {
  if (alive_ && !core_.begin_call()) alive_ = core_.closed_error();
}

CoreBase::Call::~Call() {
  if (alive_ && !core_.forked()) core_.end_call();
}

bool CoreBase::begin_call() {
  ++calls_under_way_;
  if (!closed_) return true;
  end_call();
  return false;
}

void CoreBase::end_call() {
  if (--calls_under_way_ > 0 || !closed_) return;
  const base::LocalLock lock(mutex_);
  drained_.notify_all();
}

CoreBase::Turn::~Turn() HOLDFAST_NO_TSA {
  std::vector<std::function<void()>> answers;
  answers.swap(core_.answers_);
  std::vector<WaitPtr> woken;
  woken.swap(core_.woken_);
  const bool to_send = !core_.outbox_.empty();
  core_.mutex_.unlock();
  // Woken first, because each handoff waits for it.
  if (!on_loop_) {
    core_.wake_threads(woken);
    for (const auto& answer : answers) answer();
  } else if (!woken.empty() || !answers.empty()) {
    if (core_.late_woken_.empty() && core_.late_answers_.empty()) {
      core_.loop_.post([&core = core_] { core.answer_gathered(); });
    }
    std::move(woken.begin(), woken.end(), std::back_inserter(core_.late_woken_));
    std::move(answers.begin(), answers.end(), std::back_inserter(core_.late_answers_));
  }
  if (to_send) core_.send_outbox();
}

void CoreBase::wake_threads(const std::vector<WaitPtr>& woken) {
  bool nudge = false;
  for (const auto& wait : woken) {
    // A caller alone may get the loop with its answer; one that reads pushes needs none.
    if (woken.size() == 1 && (wait->word.get() & Wait::kReads) == 0) {
      loop_.answer([wait] { wait->word.set(Wait::kFinished); });
      continue;
    }
    const bool reads = (wait->word.set(Wait::kFinished) & Wait::kReads) != 0;
    nudge = nudge || (reads && wait->thread != std::this_thread::get_id());
    loop_.word_was_set();
  }
  // A waiter may be reading pushes instead of sleeping.
  if (nudge) store_->push_reader()->nudge();
}

void CoreBase::answer_later(std::function<void()> answer) {
  if (late_woken_.empty() && late_answers_.empty()) loop_.post([this] { answer_gathered(); });
  late_answers_.push_back(std::move(answer));
}

void CoreBase::answer_gathered() {
  std::vector<std::function<void()>> answers;
  answers.swap(late_answers_);
  std::vector<WaitPtr> woken;
  woken.swap(late_woken_);
  wake_threads(woken);
  const GatheredHandlers together;
  for (const auto& answer : answers) answer();
}

BootInstant CoreBase::request_deadline() const {
  return base::BootClock::now() + options_.client.request_timeout;
}

std::string CoreBase::stored(const std::string& name) const {
  return options_.name_space.empty() ? name : options_.name_space + "/" + name;
}

std::string CoreBase::shown(const std::string& stored_name) const {
  const std::size_t skip = options_.name_space.empty() ? 0 : options_.name_space.size() + 1;
  return stored_name.substr(std::min(skip, stored_name.size()));
}

port::OwnerPtr CoreBase::owner_info(const std::string& reason, const std::string& trace_id,
                                    const std::optional<Owner>& owner, Duration lock_delay) const {
  auto info = std::make_shared<machine::OwnerInfo>(owner_);
  if (owner) info->owner = owner->id();
  info->reason = reason;
  info->trace_id = trace_id;
  info->lock_delay = lock_delay;
  info->since_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::wall_now().time_since_epoch())
          .count();
  return info;
}

std::string CoreBase::owner_of(const Acquisition& acquisition) const {
  const auto& labels = acquisition.labels;
  return labels && labels->owner ? labels->owner->id() : owner_.owner;
}

std::string CoreBase::at_store() const { return " (" + options_.store_url + ")"; }

std::string CoreBase::lock_here(const Acquisition& lock) const {
  return lock_named(lock.name) + at_store();
}

std::string CoreBase::lock_before(const Acquisition& lock, const Error& why) const {
  const std::string scheme = options_.store_url.substr(0, options_.store_url.find(':'));
  return why.message().starts_with(scheme + ':') ? lock_named(lock.name) : lock_here(lock);
}

port::AcquisitionRequest CoreBase::end_of(const Acquisition& acquisition) const {
  return {stored(acquisition.name), acquisition.id, request_deadline(), acquisition.issue,
          acquisition.queued};
}

void CoreBase::schedule(const AcquisitionPtr& acquisition, BootInstant at) {
  if (at == BootInstant::max()) return unschedule(*acquisition);
  schedule_.put(acquisition, at);
  arm(at);
}

void CoreBase::unschedule(Acquisition& acquisition) {
  static_cast<void>(schedule_.remove(acquisition));
}

std::int64_t CoreBase::slack_ns(const Acquisition& acquisition) const {
  return bound_.slack(acquisition.ttl).count();
}

// The timer may be too early, because its reason is gone; the next turn arms it again.
void CoreBase::arm(BootInstant at) {
  if (at >= armed_at_) return;
  armed_at_ = at;
  loop_.arm(at);
}

}  // namespace holdfast::session
