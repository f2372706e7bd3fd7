#include "src/cli/run/lock_attempt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>

#include "holdfast/detail/transient.h"
#include "holdfast/stores.h"
#include "src/cli/guard/guard.h"
#include "src/cli/look/who.h"
#include "src/cli/options/duration.h"
#include "src/cli/process/boottime.h"
#include "src/cli/run/alarms.h"
#include "src/cli/run/said_if_late.h"
#include "src/cli/run/self_lock.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

using namespace std::chrono_literals;

// Without it nobody would wake up the thread that waits.
Bell::Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_.get() >= 0) return;
  throw std::system_error(errno, std::generic_category(), "cannot start to ask for the lock");
}

void Bell::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void Bell::quiet() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd_.get(), &count, sizeof count);
}

LockAttempt::LockAttempt(const Signals& signals, const Narrator& narrator, LockRequest request)
    : signals_(signals),
      narrator_(narrator),
      request_(std::move(request)),
      shared_(std::make_shared<Shared>()) {}

namespace {

constexpr Duration kLeastOpening = 2s;
// A person who waits for longer is told why.
constexpr Duration kMostOpening = 10s;
// Where nothing has to be taken back, such as while the store is opened.
constexpr Duration kToStop = 200ms;
// The library asks to take a request back for so long, and ends the wait by itself a little later.
constexpr Duration kToLeave = 2s;
constexpr Duration kToHearThat = 1s;
// Too little for another request.
constexpr Duration kLeastRest = 20ms;
// Without a limit of the wait: a store that is away for longer, or that is not there at all, is an
// error that somebody has to hear of.
constexpr Duration kStorePatience = 60s;
constexpr Duration kFirstPause = 100ms;
constexpr Duration kLongestPause = 1s;

std::int64_t steady_ms() {
  return std::chrono::floor<Duration>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// nullopt: somebody holds the lock, or it is not known.
std::optional<LockInfo> closed_by_delay(const Client& client, const std::string& name) {
  auto info = client.inspect(name);
  if (!info || !*info || (*info)->opens_in() == Duration::zero()) return std::nullopt;
  return *std::move(info);
}

// The rest of the wait once the store is open: at least a little, because zero means no wait.
Duration rest_of(Duration wait, Duration passed) {
  return std::max(wait - passed, std::min<Duration>(wait, 100ms));
}

// False: cancelled.
bool pause_for(Duration time, const std::stop_token& cancel) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, cancel, time, [] { return false; });
  return !cancel.stop_requested();
}

}  // namespace

// A store on this host does not come back by itself.
bool LockAttempt::waits_for_store() const {
  const StoreKind* const kind = store_of_url(request_.store.url);
  const auto& wait = request_.lock.wait;
  return (kind == nullptr || kind->over_network) && (!wait || *wait > Duration::zero());
}

void LockAttempt::hold_up(Shared& shared, std::string why) {
  {
    const std::lock_guard guard(shared.mutex);
    if (shared.held_up) return;
    shared.held_up = std::move(why);
  }
  shared.bell.ring();
}

bool LockAttempt::begin_to_ask(Shared& shared, const std::stop_token& cancel) {
  const std::lock_guard guard(shared.mutex);
  if (cancel.stop_requested()) return false;
  return shared.asked = true;
}

Result<Lease> LockAttempt::ask(const std::shared_ptr<Shared>& shared,
                               std::stop_token cancel) const {
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto lease = ask_once(shared, cancel);
    if (lease || !waits_for_store()) return lease;
    const Error& why = lease.error();
    if (!detail::is_transient(why.code()) || is_own_want(why)) return lease;
    const auto& wait = request_.lock.wait;
    const Duration rest = wait.value_or(kStorePatience) - passed();
    if (rest <= kLeastRest) return lease;
    hold_up(*shared, narrator_.lock() + ": waiting for the store to be back: " + why.message());
    if (!pause_for(std::min(pause, rest - kLeastRest), cancel)) return lease;
  }
}

