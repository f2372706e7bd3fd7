#include "src/stores/redis/transport/loop_link.h"

#include <sys/socket.h>

#include <cerrno>
#include <future>
#include <system_error>
#include <utility>

#include <asio/post.hpp>

#include "holdfast/detail/transient.h"
#include "src/base/empty_buffer.h"
#include "src/base/local_mutex.h"

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;
constexpr int kReadsPerTurn = 8;  // Then other work of the loop has its turn.
constexpr std::size_t kKeptOut = 1024 * 1024;
constexpr std::chrono::milliseconds kLoadingPause{50};
constexpr std::size_t kLoanReadSize = 16 * 1024;

}  // namespace

struct LoopLink::Mailbox {
  base::LocalMutex mutex;
  asio::io_context* io HOLDFAST_GUARDED_BY(mutex) = nullptr;
};

LentReader::LentReader(int descriptor, std::uint64_t located, std::unique_ptr<ReplyReader> reader)
    : descriptor_(descriptor),
      located_(located),
      reader_(std::move(reader)),
      buffer_(kLoanReadSize) {}

bool LentReader::read(std::vector<Reply>& replies) {
  const base::LocalLock lock(mutex_);
  if (reader_ == nullptr) return true;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t got = ::recv(descriptor_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    const std::size_t bytes = got < 0 ? 0 : static_cast<std::size_t>(got);
    if (!reader_->feed({buffer_.data(), bytes})) return false;
    while (true) {
      auto reply = reader_->next();
      if (!reply) return false;
      if (!*reply) break;
      replies.push_back(**std::move(reply));
    }
    if (bytes < buffer_.size()) break;
  }
  return true;
}

std::unique_ptr<ReplyReader> LentReader::end() {
  const base::LocalLock lock(mutex_);
  return std::move(reader_);
}

LoopLink::LoopLink(asio::io_context& io, RemotePtr remote, LinkOwner& owner, ReplyLimits limits)
    : io_(io),
      remote_(std::move(remote)),
      owner_(&owner),
      limits_(limits),
      mailbox_(std::make_shared<Mailbox>()),
      descriptor_(io),
      timer_(io),
      buffer_(kReadSize) {
  base::LocalLock lock(mailbox_->mutex);
  mailbox_->io = &io;
}

void LoopLink::start() {
  if (state_ != State::kDown || owner_ == nullptr) return;
  state_ = State::kResolving;
  moved_ = false;
  if (watch_ == nullptr) watch();
  const std::uint64_t mine = ++generation_;
  timer_.arm_at(base::BootClock::now() + remote_->address.connect_timeout, [this] { on_timer(); });
  // The answer may come after the loop was destroyed.
  remote_->primary->refresh(
      [weak = weak_from_this(), mine, mailbox = mailbox_](Result<Location> found) {
        base::LocalLock lock(mailbox->mutex);
        if (mailbox->io == nullptr) return;
        asio::post(*mailbox->io, [weak, mine, found = std::move(found)] {
          const auto self = weak.lock();
          if (self == nullptr || self->generation_ != mine) return;
          if (self->state_ == State::kResolving) self->resolved(found);
        });
      });
}

// A switch is told on some thread.
void LoopLink::watch() {
  watch_ = remote_->primary->watch([weak = weak_from_this(), mailbox = mailbox_] {
    base::LocalLock lock(mailbox->mutex);
    if (mailbox->io == nullptr) return;
    asio::post(*mailbox->io, [weak] {
      if (const auto self = weak.lock()) self->on_switch();
    });
  });
}

void LoopLink::on_switch() {
  if (owner_ == nullptr) return;
  switch (state_) {
    case State::kDown: return owner_->on_moved();
    case State::kResolving: return;  // Its answer will be about the new place.
    case State::kFailing: moved_ = true; return;
    case State::kDialling:
    case State::kGreeting:
      if (!outdated()) return;
      close_wire();
      state_ = State::kDown;
      return start();
    case State::kUp:
      if (outdated()) fail(moved_error());
  }
}

