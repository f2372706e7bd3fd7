#include "src/stores/etcd/transport/http2_link.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <asio/post.hpp>

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

constexpr std::size_t kReadSize = 64 * 1024;
constexpr std::size_t kWriteSize = 256 * 1024;
constexpr std::size_t kMostOfText = 8 * 1024;
constexpr std::uint32_t kStreamWindow = 1 << 20;
constexpr std::int32_t kLinkWindow = 16 << 20;
constexpr std::int32_t kLastStream = 0x7fff'fff0;  // Then the numbers of streams are used up.
constexpr std::size_t kPrefix = 5;
constexpr char kServerLeaves[] = "the server ended the connection";

// Deadlines closer together than this share one look.
constexpr milliseconds kGrain{1};

nghttp2_nv header(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

// gRPC percent-encodes the text of a status.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const from = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(from, from + 2, value, 16).ptr == from + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string_view text_of(nghttp2_rcbuf* buffer) {
  const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(buffer);
  return {reinterpret_cast<const char*>(bytes.base), bytes.len};
}

// A refusal of this side.
Refusal own(int code, std::string text) {
  return {code, std::move(text), /*unsent=*/false, /*ours=*/true};
}

int number_of(std::string_view text) {
  int number = status::kUnknown;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

// nghttp2 calls these inside of nghttp2_session_mem_recv() and nghttp2_session_mem_send().
struct Http2Link::Callbacks {
  static Http2Link& link_of(void* user) { return *static_cast<Http2Link*>(user); }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Http2Link& link = link_of(user);
    if (frame->hd.type == NGHTTP2_SETTINGS) link.on_up();
    if (frame->hd.type == NGHTTP2_GOAWAY) link.on_leave();
    const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!last || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) return 0;
    if (Flight* flight = link.flight_of(frame->hd.stream_id)) link.end_call(*flight);
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, nghttp2_rcbuf* name,
                       nghttp2_rcbuf* value, std::uint8_t, void* user) {
    Http2Link& link = link_of(user);
    if (Flight* flight = link.flight_of(frame->hd.stream_id)) {
      link.on_header(*flight, text_of(name), text_of(value));
    }
    return 0;
  }

  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes,
                     std::size_t size, void* user) {
    Http2Link& link = link_of(user);
    if (Flight* flight = link.flight_of(stream)) {
      link.on_data(*flight, {reinterpret_cast<const char*>(bytes), size});
    }
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t stream, std::uint32_t code, void* user) {
    Http2Link& link = link_of(user);
    Flight* const flight = link.flight_of(stream);
    if (flight == nullptr) return 0;
    flight->stream = -1;
    if (flight->done) return 0;
    flight->refusal = own(status::kUnavailable, "the server broke the call off");
    if (code == NGHTTP2_REFUSED_STREAM) flight->seen = false;
    link.end_call(*flight);
    return 0;
  }

  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    if (Flight* flight = link_of(user).flight_of(frame->hd.stream_id)) flight->seen = true;
    return 0;
  }

  static ssize_t read_out(nghttp2_session* session, std::int32_t stream, std::uint8_t* into,
                          std::size_t room, std::uint32_t* flags, nghttp2_data_source*, void*) {
    auto* const flight =
        static_cast<Flight*>(nghttp2_session_get_stream_user_data(session, stream));
    if (flight == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    std::string& out = flight->call.out;
    const std::size_t size = std::min(room, out.size() - flight->out_sent);
    std::copy_n(out.data() + flight->out_sent, size, into);
    flight->out_sent += size;
    if (flight->out_sent < out.size()) return static_cast<ssize_t>(size);
    if (!flight->call.streams) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (flight->call.streams && size == 0) return NGHTTP2_ERR_DEFERRED;
    out.clear();
    flight->out_sent = 0;
    return static_cast<ssize_t>(size);
  }

  static nghttp2_session* make_session(Http2Link* link) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_session* session = nullptr;
    nghttp2_session_client_new2(&session, callbacks, link, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

Http2Link::Http2Link(asio::io_context& io, port::Endpoint server, std::shared_ptr<TlsSettings> tls,
                     Patience patience)
    : io_(io),
      server_(std::move(server)),
      secure_(tls != nullptr),
      patience_(patience),
      authority_(server_.text()),
      bytes_(std::make_shared<ByteStream>(io, std::move(tls))),
      timer_(io) {}

Http2Link::~Http2Link() {
  if (session_ != nullptr) nghttp2_session_del(session_);
}

Http2Link::Flight* Http2Link::flight_of(std::int32_t stream) const {
  return static_cast<Flight*>(nghttp2_session_get_stream_user_data(session_, stream));
}

bool Http2Link::usable() const { return state_ != State::kEnded && !leaving_; }

// --- Connecting.

void Http2Link::start(std::chrono::milliseconds connect_timeout, Ended ended) {
  ended_ = std::move(ended);
  connect_by_ = BootClock::now() + connect_timeout;
  arm(connect_by_);
  bytes_->connect(server_, connect_by_, [weak = weak_from_this()](const std::string& why) {
    if (const auto self = weak.lock()) self->on_connected(why);
  });
}

void Http2Link::on_connected(const std::string& why) {
  if (!why.empty()) return fail(own(status::kUnavailable, why));
  state_ = State::kGreeting;
  session_ = Callbacks::make_session(this);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kLinkWindow);
  in_.resize(kReadSize);
  flush();
  read_more();
}

// The server's settings have come, so it speaks HTTP/2 and does not reject our certificate.
void Http2Link::on_up() {
  if (state_ != State::kGreeting) return;
  state_ = State::kUp;
  for (const std::uint64_t number : std::exchange(waiting_, {})) {
    const auto found = flights_.find(number);
    if (found != flights_.end()) submit(*found->second);
  }
}

// --- Calls.

std::uint64_t Http2Link::open(Call call) {
  auto flight = std::make_unique<Flight>();
  flight->call = std::move(call);
  flight->number = ++last_number_;
  Flight& opened = *flight;
  if (flights_.empty()) heard_ = BootClock::now();
  flights_.emplace(opened.number, std::move(flight));
  arm(std::min(opened.call.deadline, heard_ + patience_.before_ping));
  if (state_ == State::kUp) {
    submit(opened);
    flush_soon();
  } else {
    waiting_.push_back(opened.number);
  }
  return opened.number;
}

void Http2Link::submit(Flight& flight) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(flight.call.deadline - BootClock::now()).count();
  std::array<char, 24> timeout{};
  const auto written = std::to_chars(timeout.begin(), timeout.end() - 1,
                                     std::clamp<std::int64_t>(left, 1, 99'999'999));
  *written.ptr = 'm';
  const auto timeout_size = static_cast<std::size_t>(written.ptr + 1 - timeout.data());
  std::array<nghttp2_nv, 10> headers = {
      header(":method", "POST"),
      header(":scheme", secure_ ? "https" : "http"),
      header(":path", flight.call.path),
      header(":authority", authority_),
      header("te", "trailers"),
      header("content-type", "application/grpc"),
      header("user-agent", "holdfast"),
      // Makes a member without a leader refuse at once instead of waiting for one.
      header("hasleader", "true"),
  };
  std::size_t number = 8;
  if (flight.call.deadline != BootInstant::max()) {
    headers[number++] = header("grpc-timeout", {timeout.data(), timeout_size});
  }
  if (!flight.call.token.empty()) headers[number++] = header("token", flight.call.token);
  nghttp2_data_provider body{};
  body.read_callback = Callbacks::read_out;
  flight.stream = nghttp2_submit_request(session_, nullptr, headers.data(), number, &body, &flight);
  leaving_ = leaving_ || flight.stream < 0 || flight.stream >= kLastStream;
  if (flight.stream >= 0) return;
  asio::post(io_, [self = shared_from_this(), number = flight.number] {
    self->due_.push_back({number, {}, /*ends=*/true});
    self->tell_due();
  });
}