Result<void> LockAttempt::open(const std::shared_ptr<Shared>& shared) const {
  const std::string& url = request_.store.url;
  ClientOptions options;
  // A caller with a short wait hears within it that nobody answers.
  if (waits_for_store() && request_.lock.wait) {
    // A distant store has two seconds, however short the wait is.
    const Duration least = std::max(kLeastOpening - passed(), Duration(1));
    const Duration most = url_option(url, "open_timeout") ? Duration::max() : kMostOpening;
    options.open_timeout = std::clamp(*request_.lock.wait - passed(), least, most);
  }
  options.program = request_.program;
  const Narrator::Setup& setup = narrator_.setup();
  options.owner = setup.who.owner;
  const Alarms alarms(setup.people && !setup.quiet ? relay : Alarms::Tell());
  options.log_event = [shared, tell = alarms.sink()](const LogEvent& event) {
    // The library waits for this store's first answer itself.
    if (event.event == "store" && !event.lock.empty()) return hold_up(*shared, event.text);
    tell(event);
  };
  auto client = Client::connect(url, std::move(options));
  if (!client) return client.error();
  shared->client = *std::move(client);
  return {};
}

Result<Lease> LockAttempt::ask_once(const std::shared_ptr<Shared>& shared,
                                    std::stop_token cancel) const {
  if (!shared->client) {
    if (const auto opened = open(shared); !opened) return opened.error();
  }
  const Client& client = *shared->client;
  const std::string& name = request_.lock.name;
  if (client.guarantees().ends_with_client) {
    if (!request_.auto_renew) {
      return Error(Errc::kUnsupported,
                   "locks of this store end with the process that took them: use 'holdfast hold' "
                   "or 'holdfast run'");
    }
    if (request_.outlives_us) {
      return Error(Errc::kUnsupported,
                   "locks of this store end with the process that took them, so none can be kept "
                   "for --min-hold (min_hold of the configuration)");
    }
  }
  // The run around this one ends only after it, so a wait for its lock would never end.
  const auto around = find_held_around(client, name);
  if (!around) return around.error();
  if (*around) {
    if (!request_.reenter) return self_deadlock(**around, name);
    if (auto cannot = cannot_reenter(**around, name, request_.lock.mode)) return *cannot;
    shared->around = (*around)->holder;
    return self_deadlock(**around, name);
  }
  if (!begin_to_ask(*shared, cancel)) return Error(Errc::kCancelled, "the wait was cancelled");
  AcquireOptions how = options_of(shared, std::move(cancel));
  if (request_.fit) {
    if (const auto fits = request_.fit(client.guarantees(), how); !fits) return fits.error();
  }
  const bool waits = how.wait != Duration::zero();
  auto lease = [&]() -> Result<Lease> {
    if (!request_.proclaim) return client.acquire(name, request_.lock.mode, std::move(how));
    auto leading = client.election(name).campaign(*request_.proclaim, std::move(how));
    if (!leading) return leading.error();
    return std::move(leading->lease());
  }();
  // Only waiters are told of a lock-delay by the store itself.
  const bool busy = !waits && !lease && lease.error().code() == Errc::kTimedOut;
  if (busy) shared->closed = closed_by_delay(client, name);
  if (shared->closed) shared->opens_at_ms = steady_ms() + shared->closed->opens_in().count();
  return lease;
}

AcquireOptions LockAttempt::options_of(const std::shared_ptr<Shared>& shared,
                                       std::stop_token cancel) const {
  AcquireOptions how;
  if (const auto& wait = request_.lock.wait) how.wait = rest_of(*wait, passed());
  how.ttl = request_.lock.ttl.value_or(Duration::zero());
  how.lock_delay = request_.lock.lock_delay;
  how.cancel = std::move(cancel);
  how.reason = request_.lock.reason;
  how.trace_id = request_.lock.trace_id;
  how.auto_renew = request_.auto_renew;
  how.outlives_client = request_.outlives_us;
  how.on_queued = [shared](std::uint32_t ahead) {
    shared->ahead = ahead;
    shared->queued = true;
    shared->bell.ring();
  };
  how.on_lock_delay = [shared](std::chrono::milliseconds opens_in) {
    shared->opens_at_ms = steady_ms() + opens_in.count();
    shared->queued = true;
    shared->bell.ring();
  };
  return how;
}

namespace {

Error why_no_guard(int guard_fd) {
  const auto said = receive_message(guard_fd);
  if (!said || said->word != GuardWord::kCannotStart) {
    return {Errc::kClosed, "the guard process has died"};
  }
  return cannot_start_guard(said->number);
}

}  // namespace

