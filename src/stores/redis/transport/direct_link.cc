#include "src/stores/redis/transport/direct_link.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/base/brief_spin.h"
#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/backoff.h"
#include "src/stores/redis/transport/failed_round.h"
#include "src/stores/redis/transport/handshake.h"
#include "src/stores/redis/transport/wire.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr std::size_t kReadSize = 64 * 1024;
// recv() itself waits up to a quarter of a second, so poll() takes care of nearer deadlines.
constexpr std::chrono::milliseconds kNear{300};
// poll() counts monotonic time, which stops in a suspend. So the boot clock is read this often.
constexpr std::chrono::milliseconds kLongestPoll{250};
constexpr std::chrono::milliseconds kLoadingPause{20};
// close() waits at most this long for a caller that pauses.
constexpr std::chrono::milliseconds kPauseSlice{20};
// After this long without use, a check whether the socket is still open is worth its price.
constexpr std::chrono::milliseconds kIdle{5};

}  // namespace

struct DirectLink::Impl {
  Impl(RemotePtr server, ReplyLimits wanted, std::function<std::uint64_t()> random)
      : remote(std::move(server)),
        where(remote->address.display()),
        limits(wanted),
        dice(std::move(random)),
        buffer(kReadSize),
        watch(remote->primary->watch([this] { on_switch(); })) {}

  Result<std::vector<Reply>> call(std::string_view wire_bytes, std::size_t replies,
                                  BootInstant deadline, bool reads_only);
  Result<void> connect(BootInstant deadline);
  Result<void> pause(BootInstant deadline);
  Result<void> dial(const Endpoint& endpoint, BootInstant until, BootInstant greeted_by);
  Result<void> greet(BootInstant deadline);
  Result<void> enter(const std::string& attached) {
    if (attached.empty()) return {};
    const auto generation = remote->primary->judge_term(attached);
    if (!generation) {
      is_another_service = !detail::is_transient(generation.error().code());
      return Error{generation.error().code(), where + generation.error().message()};
    }
    located.store(*generation, std::memory_order_release);
    remote->primary->enter(*generation);
    return {};
  }
  Result<void> send_all(std::string_view bytes, std::size_t& sent, BootInstant deadline);
  Wire::Outcome read(Wire::Wait wait);
  Result<Reply> receive(BootInstant deadline);
  Result<void> wait(Wire::Io what, BootInstant deadline);
  Error late(const char* doing) const {
    return {Errc::kUnavailable, (wire.descriptor() < 0 ? where : wire.where()) + ": " + doing +
                                    " took longer than its deadline"};
  }
  Error moved_error() const { return {Errc::kUnavailable, where + ": the primary has moved"}; }
  Error closed_error() const {
    return {Errc::kClosed, where + ": the client is closed: connect again"};
  }
  // Why a call that is under way must end.
  std::optional<Error> stopped() const {
    if (closed.load(std::memory_order_acquire)) return closed_error();
    if (!given_up.load(std::memory_order_acquire)) return std::nullopt;
    return Error{Errc::kUnavailable,
                 where + ": no answer yet, and a lease that ends sooner could not wait for it"};
  }

  void open_wire(const Endpoint& endpoint, bool& opened) {
    base::LocalLock lock(descriptor_mutex);
    opened = !outdated() && wire.open(*remote, endpoint);
  }
  // The server is no longer the primary. The next call looks for the new one.
  void leave() {
    close_wire();
    remote->primary->refresh([](const Result<Location>&) {});
  }
  bool outdated() const noexcept { return located != remote->primary->generation(); }
  // A call under way must not wait for a server that is no longer asked.
  void on_switch() {
    base::LocalLock lock(descriptor_mutex);
    if (outdated()) wire.shut_down();
  }
  void close_after_failure() {
    const BootInstant now = BootClock::now();
    const bool was_good =
        connected.load(std::memory_order_relaxed) && now - up_since >= Backoff::kGoodLife;
    close_wire();
    next_attempt = now + backoff.after_loss(was_good, dice ? dice() : base::random_128().low);
  }
  void close_wire() {
    base::LocalLock lock(descriptor_mutex);
    wire.close();
    connected.store(false, std::memory_order_relaxed);
  }

