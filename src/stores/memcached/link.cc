#include "src/stores/memcached/link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <asio/post.hpp>
#include <asio/write.hpp>

namespace holdfast::stores::memcached {
namespace {

using asio::ip::tcp;
using base::BootClock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{20};
constexpr milliseconds kLongestPause{500};

// Each of several addresses may be a server of its own. Clients that reach different ones would
// hold one lock together for as long as they like. One address of each family is one machine.
bool may_be_several(const std::vector<tcp::endpoint>& found) {
  return std::any_of(found.begin(), found.end(), [&](const tcp::endpoint& other) {
    return std::any_of(found.begin(), found.end(), [&](const tcp::endpoint& one) {
      return one.protocol() == other.protocol() && one.address() != other.address();
    });
  });
}

}  // namespace

Link::Link(asio::io_context& io, const MemcachedAddress& address, Hooks hooks)
    : io_(io),
      address_(address),
      hooks_(std::move(hooks)),
      resolver_(io),
      socket_(io),
      timer_(io) {}

void Link::send(Call call) {
  if (call.generation != 0 && call.generation != generation()) {
    asio::post(io_, [self = shared_from_this(), done = std::move(call.done)] {
      if (!self->closed_) done({Fate::kNotSent, {}, "the connection was lost"});
    });
    return;
  }
  waiting_.push_back(std::move(call));
  if (state_ == State::kUp) schedule_flush();
  if (state_ == State::kDown && BootClock::now() >= next_try_) begin();
  arm_tick();
}

tcp::endpoint Link::server() const {
  std::error_code ignored;
  return socket_.remote_endpoint(ignored);
}

void Link::close() {
  closed_ = true;
  ++generation_;
  hooks_ = {};
  waiting_.clear();
  sent_.clear();
  timer_.stop();
  resolver_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  state_ = State::kDown;
}

void Link::abandon() noexcept {
  timer_.abandon();
  if (socket_.is_open()) ::close(socket_.native_handle());
}

// --- Connecting

void Link::begin() {
  state_ = State::kConnecting;
  connect_by_ = BootClock::now() + address_.connect_timeout;
  ++generation_;
  std::error_code not_numeric;
  const auto numeric = asio::ip::make_address(address_.host.host, not_numeric);
  if (!not_numeric) return connect_to({tcp::endpoint(numeric, address_.host.port)}, 0);
  resolver_.async_resolve(
      address_.host.host, std::to_string(address_.host.port),
      [self = shared_from_this(), mine = generation_](const std::error_code& error,
                                                      const Endpoints& found) {
        if (self->closed_ || self->generation_ != mine) return;
        if (error) return self->attempt_failed("the host's name: " + error.message());
        const std::vector<tcp::endpoint> endpoints(found.begin(), found.end());
        if (may_be_several(endpoints)) {
          return self->attempt_failed(
              "the name stands for several addresses, each of which may be another server: clients "
              "that choose among several could hold one lock twice: name one address",
              Errc::kInvalidArgument);
        }
        self->connect_to(endpoints, 0);
      });
}

void Link::connect_to(const std::vector<tcp::endpoint>& endpoints, std::size_t at) {
  connect_by_ = BootClock::now() + address_.connect_timeout;
  std::error_code ignored;
  socket_.close(ignored);
  socket_.async_connect(
      endpoints[at], [self = shared_from_this(), mine = generation_, endpoints,
                      at](const std::error_code& error) {
        if (self->closed_ || self->generation_ != mine) return;
        if (!error) return self->connected();
        if (at + 1 < endpoints.size()) return self->connect_to(endpoints, at + 1);
        self->attempt_failed("cannot connect: " + error.message());
      });
}

void Link::connected() {
  std::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  state_ = State::kUp;
  failures_ = 0;
  reader_ = {};
  writing_ = false;
  read();
  if (hooks_.on_connected) hooks_.on_connected();
  schedule_flush();
}

void Link::attempt_failed(const std::string& why, Errc code) {
  std::error_code ignored;
  socket_.close(ignored);
  ++generation_;
  state_ = State::kDown;
  const milliseconds pause(10 << std::min(failures_, 6));
  next_try_ = BootClock::now() + std::min(kLongestPause, pause);
  ++failures_;
  auto failed = std::exchange(waiting_, {});
  for (const Call& call : failed) call.done({Fate::kNotSent, {}, why, code});
}

// --- Bytes

void Link::schedule_flush() {
  if (std::exchange(flush_posted_, true)) return;
  // One write takes all that the loop's present tasks add.
  asio::post(io_, [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void Link::flush() {
  if (closed_ || state_ != State::kUp || writing_ || waiting_.empty()) return;
  out_.clear();
  for (Call& call : waiting_) {
    out_ += call.bytes;
    call.bytes.clear();
    sent_.push_back(std::move(call));
  }
  waiting_.clear();
  // Mostly the socket takes it all. An error is left to the write that follows.
  std::error_code failed;
  const std::size_t written = socket_.write_some(asio::buffer(out_), failed);
  if (!failed && written == out_.size()) return;
  writing_ = true;
  // The handler keeps the bytes: another connection may come before it is called.
  auto bytes = std::make_shared<std::string>(out_.substr(failed ? 0 : written));
  asio::async_write(socket_, asio::buffer(*bytes),
                    [self = shared_from_this(), mine = generation_, bytes](
                        const std::error_code& error, std::size_t) {
                      if (self->closed_ || self->generation_ != mine) return;
                      self->writing_ = false;
                      if (error) return self->drop(error.message());
                      self->flush();
                    });
}

void Link::read() {
  socket_.async_read_some(
      asio::buffer(buffer_), [self = shared_from_this(), mine = generation_](
                                 const std::error_code& error, std::size_t count) {
        if (self->closed_ || self->generation_ != mine) return;
        if (error) return self->drop(error.message());
        self->reader_.feed({self->buffer_.data(), count});
        if (self->take_replies() && self->generation_ == mine) self->read();
      });
}

// False: the connection is over.
bool Link::take_replies() {
  const std::uint64_t mine = generation_;
  while (auto reply = reader_.next()) {
    if (sent_.empty()) {
      drop("the server answers what was not asked: " + reply->text);
      return false;
    }
    const auto done = std::move(sent_.front().done);
    sent_.pop_front();
    done({Fate::kDone, *std::move(reply), {}});
    if (closed_ || generation_ != mine) return false;
  }
  if (reader_.bad()) drop("the server's answer is none of memcached's");
  return !closed_ && generation_ == mine;
}

void Link::drop(const std::string& why) {
  std::error_code ignored;
  socket_.close(ignored);
  state_ = State::kDown;
  ++generation_;
  auto lost = std::exchange(sent_, {});
  std::vector<Call> bound;
  for (auto call = waiting_.begin(); call != waiting_.end();) {
    if (call->generation == 0) {
      ++call;
      continue;
    }
    bound.push_back(std::move(*call));
    call = waiting_.erase(call);
  }
  if (hooks_.on_lost) hooks_.on_lost(why);
  for (const Call& call : lost) call.done({Fate::kUnknown, {}, why});
  for (const Call& call : bound) call.done({Fate::kNotSent, {}, why});
  if (!closed_ && !waiting_.empty() && state_ == State::kDown) begin();
}

// --- Time

void Link::arm_tick() {
  if (closed_ || std::exchange(ticking_, true)) return;
  timer_.arm(kTick, [self = shared_from_this()] {
    self->ticking_ = false;
    self->tick();
  });
}

void Link::tick() {
  const auto now = BootClock::now();
  if (state_ == State::kConnecting && now >= connect_by_) {
    attempt_failed("cannot connect within " + std::to_string(address_.connect_timeout.count()) +
                   " ms");
  }
  const auto is_late = [&](const Call& call) { return call.deadline <= now; };
  if (state_ == State::kUp && std::any_of(sent_.begin(), sent_.end(), is_late)) {
    drop("no answer in time");
  }
  std::vector<Call> late;
  for (auto call = waiting_.begin(); call != waiting_.end();) {
    if (!is_late(*call)) {
      ++call;
      continue;
    }
    late.push_back(std::move(*call));
    call = waiting_.erase(call);
  }
  for (const Call& call : late) call.done({Fate::kNotSent, {}, "no connection in time"});
  if (closed_) return;
  if (state_ == State::kDown && !waiting_.empty() && now >= next_try_) begin();
  if (state_ == State::kConnecting || !waiting_.empty() || !sent_.empty()) arm_tick();
}

}  // namespace holdfast::stores::memcached