std::optional<AttemptOutcome> LockAttempt::look_around(int guard_fd) {
  std::array<pollfd, 3> watched{
      {{signals_.fd(), POLLIN, 0}, {shared_->bell.fd(), POLLIN, 0}, {guard_fd, POLLIN, 0}}};
  ::poll(watched.data(), watched.size(), -1);
  shared_->bell.quiet();
  tell_held_up();
  if (shared_->queued.exchange(false)) tell_waiting();
  AttemptOutcome stopped;
  if (const auto signal = signals_.next_ending()) {
    stopped.signal = *signal;
    return stopped;
  }
  if (watched[2].revents == 0) return std::nullopt;
  stopped.error = why_no_guard(guard_fd);
  return stopped;
}

bool LockAttempt::has_asked() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->asked;
}

void LockAttempt::ask_aside(const std::shared_ptr<Shared>& shared, std::stop_token cancel) const {
  try {
    shared->result.emplace(ask(shared, std::move(cancel)));
  } catch (const std::exception& error) {  // No memory, thread or descriptor.
    shared->result.emplace(Error(Errc::kUnavailable,
                                 std::string("cannot start to ask for the lock: ") + error.what()));
  }
  shared->done = true;
  shared->bell.ring();
}

AttemptOutcome LockAttempt::take(int guard_fd) {
  const StoreKind* const kind = store_of_url(request_.store.url);
  if (kind != nullptr && !kind->shared_by_processes) {
    narrator_.note("a lock in " + printable(request_.store.url) +
                   " keeps nobody else out: it is in this process' own memory. Name another store");
  }
  std::stop_source cancel;
  std::thread worker;
  try {
    worker = std::thread(
        [this, shared = shared_, token = cancel.get_token()] { ask_aside(shared, token); });
  } catch (const std::system_error& error) {
    AttemptOutcome none;
    none.error = Error(Errc::kUnavailable, std::string("cannot start a thread: ") + error.what());
    return none;
  }
  std::optional<AttemptOutcome> stopped;
  while (!shared_->done && !stopped) stopped = look_around(guard_fd);
  if (stopped) {
    cancel.request_stop();
    // The asking thread cannot be ended from here, and must not delay the end of this process.
    if (!leave()) {
      if (has_asked()) {
        warn_unconfirmed(
            {Errc::kOutcomeUnknown,
             narrator_.lock() +
                 ": the store does not answer; the lock may be held for up to one more ttl"});
      }
      if (stopped->signal == 0) ::_exit(request_.exit_error);
      narrator_.event("cancelled", {}, {{"signal", signal_name(stopped->signal)}});
      ::_exit(kExitSignalBase + stopped->signal);
    }
  }
  worker.join();
  return outcome(std::move(stopped));
}

// Leaving the queue needs a request, and a hanging store must not delay us.
bool LockAttempt::leave() {
  const Duration patience = has_asked() ? kToLeave + kToHearThat : kToStop;
  const auto until = std::chrono::steady_clock::now() + patience;
  const SaidIfLate waiting(
      narrator_, "take the request for " + in_quotes(request_.lock.name) + " back",
      [] { return "for " + format_duration(kToLeave - SaidIfLate::kLate) + " more at most"; });
  pollfd bell{shared_->bell.fd(), POLLIN, 0};
  while (!shared_->done && std::chrono::steady_clock::now() < until) {
    ::poll(&bell, 1, 100);
    shared_->bell.quiet();
  }
  return shared_->done;
}

void LockAttempt::warn_unconfirmed(const Error& why) const {
  narrator_.event("error", {}, {{"code", errc_name(why.code())}, {"message", why.message()}});
  narrator_.alarm(explain(why, narrator_.setup().store));
}

AttemptOutcome LockAttempt::outcome(std::optional<AttemptOutcome> stopped) {
  Result<Lease>& result = *shared_->result;
  if (stopped) {
    if (result) {  // It was granted while we were leaving.
      const SaidIfLate waiting(narrator_, "take " + in_quotes(result->name()) + " back",
                               result->deadline_boottime());
      (void)result->release();
    } else if (result.error().code() == Errc::kOutcomeUnknown) {
      warn_unconfirmed(result.error());
      unanswered_ = true;
    }
    return *std::move(stopped);
  }
  AttemptOutcome out;
  if (shared_->around) {
    out.around = std::move(shared_->around);
  } else if (result) {
    out.lease.emplace(*std::move(result));
  } else {
    out.error = result.error();
    out.in_vain = in_vain();
    if (shared_->closed) out.closed["holders"] = to_json(*shared_->closed)["holders"];
    if (opens_in() > Duration::zero()) out.closed["opens_in_ms"] = opens_in().count();
    unanswered_ = detail::is_transient(result.error().code());
  }
  return out;
}