void Http2Link::write(std::uint64_t number, std::string_view message) {
  const auto found = flights_.find(number);
  if (found == flights_.end()) return;
  found->second->call.out += message;
  if (found->second->stream < 0) return;
  nghttp2_session_resume_data(session_, found->second->stream);
  flush_soon();
}

void Http2Link::drop(std::uint64_t number) {
  const auto found = flights_.find(number);
  if (found == flights_.end()) return;
  const std::int32_t stream = found->second->stream;
  if (stream >= 0 && session_ != nullptr) {
    nghttp2_session_set_stream_user_data(session_, stream, nullptr);
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    flush_soon();
  }
  flights_.erase(found);
  leave_when_idle();
}

void Http2Link::on_header(Flight& flight, std::string_view name, std::string_view value) {
  if (flight.done) return;
  if (name == ":status") flight.http_status = number_of(value);
  if (name == "content-type" && !value.starts_with("application/grpc")) {
    flight.refusal = own(status::kUnknown, kNoGrpc + ("200, content-type " + std::string(value)));
    return end_call(flight);
  }
  if (name == "grpc-message") flight.said = value.substr(0, kMostOfText);
  if (name == "grpc-status") flight.refusal = {number_of(value), {}};
}

void Http2Link::on_data(Flight& flight, std::string_view bytes) {
  if (flight.done || flight.http_status != 200) return;
  flight.in += bytes;
  std::string_view rest = flight.in;
  while (rest.size() >= kPrefix) {
    std::size_t length = 0;
    for (std::size_t i = 1; i < kPrefix; ++i) {
      length = (length << 8) | static_cast<unsigned char>(rest[i]);
    }
    if (length > kLongestMessage || rest[0] != 0) {
      flight.refusal = own(status::kResourceExhausted, kTooLong);
      if (rest[0] != 0) flight.refusal = own(status::kUnknown, "it compresses unasked");
      return end_call(flight);
    }
    const std::size_t whole = kPrefix + length;
    if (rest.size() < whole) break;
    if (flight.in.size() == whole) {
      due_.push_back({flight.number, std::exchange(flight.in, {})});
      return;
    }
    due_.push_back({flight.number, std::string(rest.substr(0, whole))});
    rest.remove_prefix(whole);
  }
  if (rest.size() < flight.in.size()) flight.in = std::string(rest);
}

