#include "src/server/front/connection.h"

#include <algorithm>
#include <utility>

#include "src/base/empty_buffer.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

using port::SocketIo;

constexpr std::size_t kKept = 64 * 1'024;
// So long after a request of one connection the others have the smaller bound.
constexpr std::chrono::milliseconds kOthersAsk{100};

RequestLimits first_limits(const FrontLimits& limits) {
  return {.max_words = 16,
          .max_word = limits.first_bytes,
          .max_request = limits.first_bytes,
          .advice = ": begin with a short request, AUTH or PING"};
}

}  // namespace

std::size_t ConnectionOwner::most_unanswered(const Connection& asking) {
  const auto now = base::BootClock::now();
  const bool another = std::exchange(asked_last_, asking.number) != asking.number;
  if (another) others_ask_until_ = now + kOthersAsk;
  return now < others_ask_until_ ? limits().unanswered_beside_others : limits().unanswered;
}

Connection::Connection(Stream stream, ConnectionOwner& owner, std::uint64_t id,
                       std::string client_address)
    : number(id),
      since(base::BootClock::now()),
      address(std::move(client_address)),
      stream_(std::move(stream)),
      owner_(owner),
      reader_(first_limits(owner.limits())),
      rate_(owner.limits().rate) {}

void Connection::start() { wait_read(); }

void Connection::close() {
  if (closed()) return;
  const ConnectionPtr self = shared_from_this();
  stream_.close();
  for (Slot& each : slots_) each.when_first = nullptr;  // They keep this connection.
  owner_.account(accounted_, 0);
  accounted_ = 0;
  owner_.on_closed(*this);
}

bool Connection::full() const {
  const FrontLimits& limits = owner_.limits();
  return slots_.size() >= limits.unanswered || unread() >= limits.unread ||
         unsent_ >= limits.unread;
}

void Connection::wait_read() {
  if (reading_ || closed() || draining_ || ending_ || paused_ || resting_ || full()) return;
  reading_ = true;
  stream_.when_readable([weak = weak_from_this()](std::error_code error) {
    const auto self = weak.lock();
    if (self == nullptr || self->closed()) return;
    self->reading_ = false;
    error ? self->close() : self->on_readable();
  });
}

void Connection::wait_write() {
  if (writing_ || closed()) return;
  writing_ = true;
  stream_.when_writable([weak = weak_from_this()](std::error_code error) {
    const auto self = weak.lock();
    if (self == nullptr || self->closed()) return;
    self->writing_ = false;
    if (error) return self->close();
    const bool goes_on = std::exchange(self->rested_, false) && !self->paused_;
    if (goes_on && !self->draining_) return self->resume();
    self->flush();
  });
}

void Connection::on_readable() {
  queued_ = true;  // The answers of this turn are written at its end.
  std::string& scratch = owner_.scratch();
  // After so many bytes other connections have their turn.
  std::size_t left = greeted ? scratch.size() : owner_.limits().first_bytes;
  while (left > 0 && !draining_ && !ending_ && !paused_ && !resting_ && !full()) {
    const std::size_t wanted = left;
    const SocketIo io = stream_.read(scratch.data(), wanted);
    if (io.next == SocketIo::Next::kWantRead) break;
    // No honest client makes TLS itself answer while it does not read.
    if (io.next != SocketIo::Next::kDone) return close();
    if (!take({scratch.data(), io.bytes})) return;
    if (io.bytes < wanted && !stream_.buffers()) break;
    left -= io.bytes;
  }
  flush();
  wait_read();
}

// False: the connection is closed.
bool Connection::take(std::string_view bytes) {
  reader_.feed(bytes);
  const std::size_t most = owner_.most_unanswered(*this);
  std::size_t begun = 0;  // Also those that are answered at once: others wait for each.
  while (!ending_ && !paused_ && !resting_) {
    const auto whole = reader_.next(words_);
    if (!whole) {
      refuse(whole.error());
      return !closed();
    }
    if (!*whole) break;
    if (has_asked_enough()) break;
    owner_.on_request(*this, words_);
    if (closed()) return false;
    greet();
    if (++begun >= most || slots_.size() >= most) resting_ = true;
  }
  reader_.give_back();
  return count_bytes();
}

bool Connection::has_asked_enough() {
  if (greeted || ++first_requests <= owner_.limits().first_requests) return false;
  refuse(Error(Errc::kInvalidArgument, "too many requests before the log-in"));
  return true;
}

void Connection::greet() {
  if (greeted || !owner_.knows(*this)) return;
  greeted = true;
  reader_.set_limits({});
  owner_.on_greeted(*this);
}

void Connection::resume() {
  paused_ = false;
  if (closed()) return;
  greet();
  queued_ = true;
  if (!take({})) return;
  flush();
}

