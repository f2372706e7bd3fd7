#include "lab/subject/holdfast_subject.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

#include "holdfast/client.h"
#include "src/base/clock.h"
#include "src/primitives/lease_id.h"
#include "src/session/deadline.h"

namespace holdfast::lab {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{5};  // How often the deadlines are read.

// The offset of a time namespace to this process' boot time.
std::int64_t namespace_offset() {
  const std::int64_t own = base::BootClock::now().time_since_epoch().count();
  const std::int64_t offset = own - now_ns();
  constexpr std::int64_t kSecond = 1'000'000'000;
  return (offset + (offset < 0 ? -kSecond / 2 : kSecond / 2)) / kSecond * kSecond;
}

Outcome outcome_of(Errc code) {
  switch (code) {
    case Errc::kTimedOut: return Outcome::kTimedOut;
    case Errc::kCancelled: return Outcome::kCancelled;
    case Errc::kLost:
    case Errc::kBroken: return Outcome::kLost;
    case Errc::kOutcomeUnknown: return Outcome::kUnknown;
    case Errc::kUnavailable:
    case Errc::kPermissionDenied:
    case Errc::kStoreInUse:
    case Errc::kClosed: return Outcome::kUnavailable;
    case Errc::kQueueFull: return Outcome::kBusy;
    case Errc::kInvalidArgument:
    case Errc::kUnsupported:
    case Errc::kWouldDeadlock:
    case Errc::kCorruptState:
    case Errc::kVersionMismatch: break;
  }
  return Outcome::kNone;
}

// A refusal without a fault as its reason ends the run.
Outcome outcome_of(const Error& error) {
  const Outcome outcome = outcome_of(error.code());
  if (outcome == Outcome::kNone) throw std::runtime_error(error.message());
  return outcome;
}

class HeldLease;

// All holds of the process, whose deadlines move by themselves.
class Lookout {
 public:
  Lookout() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void add(HeldLease* lease) {
    const std::lock_guard lock(mutex_);
    leases_.push_back(lease);
  }
  void remove(HeldLease* lease) {
    const std::lock_guard lock(mutex_);
    std::erase(leases_, lease);
  }

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<HeldLease*> leases_;
  std::jthread thread_;
};

class HeldLease : public Hold {
 public:
  HeldLease(Lease lease, milliseconds ttl, Listener& listener, Lookout& lookout,
            std::int64_t offset)
      : lease_(std::move(lease)),
        id_(id_of(lease_)),
        span_ns_(std::chrono::nanoseconds(ttl - session::ClockBound{}.slack(ttl)).count()),
        offset_(offset),
        listener_(listener),
        lookout_(lookout) {
    told_ = deadline_ns();
    on_lost_.emplace(lease_.lost(), [this] { listener_.lost(id_); });
    lookout_.add(this);
  }
  ~HeldLease() override {
    lookout_.remove(this);
    on_lost_.reset();
  }

  Id id() const override { return id_; }
  Token token() const override { return lease_.token(); }
  std::int64_t deadline_ns() const override { return lease_.deadline_boottime().count() - offset_; }

  Outcome held() override {
    const bool held = lease_.held();
    look();
    if (held) return Outcome::kHeld;
    // In doubt: the clocks disagree, and only a renewal can decide.
    return lease_.state() == LeaseState::kLost ? Outcome::kLost : Outcome::kUnknown;
  }

  Renewed renew() override {
    const Result<void> done = lease_.renew();
    if (!done) return {outcome_of(done.error()), 0};
    const std::lock_guard lock(mutex_);
    told_ = std::max(told_, deadline_ns());
    seen_over_ = false;
    return {Outcome::kRenewed, told_};
  }

  Outcome release() override {
    lookout_.remove(this);
    look();
    const Result<void> done = lease_.release();
    return done ? Outcome::kReleased : outcome_of(done.error());
  }