// The server takes no more calls. nghttp2 would keep the queued ones until a stream has ended.
void Http2Link::on_leave() {
  leaving_ = true;
  for (auto& [number, flight] : flights_) {
    if (flight->seen || flight->done) continue;
    flight->refusal = own(status::kUnavailable, kServerLeaves);
    end_call(*flight);
  }
}

void Http2Link::end_call(Flight& flight) {
  if (std::exchange(flight.done, true)) return;
  if (!flight.refusal.ours) {
    flight.refusal.text = decoded(flight.said);
  } else if (flight.http_status != 0 && flight.http_status != 200) {
    flight.refusal.text = kNoGrpc + std::to_string(flight.http_status);
  }
  due_.push_back({flight.number, {}, /*ends=*/true});
}

void Http2Link::tell_due() {
  for (Due& due : std::exchange(due_, {})) {
    const auto found = flights_.find(due.number);
    if (found == flights_.end()) continue;
    if (!due.ends) {
      // It may drop the call.
      const auto tell = found->second->call.on_message;
      if (tell) tell(std::string_view(due.message).substr(kPrefix));
      continue;
    }
    const std::unique_ptr<Flight> ended = std::move(found->second);
    flights_.erase(found);
    if (ended->stream >= 0 && state_ != State::kEnded) {
      nghttp2_session_set_stream_user_data(session_, ended->stream, nullptr);
      if (!ended->seen || nghttp2_session_get_stream_local_close(session_, ended->stream) >= 0) {
        nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, ended->stream, NGHTTP2_CANCEL);
      }
    }
    ended->refusal.unsent = !ended->seen && ended->refusal.code != status::kOk;
    ended->call.on_end(ended->refusal);
  }
  leave_when_idle();
}

// --- Bytes.

void Http2Link::read_more() {
  bytes_->read(in_.data(), in_.size(),
               [self = shared_from_this()](const std::error_code& error, std::size_t bytes) {
                 if (self->state_ == State::kEnded) return;
                 if (!error) return self->on_read(bytes);
                 const bool early = self->state_ == State::kGreeting;
                 const std::string why = "the connection was closed: " + error.message();
                 self->fail(own(status::kUnavailable, early ? kCannotConnect + (": " + why) : why));
               });
}

void Http2Link::on_read(std::size_t bytes) {
  heard_ = BootClock::now();
  answer_ping_by_ = BootInstant::max();
  const ssize_t used =
      nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(in_.data()), bytes);
  const auto self = shared_from_this();
  tell_due();
  if (state_ == State::kEnded) return;
  if (used < 0) return end_session();
  if (flush_posted_ || writing_ || !due_.empty() || nghttp2_session_want_read(session_) == 0) {
    flush();
    if (state_ != State::kEnded) read_more();
  } else {
    go_on_later();
  }
}

// A caller that was answered does not wait for the rest: the link answers pings and reads again.
// Its answers go with the next request if one comes in this turn of the loop or the next.
void Http2Link::go_on_later() {
  flush_posted_ = true;
  asio::post(io_, [self = shared_from_this()] {
    asio::post(self->io_, [self] {
      self->flush_posted_ = false;
      if (self->state_ == State::kEnded) return;
      self->flush();
      if (self->state_ != State::kEnded) self->read_more();
    });
  });
}