void Connection::refuse(const Error& why) {
  std::string bytes;
  append_error(bytes, "ERR " + why.message());
  reply(bytes);
  close_after_replies();
}

bool Connection::count_bytes() {
  const std::size_t now = reader_.unfinished() + out_.size() + waiting_ + unsent_;
  const std::size_t before = std::exchange(accounted_, now);
  if (owner_.account(before, now)) return true;
  close();
  return false;
}

void Connection::note_unsent(std::size_t before, std::size_t now) {
  unsent_ = unsent_ - before + now;
  if (now < before) wait_read();
}

void Connection::reply(std::string_view bytes) {
  if (!slots_.empty()) {
    slots_.push_back({true, std::string(bytes)});
    waiting_ += bytes.size();
    return;
  }
  out_ += bytes;
  ++first_;
}

Connection::Turn Connection::begin(base::BootInstant by) {
  slots_.push_back({.by = by});
  return first_ + slots_.size() - 1;
}

void Connection::finish(Turn turn, std::string bytes) {
  if (closed()) return;
  Slot& slot = slots_[turn - first_];
  slot.ready = true;
  if (bytes.starts_with('-')) slot.by = base::BootInstant::max();  // It promises nothing.
  slot.bytes = std::move(bytes);
  waiting_ += slot.bytes.size();
  if (turn == first_) hand_over_ready();
}

std::optional<Error> Connection::refuse_rate(std::size_t count) {
  if (!has_limits()) return std::nullopt;
  const base::BootInstant now = base::BootClock::now();
  if (!rate_.take(now, count)) {
    return Error(Errc::kQueueFull, "a connection may ask for " + std::to_string(rate_.most()) +
                                       " locks a second: come again");
  }
  return account == nullptr ? std::nullopt : account->refuse_rate(now, count);
}

void Connection::note_taken(const machine::AcquisitionId& id) {
  if (taken_.size() == kRemembered) taken_.erase(taken_.begin());
  taken_.push_back(id);
}

bool Connection::has_taken(const machine::AcquisitionId& id) const {
  return std::find(taken_.begin(), taken_.end(), id) != taken_.end();
}

void Connection::when_first(Turn turn, std::function<void()> call) {
  if (closed()) return;
  if (is_first(turn)) return call();
  slots_[turn - first_].when_first = std::move(call);
}

void Connection::hand_over_ready() {
  if (handing_over_) return;  // A call from below: the loop goes on with what it has made ready.
  handing_over_ = true;
  while (!closed() && !slots_.empty()) {
    Slot& next = slots_.front();
    if (const auto call = std::exchange(next.when_first, nullptr)) {
      call();
      continue;
    }
    if (!next.ready) break;
    if (next.by != base::BootInstant::max() && base::BootClock::now() >= next.by) {
      flush();  // The replies before it are good.
      return close();
    }
    waiting_ -= next.bytes.size();
    out_ += next.bytes;
    slots_.pop_front();
    ++first_;
  }
  handing_over_ = false;
  if (closed()) return;
  if (!std::exchange(queued_, true)) owner_.flush_later(shared_from_this());
}

void Connection::push(std::string_view bytes) {
  if (closed()) return;
  const auto known = attached ? slots_.rend()
                              : std::find_if(slots_.rbegin(), slots_.rend(),
                                             [](const Slot& each) { return each.ready; });
  if (known != slots_.rend()) {
    known->bytes += bytes;
    waiting_ += bytes.size();
  } else {
    out_ += bytes;
  }
  if (unread() > owner_.limits().unread_pushes) return close();
  if (!std::exchange(queued_, true)) owner_.flush_later(shared_from_this());
}

void Connection::push_message(std::string_view channel, std::string_view payload) {
  std::string bytes;
  append_push(bytes, protocol, 3);
  append_text(bytes, "message");
  append_text(bytes, channel);
  append_text(bytes, payload);
  push(bytes);
}

void Connection::close_after_replies() {
  ending_ = true;
  if (!std::exchange(queued_, true)) owner_.flush_later(shared_from_this());
}

void Connection::flush() {
  queued_ = false;
  if (closed()) return;
  while (sent_ < out_.size()) {
    const SocketIo io = stream_.write(std::string_view(out_).substr(sent_));
    if (io.next == SocketIo::Next::kEnded) return close();
    if (io.next != SocketIo::Next::kDone) {
      out_.erase(0, std::exchange(sent_, 0));
      if (count_bytes()) wait_write();
      return;
    }
    sent_ += io.bytes;
  }
  sent_ = 0;
  base::empty_buffer(out_, kKept);
  if (!count_bytes()) return;
  if (ending_ && slots_.empty()) return close();
  if (resting_ && slots_.empty()) {
    resting_ = false;
    rested_ = true;
    return wait_write();
  }
  wait_read();
}

}  // namespace holdfast::server
