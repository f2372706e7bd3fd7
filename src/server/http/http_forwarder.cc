#include "src/server/http/http_forwarder.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace holdfast::server {
namespace {

using base::BootClock;
using port::SocketIo;

constexpr std::size_t kAnswerScratch = 16 * 1'024;

}  // namespace

// One request at another server.
class HttpForwarder::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpForwarder& home, Ask ask, const HttpRequest& request, Told told)
      : home_(home),
        ask_(std::move(ask)),
        by_(BootClock::now() + ask_.wait +
            (request.method == "GET" ? home.limits_.read_time : home.limits_.change_time)),
        out_(to_bytes(request)),
        reader_(home.limits_.longest_answer),
        told_(std::move(told)) {}

  const Ask& ask() const { return ask_; }

  void start(const std::string& place) {
    arm(std::min(by_, BootClock::now() + home_.limits_.dial_time));
    dial_ = std::make_shared<Dial>(DialTools{home_.io_, home_.ready_, home_.tls_, home_.gate_},
                                   [weak = weak_from_this()](Result<Stream> stream) {
                                     const auto self = weak.lock();
                                     if (self == nullptr || self->is_over()) return;
                                     stream ? self->begin(*std::move(stream))
                                            : self->fail(stream.error().message());
                                   });
    dial_->start(place);
  }

  void fail(const std::string& why) {
    if (is_over()) return;
    tell(Error(sent_ > 0 ? Errc::kOutcomeUnknown : Errc::kUnavailable, why));
  }

  void close() {
    if (is_over()) return;
    const auto self = shared_from_this();
    told_ = {};
    dial_->close();
    if (alarm_) home_.alarms_.cancel(*std::exchange(alarm_, std::nullopt));
    if (stream_) stream_->close();
    home_.received_ -= received_;
    home_.exchanges_.erase(self);
  }

 private:
  bool is_over() const { return !told_; }

  void arm(base::BootInstant at) {
    if (alarm_) home_.alarms_.cancel(*std::exchange(alarm_, std::nullopt));
    alarm_ = home_.alarms_.at(at, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || self->is_over()) return;
      self->alarm_.reset();
      self->fail("it does not answer in time");
    });
  }

  void begin(Stream stream) {
    stream_.emplace(std::move(stream));
    // This server may have stood still, and the caller may have given up.
    if (BootClock::now() >= by_) return fail("it answers too late");
    arm(by_);
    write();
  }

  // Calls `next` when the socket is ready for that.
  void await(SocketIo::Next ready, void (Exchange::*next)()) {
    const auto then = [weak = weak_from_this(), next](std::error_code error) {
      const auto self = weak.lock();
      if (self == nullptr || self->is_over()) return;
      error ? self->fail(error.message()) : ((*self).*next)();
    };
    ready == SocketIo::Next::kWantWrite ? stream_->when_writable(then)
                                        : stream_->when_readable(then);
  }

  void write() {
    while (sent_ < out_.size()) {
      const SocketIo io = stream_->write(std::string_view(out_).substr(sent_));
      if (io.next == SocketIo::Next::kEnded) return fail("the connection was lost");
      if (io.next != SocketIo::Next::kDone) return await(io.next, &Exchange::write);
      sent_ += io.bytes;
    }
    std::string().swap(out_);
    await(SocketIo::Next::kWantRead, &Exchange::read);
  }

  void read() {
    char scratch[kAnswerScratch];
    const SocketIo io = stream_->read(scratch, sizeof scratch);
    if (io.next == SocketIo::Next::kEnded) return fail("the connection was lost");
    if (io.next != SocketIo::Next::kDone) return await(io.next, &Exchange::read);
    received_ += io.bytes;
    home_.received_ += io.bytes;
    if (home_.received_ > home_.limits_.longest_answers) return fail("its answer is too long");
    switch (reader_.take(std::string_view(scratch, io.bytes))) {
      case HttpAnswerReader::Next::kMore: return await(SocketIo::Next::kWantRead, &Exchange::read);
      case HttpAnswerReader::Next::kAnswer: return tell(reader_.answer());
      case HttpAnswerReader::Next::kBad: return fail("it answers what is no answer of HTTP");
    }
  }

  void tell(Result<HttpAnswer> answer) {
    const auto self = shared_from_this();
    const Told told = told_;
    close();
    told(std::move(answer));
  }

  HttpForwarder& home_;
  const Ask ask_;
  const base::BootInstant by_;
  std::string out_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  HttpAnswerReader reader_;
  Told told_;  // Empty: it is over.
  std::shared_ptr<Dial> dial_;
  std::optional<Stream> stream_;
  std::optional<port::Alarms::Alarm> alarm_;
};

HttpForwarder::HttpForwarder(asio::io_context& io, std::shared_ptr<ReadySet> ready,
                             HttpForwarding limits)
    : io_(io), ready_(std::move(ready)), limits_(limits), alarms_(io) {}

HttpForwarder::~HttpForwarder() { stop(); }

void HttpForwarder::use(port::ServerTlsPtr tls, Gate* gate) {
  tls_ = std::move(tls);
  gate_ = gate;
}

// The leader counts connections by address, and all of this server have one. So it is counted here,
// where the callers can still be told apart.
bool HttpForwarder::has_room(const Ask& ask) const {
  const auto fits = [&](bool waiting, std::size_t most) {
    std::size_t all = 0;
    std::size_t of_caller = 0;
    for (const ExchangePtr& each : exchanges_) {
      const Ask& other = each->ask();
      if (other.leader != ask.leader || (waiting && !other.waits())) continue;
      ++all;
      of_caller += other.caller == ask.caller ? 1 : 0;
    }
    return all < most && of_caller < most / 2;
  };
  return fits(false, limits_.of_leader) &&
         (!ask.waits() || fits(true, limits_.of_leader - limits_.of_leader / 3));
}

std::function<void()> HttpForwarder::ask(const Ask& ask, HttpRequest request, Told told) {
  if (!has_room(ask)) {
    told(Error(Errc::kQueueFull,
               "this server forwards too many requests to " + ask.leader + ", which leads"));
    return [] {};
  }
  const std::string place = places_.at(ask.leader);
  if (request.method == "HEAD") request.method = "GET";
  request.host = place;
  request.forwarded = ask.caller;
  const auto exchange = std::make_shared<Exchange>(*this, ask, request, std::move(told));
  exchanges_.insert(exchange);
  exchange->start(place);
  return [weak = std::weak_ptr(exchange)] {
    if (const auto left = weak.lock()) left->close();
  };
}

void HttpForwarder::end(std::uint32_t shard) {
  std::vector<ExchangePtr> its;
  for (const ExchangePtr& each : exchanges_) {
    if (each->ask().shard == shard) its.push_back(each);
  }
  for (const ExchangePtr& each : its) each->fail("another server leads by now");
}

void HttpForwarder::stop() {
  while (!exchanges_.empty()) ExchangePtr(*exchanges_.begin())->close();
  static_cast<void>(alarms_.stop());
}

}  // namespace holdfast::server