void LoopLink::went_down(Error why) {
  state_ = State::kDown;
  if (owner_ == nullptr) return;
  owner_->on_down(std::move(why));
  if (std::exchange(moved_, false) && owner_ != nullptr) owner_->on_moved();
}

void LoopLink::stop() {
  owner_ = nullptr;
  watch_.reset();
  {
    base::LocalLock lock(mailbox_->mutex);
    mailbox_->io = nullptr;
  }
  close_wire();
  timer_.stop();
  state_ = State::kDown;
}

void LoopLink::abandon() noexcept {
  wire_.abandon();
  timer_.abandon();
}

void LoopLink::resolved(Result<Location> found) {
  failures_ = {};
  if (!found) {
    failures_.add(
        {found.error().code(), remote_->address.display() + ": " + found.error().message()},
        /*stands_by=*/false);
    endpoints_.clear();
  } else {
    endpoints_ = std::move(found->endpoints);
    located_ = found->generation;
  }
  next_endpoint_ = 0;
  state_ = State::kDialling;
  try_next();
}

void LoopLink::try_next() {
  while (next_endpoint_ < endpoints_.size()) {
    close_wire();
    if (!wire_.open(*remote_, endpoints_[next_endpoint_++])) {
      failures_.add(wire_.why(), /*stands_by=*/false);
      continue;
    }
    std::error_code error;
    descriptor_.assign(wire_.descriptor(), error);
    if (error) {
      failures_.add({Errc::kUnavailable, "cannot watch a socket: " + error.message()},
                    /*stands_by=*/false);
      continue;
    }
    state_ = State::kDialling;
    timer_.arm_at(base::BootClock::now() + remote_->address.connect_timeout,
                  [this] { on_timer(); });
    // A pending connect() ends with the socket becoming writable.
    return wait_write();
  }
  close_wire();
  timer_.stop();
  went_down(failures_.told({Errc::kUnavailable, "not connected"}));
}

void LoopLink::next_address(Error why) {
  failures_.add(std::move(why), handshake_ && handshake_->stands_by());
  handshake_.reset();
  try_next();
}

void LoopLink::step_dial() {
  const Wire::Outcome outcome = wire_.dial();
  if (outcome.io == Wire::Io::kFailed) return next_address(wire_.why());
  if (outcome.io != Wire::Io::kDone) return wait_for(outcome.io);
  // Once it has waited to write, Asio asks about writing with each wait to read, and a socket that
  // can be written ends its next look at once. A new registration forgets that.
  std::error_code error;
  descriptor_.release();
  descriptor_.assign(wire_.descriptor(), error);
  if (error) {
    return next_address({Errc::kUnavailable, "cannot watch a socket: " + error.message()});
  }
  greet();
}

void LoopLink::greet() {
  state_ = State::kGreeting;
  loading_ = false;
  handshake_.emplace(remote_->address, remote_->primary->proves_role(),
                     remote_->primary->asks_term());
  reader_ = std::make_unique<ReplyReader>(limits_);
  out_ = handshake_->requests();
  out_sent_ = 0;
  wait_read();
  flush();
}

void LoopLink::on_greeting(const Reply& reply) {
  auto step = handshake_->on_reply(reply);
  if (!step) {
    // The server's other addresses would refuse the same credentials, or the same client, too.
    const Errc code = step.error().code();
    if (code == Errc::kPermissionDenied || code == Errc::kVersionMismatch) {
      next_endpoint_ = endpoints_.size();
    }
    return next_address(step.error());
  }
  switch (*step) {
    case Handshake::Step::kMore: return;
    case Handshake::Step::kLoading:
      loading_ = true;
      return timer_.arm_at(base::BootClock::now() + kLoadingPause, [this] { on_timer(); });
    case Handshake::Step::kReady: break;
  }
  if (const std::string attached = handshake_->attached(); !attached.empty()) {
    const auto generation = remote_->primary->judge_term(attached);
    if (!generation) {
      if (!detail::is_transient(generation.error().code())) next_endpoint_ = endpoints_.size();
      return next_address(
          {generation.error().code(), remote_->address.display() + generation.error().message()});
    }
    located_ = *generation;
    remote_->primary->enter(*generation);
  }
  timer_.stop();
  handshake_.reset();
  remote_->primary->prefer(endpoints_[next_endpoint_ - 1]);
  state_ = State::kUp;
  handed_over_ = 0;
  if (owner_ != nullptr) owner_->on_up();
}