  const RemotePtr remote;
  const std::string where;
  const ReplyLimits limits;
  const std::function<std::uint64_t()> dice;
  std::atomic<bool> taken{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> given_up{false};  // Applies to the call under way.
  std::atomic<bool> connected{false};
  bool abandoned = false;
  bool is_another_service = false;  // The last address that was tried has said so.
  bool stands_by = false;           // So it has here.

  // Held while the descriptor is opened and closed, so that close() can shut it down from outside.
  base::LocalMutex descriptor_mutex;
  Wire wire;
  std::unique_ptr<ReplyReader> reader;
  std::vector<char> buffer;
  base::BriefSpin spin;
  BootInstant used{};
  BootInstant up_since{};
  Backoff backoff;
  BootInstant next_attempt{};
  std::atomic<std::uint64_t> located{0};  // The primary's generation of the connection.

  const std::unique_ptr<Primary::Watch> watch;  // Last: its call uses the others.
};

Result<void> DirectLink::Impl::wait(Wire::Io what, BootInstant deadline) {
  pollfd entry{wire.descriptor(),
               static_cast<short>(what == Wire::Io::kWantRead ? POLLIN : POLLOUT), 0};
  while (true) {
    if (auto why = stopped()) return *std::move(why);
    const auto left = deadline - BootClock::now();
    if (left <= left.zero()) {
      // A server without TLS takes our greeting for the beginning of a command, and waits for the
      // rest.
      const bool greeting = remote->address.tls && !connected.load(std::memory_order_relaxed);
      return late(greeting ? "agreeing on TLS (does the server speak it on this port?)"
                           : "waiting for the server");
    }
    const auto slice = std::min<std::chrono::nanoseconds>(left, kLongestPoll);
    const timespec time{0, static_cast<long>(slice.count())};
    const int ready = ::ppoll(&entry, 1, &time, nullptr);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return late("poll()");
  }
}

Result<void> DirectLink::Impl::send_all(std::string_view bytes, std::size_t& sent,
                                        BootInstant deadline) {
  while (sent < bytes.size()) {
    const Wire::Outcome outcome = wire.write(bytes.substr(sent));
    if (outcome.io == Wire::Io::kFailed) return stopped().value_or(wire.why());
    if (outcome.io == Wire::Io::kDone) {
      sent += outcome.bytes;
      continue;
    }
    if (auto waited = wait(outcome.io, deadline); !waited) return waited.error();
  }
  return {};
}

Wire::Outcome DirectLink::Impl::read(Wire::Wait wait) {
  Wire::Outcome outcome;
  const auto look = [&](Wire::Wait how) {
    outcome = wire.read(buffer.data(), buffer.size(), how);
    return outcome.io != Wire::Io::kWantRead;
  };
  if (!spin.until([&] { return look(Wire::Wait::kNever); })) look(wait);
  return outcome;
}

Result<Reply> DirectLink::Impl::receive(BootInstant deadline) {
  while (true) {
    auto reply = reader->next();
    if (!reply) return Error{reply.error().code(), where + reply.error().message()};
    if (*reply) return **std::move(reply);
    const bool near =
        !connected.load(std::memory_order_relaxed) || deadline - BootClock::now() < kNear;
    const Wire::Outcome outcome = read(near ? Wire::Wait::kNever : Wire::Wait::kAWhile);
    if (outcome.io == Wire::Io::kFailed) {
      return stopped().value_or(wire.why());
    }
    if (outcome.io == Wire::Io::kDone) {
      auto fed = reader->feed({buffer.data(), outcome.bytes});
      if (!fed) return Error{fed.error().code(), where + fed.error().message()};
      continue;
    }
    if (auto waited = wait(outcome.io, deadline); !waited) return waited.error();
  }
}

Result<void> DirectLink::Impl::greet(BootInstant deadline) {
  reader = std::make_unique<ReplyReader>(limits);
  Handshake handshake(remote->address, remote->primary->proves_role(),
                      remote->primary->asks_term());
  std::string requests = handshake.requests();
  while (true) {
    std::size_t sent = 0;
    if (auto done = send_all(requests, sent, deadline); !done) return done.error();
    while (true) {
      auto reply = receive(deadline);
      if (!reply) return reply.error();
      const auto step = handshake.on_reply(*reply);
      stands_by = handshake.stands_by();
      if (!step) return step.error();
      if (*step == Handshake::Step::kReady) return enter(handshake.attached());
      if (*step == Handshake::Step::kMore) continue;
      break;
    }
    // The server loads its data: ask again, until the deadline.
    if (BootClock::now() + kLoadingPause >= deadline) {
      return Error{Errc::kUnavailable, where + ": the server is loading its data: retry"};
    }
    pollfd entry{wire.descriptor(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(kLoadingPause.count()));
    if (auto why = stopped()) return *std::move(why);
    requests = Handshake::ping();
  }
}

Result<void> DirectLink::Impl::dial(const Endpoint& endpoint, BootInstant until,
                                    BootInstant greeted_by) {
  bool opened = false;
  open_wire(endpoint, opened);
  if (!opened) return outdated() ? moved_error() : wire.why();
  // Without this wait, the result of an unfinished connect() would be read at once.
  if (auto waited = wait(Wire::Io::kWantWrite, until); !waited) return waited.error();
  while (true) {
    const Wire::Outcome outcome = wire.dial();
    if (outcome.io == Wire::Io::kDone) break;
    if (outcome.io == Wire::Io::kFailed) return wire.why();
    if (auto waited = wait(outcome.io, until); !waited) return waited.error();
  }
  return greet(greeted_by);
}

Result<void> DirectLink::Impl::pause(BootInstant deadline) {
  BootInstant now = BootClock::now();
  const BootInstant until = now + Backoff::within(deadline - now, next_attempt - now);
  for (; now < until; now = BootClock::now()) {
    if (auto why = stopped()) return *std::move(why);
    const auto slice = std::min<std::chrono::nanoseconds>(until - now, kPauseSlice);
    const timespec time{0, static_cast<long>(slice.count())};
    ::ppoll(nullptr, 0, &time, nullptr);
  }
  return {};
}

Result<void> DirectLink::Impl::connect(BootInstant deadline) {
  if (auto paused = pause(deadline); !paused) return paused.error();
  Location found = remote->primary->cached();
  if (found.endpoints.empty()) {
    auto asked = remote->primary->resolve(
        std::min(deadline, BootClock::now() + remote->address.connect_timeout));
    if (!asked) return Error{Errc::kUnavailable, where + ": " + asked.error().message()};
    found = *std::move(asked);
  }
  const Endpoints endpoints = std::move(found.endpoints);
  located.store(found.generation, std::memory_order_release);
  FailedRound failures;
  auto untried = static_cast<std::int64_t>(endpoints.size());
  for (const Endpoint& endpoint : endpoints) {
    if (auto stop = stopped()) return *std::move(stop);
    // An address that never answers must leave the other addresses their share of a renewal's time.
    const BootInstant now = BootClock::now();
    const BootClock::duration share = (deadline - now) / untried--;
    const auto most = std::min<BootClock::duration>(remote->address.connect_timeout, share);
    // Nobody waits behind the last one, which may have to load its data first.
    auto dialled = dial(endpoint, now + most, untried == 0 ? deadline : now + most);
    if (dialled) {
      remote->primary->prefer(endpoint);
      wire.let_reads_wait();
      connected.store(true, std::memory_order_relaxed);
      up_since = BootClock::now();
      return {};
    }
    const Error why = dialled.error();
    failures.add(why, std::exchange(stands_by, false));
    close_wire();
    if (why.code() == Errc::kPermissionDenied || why.code() == Errc::kVersionMismatch ||
        std::exchange(is_another_service, false)) {
      break;
    }
  }
  // The name may lead elsewhere by now; the next call uses the new answer.
  remote->primary->refresh([](const Result<Location>&) {});
  return failures.told(late("connecting"));
}

Result<std::vector<Reply>> DirectLink::Impl::call(std::string_view wire_bytes, std::size_t replies,
                                                  BootInstant deadline, bool reads_only) {
  if (closed.load(std::memory_order_acquire)) return closed_error();
  given_up.store(false, std::memory_order_release);
  const BootInstant now = BootClock::now();
  if (now >= deadline) return late("the call");
  if (outdated()) {
    close_wire();
    next_attempt = {};
  }
  if (connected.load(std::memory_order_relaxed) && now - used > kIdle && wire.stale()) close_wire();
  if (!connected.load(std::memory_order_relaxed)) {
    if (auto made = connect(deadline); !made) {
      close_after_failure();
      return made.error();
    }
  }
  std::vector<Reply> answers;
  answers.reserve(replies);
  std::size_t sent = 0;
  auto done = send_all(wire_bytes, sent, deadline);
  std::optional<Error> failure;
  if (!done) failure = done.error();
  while (!failure && answers.size() < replies) {
    auto reply = receive(deadline);
    if (reply)
      answers.push_back(*std::move(reply));
    else
      failure = reply.error();
  }
  // Answers of an earlier primary prove nothing: its deadlines must not count.
  if (!failure && outdated()) failure = moved_error();
  if (!failure) {
    used = BootClock::now();
    if (std::any_of(answers.begin(), answers.end(), is_demotion)) leave();
    return answers;
  }
  close_after_failure();
  // Each request that left whole may be applied, even if a later one did not leave. A single
  // request is not applied before its last byte arrives.
  const bool may_be_applied = replies == 1 ? sent == wire_bytes.size() : sent > 0;
  if (!may_be_applied || reads_only || failure->code() == Errc::kCorruptState) {
    // close() shut the connection down before the request was written.
    if (closed.load(std::memory_order_acquire)) return closed_error();
    return *std::move(failure);
  }
  return Error{Errc::kOutcomeUnknown,
               failure->message() + "; a request was sent and may have been applied"};
}

DirectLink::DirectLink(RemotePtr remote, ReplyLimits limits, std::function<std::uint64_t()> dice)
    : impl_(std::make_unique<Impl>(std::move(remote), limits, std::move(dice))) {}

DirectLink::~DirectLink() {
  if (!impl_->abandoned) close();
}

std::optional<DirectLink::Turn> DirectLink::try_take() noexcept {
  if (impl_->closed.load(std::memory_order_acquire)) return std::nullopt;
  if (impl_->taken.exchange(true, std::memory_order_acquire)) return std::nullopt;
  return Turn(this);
}

bool DirectLink::connected() const noexcept {
  return impl_->connected.load(std::memory_order_relaxed);
}

void DirectLink::give_up() noexcept {
  if (!impl_->taken.load(std::memory_order_acquire)) return;
  impl_->given_up.store(true, std::memory_order_release);
  base::LocalLock lock(impl_->descriptor_mutex);
  impl_->wire.shut_down();
}

void DirectLink::close() {
  impl_->closed.store(true, std::memory_order_release);
  {
    base::LocalLock lock(impl_->descriptor_mutex);
    impl_->wire.shut_down();
  }
  while (impl_->taken.load(std::memory_order_acquire)) impl_->taken.wait(true);
  impl_->close_wire();
}

void DirectLink::abandon() noexcept {
  impl_->abandoned = true;
  impl_->connected.store(false, std::memory_order_relaxed);
  impl_->wire.abandon();
}

DirectLink::Turn::Turn(Turn&& other) noexcept : link_(std::exchange(other.link_, nullptr)) {}

DirectLink::Turn::~Turn() {
  if (link_ == nullptr) return;
  link_->impl_->taken.store(false, std::memory_order_release);
  link_->impl_->taken.notify_all();
}

Result<std::vector<Reply>> DirectLink::Turn::call(std::string_view wire, std::size_t replies,
                                                  BootInstant deadline, bool reads_only) {
  return link_->impl_->call(wire, replies, deadline, reads_only);
}

}  // namespace holdfast::stores::redis