  // Reports a renewal, if there was one.
  void look() {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = now_ns();
    const std::int64_t deadline = deadline_ns();
    if (deadline <= told_) {
      seen_over_ = seen_over_ || now >= told_;
      return;
    }
    // If this thread got no CPU, it may have missed a renewal in between. A renewal is surely a
    // revival only if the deadline was seen to have passed before.
    const std::int64_t sent = std::min(deadline - span_ns_, now);
    listener_.renewed(id_, seen_over_ ? sent : std::min(sent, told_ - 1), deadline);
    told_ = deadline;
    seen_over_ = false;
  }

 private:
  static Id id_of(const Lease& lease) {
    const auto parsed = primitives::parse_lease_id(lease.id());
    if (!parsed) throw std::runtime_error(parsed.error().message());
    return {parsed->id.high, parsed->id.low};
  }

  Lease lease_;
  const Id id_;
  const std::int64_t span_ns_;  // The sure part of a lease, counted from the send of its renewal.
  const std::int64_t offset_;
  Listener& listener_;
  Lookout& lookout_;
  std::mutex mutex_;
  std::int64_t told_ = 0;   // The deadline that the listener knows.
  bool seen_over_ = false;  // The deadline was seen to have passed, without a later one.
  std::optional<std::stop_callback<std::function<void()>>> on_lost_;
};

void Lookout::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    for (HeldLease* lease : leases_) lease->look();
    changed_.wait_for(lock, stop, kLook, [] { return false; });
  }
}

class HoldfastSubject : public Subject {
 public:
  explicit HoldfastSubject(const SubjectSetup& setup) : setup_(setup) {}

  Acquired acquire(const Ask& ask, Listener& listener) override {
    const std::optional<Client> client = connected();
    if (!client) return {Outcome::kUnavailable, nullptr};
    AcquireOptions options;
    // Does not ask for features that the store lacks.
    options.ttl = std::max(ask.ttl, min_ttl_.load());
    options.wait = ask.wait;
    options.cancel = ask.cancel;
    if (ask.wait == milliseconds::zero()) {
      Result<std::optional<Lease>> tried = client->try_acquire(ask.name, ask.mode, options);
      if (!tried) return {outcome_of(tried.error()), nullptr};
      if (!*tried) return {Outcome::kBusy, nullptr};
      return granted(std::move(**tried), ask, listener);
    }
    Result<Lease> lease = client->acquire(ask.name, ask.mode, options);
    if (!lease) return {outcome_of(lease.error()), nullptr};
    return granted(std::move(*lease), ask, listener);
  }

 private:
  // Retries, because a process may start while its store is unreachable.
  std::optional<Client> connected() {
    const std::lock_guard lock(mutex_);
    if (client_) return client_;
    ClientOptions options;
    options.owner = setup_.client;
    options.program = "holdfast-lab";
    options.request_timeout = std::chrono::seconds(2);
    Result<Client> client = Client::connect(setup_.urls.at(0), options);
    if (client) {
      const Guarantees kind = client->guarantees();
      min_ttl_ = kind.min_ttl;
      client_ = std::move(*client);
    } else if (outcome_of(client.error()) == Outcome::kUnavailable) {
      std::this_thread::sleep_for(kLook);
    }
    return client_;
  }

  Acquired granted(Lease lease, const Ask& ask, Listener& listener) {
    return {Outcome::kGranted,
            std::make_unique<HeldLease>(std::move(lease), ask.ttl, listener, lookout_, offset_)};
  }

  const SubjectSetup setup_;
  std::mutex mutex_;
  std::optional<Client> client_;
  std::atomic<milliseconds> min_ttl_{milliseconds(0)};
  Lookout lookout_;
  const std::int64_t offset_ = namespace_offset();
};

}  // namespace

SubjectKind holdfast_subject() {
  return {"holdfast", "this library, on the store of the URL",
          [](const SubjectSetup& setup) { return std::make_unique<HoldfastSubject>(setup); }};
}

}  // namespace holdfast::lab