void LoopLink::on_timer() {
  if (state_ == State::kResolving) {
    // The name service is late, so its last answer has to serve.
    Location known = remote_->primary->cached();
    if (!known.endpoints.empty()) return resolved(std::move(known));
    return resolved(Error{Errc::kUnavailable, "looking up the host takes too long"});
  }
  if (state_ == State::kGreeting && loading_) {
    loading_ = false;
    timer_.arm_at(base::BootClock::now() + remote_->address.connect_timeout,
                  [this] { on_timer(); });
    out_ = Handshake::ping();
    out_sent_ = 0;
    return flush();
  }
  if (state_ == State::kDialling || state_ == State::kGreeting) {
    const char* const doing = state_ == State::kDialling ? "connecting" : "logging in";
    next_address({Errc::kUnavailable,
                  remote_->address.display() + " (" + endpoints_[next_endpoint_ - 1].display() +
                      "): " + doing +
                      " took longer than connect_timeout: is the server up and the way to it "
                      "open?"});
  }
}

void LoopLink::write(std::string& bytes) {
  base::empty_buffer(out_, kKeptOut);
  out_.swap(bytes);
  out_sent_ = 0;
  flush();
}

void LoopLink::flush() {
  if (state_ == State::kUp && outdated()) {
    return fail(moved_error());
  }
  while (out_sent_ < out_.size()) {
    const Wire::Outcome outcome = wire_.write(std::string_view(out_).substr(out_sent_));
    ++writes_;
    switch (outcome.io) {
      case Wire::Io::kDone:
        out_sent_ += outcome.bytes;
        if (state_ == State::kUp) handed_over_ += outcome.bytes;
        continue;
      case Wire::Io::kWantWrite: return wait_write();
      case Wire::Io::kWantRead: write_wants_read_ = true; return;
      case Wire::Io::kFailed: return fail(wire_.why());
    }
  }
}

void LoopLink::flush_late() {
  flush();
  if (can_write() && owner_ != nullptr) owner_->on_written();
}

void LoopLink::fail(Error why) {
  if (state_ == State::kDown || state_ == State::kFailing) return;
  const bool was_up = state_ == State::kUp;
  moved_ = outdated();
  if (moved_) next_endpoint_ = endpoints_.size();  // These are no longer worth a try.
  close_wire();
  state_ = State::kFailing;
  const std::uint64_t mine = generation_;
  // Posted, because the owner may be inside a call to this link.
  asio::post(io_, [self = shared_from_this(), mine, was_up, why = std::move(why)] {
    if (self->generation_ != mine || self->owner_ == nullptr) return;
    if (!was_up) return self->next_address(why);
    self->went_down(why);
  });
}

// A new generation drops the awaited events, so the loop no longer reads this socket.
std::shared_ptr<LentReader> LoopLink::lend() {
  if (!can_write() || wire_.buffers() || loan_ != nullptr || writing_) return nullptr;
  ++generation_;
  reading_ = false;
  descriptor_.release();
  loan_ = std::make_shared<LentReader>(wire_.descriptor(), located_, std::move(reader_));
  return loan_;
}

