// For unit tests: a server of one connection, on the test's own loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <nghttp2/nghttp2.h>

#include "src/stores/etcd/transport/http2_link.h"

namespace holdfast::stores::etcd {

using asio::ip::tcp;
using Headers = std::vector<std::pair<std::string, std::string>>;

struct Text {
  std::string text;
  void AppendToString(std::string* out) const { *out += text; }
};

inline std::string message(std::string text) { return framed(Text{std::move(text)}); }

inline std::vector<nghttp2_nv> as_nv(const Headers& headers) {
  std::vector<nghttp2_nv> all;
  for (const auto& [name, value] : headers) {
    all.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                   reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                   value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return all;
}

// Serves one connection as the test says: with nghttp2 after greet(), otherwise byte by byte.
class Http2TestServer {
 public:
  struct Stream {
    std::map<std::string, std::string> headers;
    std::string body;
    bool ended = false;
    std::optional<std::uint32_t> closed;  // The code.
    std::string out;
    std::optional<Headers> trailers;
  };

  explicit Http2TestServer(asio::io_context& io)
      : acceptor_(io, {asio::ip::address_v4::loopback(), 0}), socket_(io) {
    accept();
  }
  // The next connection to the port of that one, which has had its own.
  explicit Http2TestServer(Http2TestServer& before)
      : acceptor_(std::move(before.acceptor_)), socket_(acceptor_.get_executor()) {
    accept();
  }
  ~Http2TestServer() { nghttp2_session_del(session); }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void close() { socket_.close(); }
  // Bytes of the client that the server has not read.
  std::size_t waiting() const { return socket_.available(); }
  void say(std::string_view bytes) {
    out_ += bytes;
    pump();
  }
  void greet(const std::vector<nghttp2_settings_entry>& settings = {}) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_server_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
    take();
  }
  void begin(std::int32_t id, const Headers& headers = {{":status", "200"}}) {
    const auto all = as_nv(headers);
    nghttp2_data_provider body{};
    body.read_callback = read_out;
    nghttp2_submit_response(session, id, all.data(), all.size(), &body);
    flush();
  }
  void say(std::int32_t id, std::string_view bytes) {
    streams[id].out += bytes;
    nghttp2_session_resume_data(session, id);
    flush();
  }
  void end(std::int32_t id, Headers trailers = {{"grpc-status", "0"}}) {
    streams[id].trailers = std::move(trailers);
    nghttp2_session_resume_data(session, id);
    flush();
  }
  void answer(std::int32_t id, std::string text) {
    streams[id].out = message(std::move(text));
    streams[id].trailers = Headers{{"grpc-status", "0"}};
    begin(id);
  }
  void refuse(std::int32_t id, const Headers& headers) {
    const auto all = as_nv(headers);
    nghttp2_submit_response(session, id, all.data(), all.size(), nullptr);
    flush();
  }
  void leave(std::int32_t last) {
    nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
    flush();
  }
  void reset(std::int32_t id, std::uint32_t code) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, code);
    flush();
  }
  void flush() {
    const std::uint8_t* bytes = nullptr;
    for (ssize_t size = 0; (size = nghttp2_session_mem_send(session, &bytes)) > 0;) {
      out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    pump();
  }

  bool accepted = false;
  bool gone = false;            // The client has closed the connection.
  bool heard = false;           // Some bytes have come.
  bool mute = false;            // Nothing more is written.
  std::size_t piece = 1 << 20;  // The most that is written at once.
  int pings = 0;
  int pongs = 0;
  std::map<std::int32_t, Stream> streams;
  nghttp2_session* session = nullptr;

 private:
  static Http2TestServer& of(void* user) { return *static_cast<Http2TestServer*>(user); }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_PING) {
      ++((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 ? of(user).pongs : of(user).pings);
    }
    const bool content = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!content) return 0;
    Stream& stream = of(user).streams[frame->hd.stream_id];
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream.ended = true;
    return 0;
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, nghttp2_rcbuf* name,
                       nghttp2_rcbuf* value, std::uint8_t, void* user) {
    of(user).streams[frame->hd.stream_id].headers[text_of(name)] = text_of(value);
    return 0;
  }
  static std::string text_of(nghttp2_rcbuf* buffer) {
    const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(buffer);
    return {bytes.base, bytes.base + bytes.len};
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* user) {
    of(user).streams[id].body.append(bytes, bytes + size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    of(user).streams[id].closed = code;
    return 0;
  }
  static ssize_t read_out(nghttp2_session* session, std::int32_t id, std::uint8_t* into,
                          std::size_t room, std::uint32_t* flags, nghttp2_data_source*,
                          void* user) {
    Stream& stream = of(user).streams[id];
    const std::size_t size = std::min(room, stream.out.size());
    std::copy_n(stream.out.data(), size, into);
    stream.out.erase(0, size);
    if (!stream.out.empty()) return static_cast<ssize_t>(size);
    if (!stream.trailers && size == 0) return NGHTTP2_ERR_DEFERRED;
    if (!stream.trailers) return static_cast<ssize_t>(size);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const auto all = as_nv(*stream.trailers);
    nghttp2_submit_trailer(session, id, all.data(), all.size());
    return static_cast<ssize_t>(size);
  }
  void take() {
    if (session == nullptr) return;
    const std::string bytes = std::exchange(unread_, {});
    nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                             bytes.size());
    flush();
  }
  void accept() {
    acceptor_.async_accept(socket_, [this](std::error_code error) {
      if (error) return;
      socket_.set_option(tcp::no_delay(true));
      accepted = true;
      read();
      pump();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(in_), [this](std::error_code error, std::size_t size) {
      if (error) {
        gone = error != asio::error::operation_aborted;
        return;
      }
      heard = true;
      unread_.append(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(size));
      take();
      read();
    });
  }
  void pump() {
    if (!accepted || mute || out_.empty() || std::exchange(writing_, true)) return;
    sent_ = out_.substr(0, piece);
    out_.erase(0, sent_.size());
    asio::async_write(socket_, asio::buffer(sent_), [this](std::error_code error, std::size_t) {
      writing_ = false;
      if (!error) pump();
    });
  }

  tcp::acceptor acceptor_;
  tcp::socket socket_;
  std::array<char, 16384> in_{};
  std::string unread_;
  std::string out_;
  std::string sent_;
  bool writing_ = false;
};

}  // namespace holdfast::stores::etcd