// All that one turn of the loop asks for goes out together.
void Http2Link::flush_soon() {
  if (flush_posted_ || writing_) return;
  flush_posted_ = true;
  asio::post(io_, [self = shared_from_this()] {
    self->flush_posted_ = false;
    if (self->state_ != State::kEnded) self->flush();
  });
}

void Http2Link::flush() {
  if (writing_ || session_ == nullptr) return;
  out_.clear();
  while (out_.size() < kWriteSize) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size <= 0) break;
    out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  const bool over =
      nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (!due_.empty()) {
    asio::post(io_, [self = shared_from_this()] { self->tell_due(); });
  }
  if (out_.empty()) {
    if (over) end_session();
    return;
  }
  writing_ = !bytes_->write(out_.data(), out_.size(),
                            [self = shared_from_this()](const std::error_code& error, std::size_t) {
                              self->writing_ = false;
                              // The read tells why a connection was lost.
                              if (!error && self->state_ != State::kEnded) self->flush();
                            });
  if (writing_) return;
  if (over) return end_session();
  if (nghttp2_session_want_write(session_) != 0) flush_soon();
}

// --- Time.

void Http2Link::arm(BootInstant at) {
  if (at >= armed_) return;
  armed_ = at;
  timer_.arm_at(at + kGrain, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void Http2Link::on_timer() {
  armed_ = BootInstant::max();
  const BootInstant now = BootClock::now();
  if (state_ != State::kUp && now >= connect_by_) {
    return fail(
        own(status::kUnavailable, std::string(kCannotConnect) + ": no answer in connect_timeout"));
  }
  BootInstant next = check_calls(now);
  if (state_ == State::kUp) {
    if (!flights_.empty()) next = std::min(next, check_silence(now));
  } else {
    next = std::min(next, connect_by_);
  }
  if (state_ == State::kEnded) return;
  if (next != BootInstant::max()) arm(next);
  tell_due();
  if (state_ != State::kEnded) flush();
}

// Ends the calls that are late; returns the deadline of the next one.
BootInstant Http2Link::check_calls(BootInstant now) {
  BootInstant next = BootInstant::max();
  for (auto& [number, flight] : flights_) {
    if (flight->done) continue;
    if (flight->call.deadline > now) {
      next = std::min(next, flight->call.deadline);
      continue;
    }
    flight->refusal = own(status::kDeadlineExceeded, "");
    flight->done = true;
    due_.push_back({number, {}, /*ends=*/true});
  }
  return next;
}

BootInstant Http2Link::check_silence(BootInstant now) {
  if (now >= answer_ping_by_) {
    fail(own(status::kUnavailable, "the server is silent"));
    return BootInstant::max();
  }
  if (answer_ping_by_ != BootInstant::max()) return answer_ping_by_;
  if (now < heard_ + patience_.before_ping) return heard_ + patience_.before_ping;
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  return answer_ping_by_ = now + patience_.answer;
}

// --- The end.

void Http2Link::leave_when_idle() {
  if (leaving_ && flights_.empty() && state_ != State::kEnded) end_session();
}

// Either the server has said that it leaves, or nghttp2 does not accept what it said.
void Http2Link::end_session() {
  const std::string why =
      leaving_ ? kServerLeaves : "the server does not speak HTTP/2 as it should";
  const bool early = state_ == State::kGreeting;
  fail(own(status::kUnavailable, early ? kCannotConnect + (": " + why) : why));
}

void Http2Link::fail(const Refusal& why) {
  if (state_ == State::kEnded) return;
  const bool was_up = state_ == State::kUp;
  auto due = std::exchange(due_, {});
  shut();
  if (const auto ended = std::exchange(ended_, nullptr)) ended(why, was_up);
  asio::post(io_, [self = shared_from_this(), due = std::move(due), why]() mutable {
    self->due_ = std::move(due);
    for (auto& [number, flight] : self->flights_) {
      if (flight->done) continue;
      flight->refusal = why;
      flight->done = true;
      self->due_.push_back({number, {}, /*ends=*/true});
    }
    self->tell_due();
  });
}

void Http2Link::close() {
  if (state_ != State::kEnded) shut();
  ended_ = nullptr;
  flights_.clear();
}

void Http2Link::shut() {
  state_ = State::kEnded;
  due_.clear();
  waiting_.clear();
  timer_.stop();
  bytes_->close();
}

}  // namespace holdfast::stores::etcd