// Once, and again when a lock-delay begins. The store may tell of one that the look showed already,
// so an end that is no later is no news.
void LockAttempt::tell_waiting() {
  constexpr std::int64_t kSameMs = 1'000;
  const bool is_known = shared_->opens_at_ms <= told_opens_at_ms_ + kSameMs;
  if (std::exchange(told_waiting_, true) && is_known) return;
  const std::uint32_t ahead = shared_->ahead;
  Json more;
  more["waiting_before"] = ahead;
  if (!narrator_.wants_chat() && !narrator_.wants_events()) return;
  const auto info = shared_->client->inspect(request_.lock.name);
  std::string who;
  if (info && *info) {
    who = describe_holders(**info);
    more["holders"] = to_json(**info)["holders"];
    const Duration left = (*info)->opens_in();
    if (left > Duration::zero()) shared_->opens_at_ms = steady_ms() + left.count();
  }
  told_opens_at_ms_ = shared_->opens_at_ms;
  const Duration opens_in = this->opens_in();
  if (opens_in > Duration::zero()) more["opens_in_ms"] = opens_in.count();
  narrator_.event("waiting", {}, more);
  std::string sentence = "waiting for " + in_quotes(request_.lock.name);
  if (!who.empty()) sentence += (opens_in > 0ms ? ", last held by " : ", held by ") + who;
  sentence += still_closed();
  if (ahead > 0) sentence += "; " + std::to_string(ahead) + " waiting before us";
  narrator_.chat(sentence);
}

void LockAttempt::tell_held_up() {
  const std::lock_guard guard(shared_->mutex);
  if (!shared_->held_up || std::exchange(told_held_up_, true)) return;
  narrator_.event("unavailable", {}, {{"message", *shared_->held_up}});
  narrator_.note(printable(*shared_->held_up));
}

Duration LockAttempt::opens_in() const {
  const std::int64_t at = shared_->opens_at_ms;
  return std::max(Duration(at == 0 ? 0 : at - steady_ms()), Duration::zero());
}

std::string LockAttempt::still_closed() const {
  const Duration rest = opens_in();
  if (rest == Duration::zero()) return {};
  return "; its lock-delay keeps it closed for " + format_duration(rest) +
         " more, unless 'holdfast break' ends it";
}

std::string LockAttempt::in_vain() const {
  const std::string name = in_quotes(request_.lock.name);
  const auto& wait = request_.lock.wait;
  if (wait && *wait > Duration::zero()) {
    return "did not get " + name + " within " + format_duration(*wait) + still_closed();
  }
  if (!shared_->closed) {
    return name + " is held by somebody else ('holdfast inspect' tells by whom)";
  }
  return name + " is held by nobody, last by " + describe_holders(*shared_->closed) +
         still_closed();
}

Result<void> release_lease(Lease& lease) {
  const Nanos until = lease.deadline_boottime();
  const bool ours = boottime_now() < until;
  auto released = lease.release();
  const bool ran_out = ours && boottime_now() >= until;
  if (released || released.error().code() != Errc::kLost || !ran_out) return released;
  return Error(Errc::kUnavailable,
               "the store did not answer before the lease ended: " + released.error().message());
}

std::string describe_holders(const LockInfo& info) {
  constexpr std::size_t kMost = 3;
  std::string out;
  for (std::size_t i = 0; i < info.holders.size() && i < kMost; ++i) {
    const OwnerInfo& who = info.holders[i].who;
    if (i > 0) out += ", ";
    std::string more = knows_since(who) ? "since " + local_time(who.since) : "";
    if (!who.reason.empty()) {
      more += (more.empty() ? "\"" : ", \"") + printable(who.reason) + "\"";
    }
    out += sentence_of(who, more);
  }
  if (info.holders.size() > kMost) {
    out += " and " + std::to_string(info.holders.size() - kMost) + " more";
  }
  return out;
}

Duration LockAttempt::flush_time(Nanos deadline) {
  return std::clamp(std::chrono::floor<Duration>(deadline - boottime_now()), Duration(200), kFlush);
}

void LockAttempt::close(Duration limit) {
  std::optional<Client>& client = shared_->client;
  if (client) (void)client->close(unanswered_ ? 200ms : limit);
  client.reset();
}

}  // namespace holdfast::cli