void LoopLink::take_back(const std::shared_ptr<LentReader>& loan) {
  if (loan == nullptr || loan_ != loan) return;
  reader_ = std::exchange(loan_, nullptr)->end();
  std::error_code error;
  descriptor_.assign(wire_.descriptor(), error);
  if (error) return fail({Errc::kUnavailable, "cannot watch a socket: " + error.message()});
  // The borrower may have read more bytes than whole replies; what is left is delivered now.
  if (deliver({})) on_readable();
}

void LoopLink::on_readable() {
  if (write_wants_read_) {
    write_wants_read_ = false;
    const std::uint64_t mine = generation_;
    flush_late();
    if (generation_ != mine) return;
  }
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const Wire::Outcome outcome = wire_.read(buffer_.data(), buffer_.size());
    switch (outcome.io) {
      case Wire::Io::kDone:
        if (!deliver({buffer_.data(), outcome.bytes})) return;
        // A short read has emptied the socket. Later bytes make it readable again.
        if (!wire_.buffers() && outcome.bytes < buffer_.size()) return wait_read();
        continue;
      case Wire::Io::kWantRead: return wait_read();
      case Wire::Io::kWantWrite: read_wants_write_ = true; return wait_write();
      case Wire::Io::kFailed: return fail(wire_.why());
    }
  }
  const std::uint64_t mine = generation_;
  reading_ = true;
  asio::post(io_, [self = shared_from_this(), mine] {
    if (self->generation_ != mine) return;
    self->reading_ = false;
    self->on_readable();
  });
}

// Returns whether the link still has the connection that sent these bytes.
bool LoopLink::deliver(std::string_view bytes) {
  const std::uint64_t mine = generation_;
  if (outdated()) {
    fail(moved_error());
    return false;
  }
  auto fed = reader_->feed(bytes);
  if (!fed) {
    fail({fed.error().code(), remote_->address.display() + fed.error().message()});
    return false;
  }
  while (true) {
    auto reply = reader_->next();
    if (!reply) {
      fail({reply.error().code(), remote_->address.display() + reply.error().message()});
      return false;
    }
    if (!*reply) return true;
    if (state_ == State::kUp) {
      if (owner_ == nullptr) return false;
      owner_->on_reply(**std::move(reply));
    } else {
      on_greeting(**reply);
    }
    if (generation_ != mine) return false;
  }
}

void LoopLink::wait_for(Wire::Io what) {
  if (what == Wire::Io::kWantRead) wait_read();
  if (what == Wire::Io::kWantWrite) wait_write();
}

void LoopLink::wait_read() {
  if (reading_) return;
  reading_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this(), mine = generation_](std::error_code error) {
                           if (error || self->generation_ != mine) return;
                           self->reading_ = false;
                           if (self->state_ == State::kDialling) return self->step_dial();
                           self->on_readable();
                         });
}

void LoopLink::wait_write() {
  if (writing_) return;
  // A subscriber writes little and rarely. A server that does not even take this no longer reads.
  if (loan_ != nullptr) return fail({Errc::kUnavailable, "the server does not read any more"});
  writing_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this(), mine = generation_](std::error_code error) {
                           if (error || self->generation_ != mine) return;
                           self->writing_ = false;
                           if (self->state_ == State::kDialling) return self->step_dial();
                           if (std::exchange(self->read_wants_write_, false)) self->on_readable();
                           if (self->generation_ == mine) self->flush_late();
                         });
}

void LoopLink::close_wire() {
  ++generation_;
  if (loan_ != nullptr) std::exchange(loan_, nullptr)->end();
  if (descriptor_.is_open()) descriptor_.release();
  wire_.close();
  reading_ = writing_ = write_wants_read_ = read_wants_write_ = false;
  out_.clear();
  out_sent_ = 0;
  loading_ = false;
}

void run_on_loop(asio::io_context& io, const std::function<void()>& task) {
  if (io.get_executor().running_in_this_thread()) return task();
  std::promise<void> ended;
  asio::post(io, [&task, &ended] {
    task();
    ended.set_value();
  });
  ended.get_future().wait();
}

}  // namespace holdfast::stores::redis
