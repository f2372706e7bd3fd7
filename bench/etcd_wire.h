// etcd's protocol, which is gRPC over HTTP/2: calls on one connection, from one thread.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "src/stores/etcd/wire.pb.h"
#include "tests/support/loopback.h"

namespace holdfast::bench {

namespace wire = stores::etcd::wire;

// Stays where it is while it is under way.
struct EtcdCall {
  // In front of each message: a byte for the compression and four for the length.
  static constexpr std::size_t kHead = 5;

  bool stream = false;           // The request stays open behind its message.
  std::function<void()> then;    // Called at the end; it may start the call again.
  std::string request, answers;  // The rest to be sent, and what has come.
  bool ended = false, ok = false;

  // The bytes of the first answer; 0: it is not complete.
  std::size_t first_answer() const {
    if (answers.size() < kHead) return 0;
    std::uint32_t length = 0;
    std::memcpy(&length, &answers[1], sizeof(length));
    const std::size_t bytes = kHead + ntohl(length);
    return answers.size() < bytes ? 0 : bytes;
  }
};

class EtcdWire {
 public:
  explicit EtcdWire(std::uint16_t port)
      : authority_("127.0.0.1:" + std::to_string(port)),
        socket_(support::connect_to_loopback(port)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &on_close);
    nghttp2_session_client_new(&session_, callbacks, nullptr);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~EtcdWire() {
    nghttp2_session_del(session_);
    ::close(socket_);
  }
  EtcdWire(const EtcdWire&) = delete;
  EtcdWire& operator=(const EtcdWire&) = delete;

  // The next turn() sends it.
  template <typename Request>
  void start(EtcdCall& call, std::string_view method, const Request& request) {
    call.ended = call.ok = false;
    call.answers.clear();
    const std::uint32_t length = htonl(static_cast<std::uint32_t>(request.ByteSizeLong()));
    call.request.assign(EtcdCall::kHead, '\0');
    std::memcpy(&call.request[1], &length, sizeof(length));
    request.AppendToString(&call.request);
    const std::array headers{header(":method", "POST"), header(":scheme", "http"),
                             header(":path", method),   header(":authority", authority_),
                             header("te", "trailers"),  header("content-type", "application/grpc")};
    const nghttp2_data_provider body{{.ptr = &call}, &on_send};
    nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &body, &call);
  }

  // Sends what there is to send, and reads what the server has sent, once there is something.
  // False: the connection is lost.
  bool turn() {
    const std::uint8_t* bytes = nullptr;
    ssize_t size = 0;
    while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0) {
      unsent_.append(bytes, bytes + size);
    }
    size = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (size > 0) unsent_.erase(0, static_cast<std::size_t>(size));
    pollfd ready{socket_, static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    ::poll(&ready, 1, -1);
    if ((ready.revents & POLLIN) == 0) return ready.revents == POLLOUT;
    size = ::recv(socket_, received_.data(), received_.size(), 0);
    return size > 0 &&
           nghttp2_session_mem_recv(session_, received_.data(), static_cast<std::size_t>(size)) > 0;
  }

  // The next answer; an empty one if the connection is lost or the call ends without.
  template <typename Response>
  Response next(EtcdCall& call) {
    while (call.first_answer() == 0 && !call.ended && turn()) {
    }
    Response response;
    if (const std::size_t bytes = call.first_answer(); bytes > 0) {
      response.ParseFromString(call.answers.substr(EtcdCall::kHead, bytes - EtcdCall::kHead));
      call.answers.erase(0, bytes);
    }
    return response;
  }

  template <typename Response, typename Request>
  Response ask(std::string_view method, const Request& request) {
    EtcdCall call;
    start(call, method, request);
    while (!call.ended && turn()) {
    }
    return next<Response>(call);
  }

 private:
  static nghttp2_nv header(std::string_view name, std::string_view value) {
    const auto bytes = [](std::string_view text) {
      return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
  }
  static EtcdCall& call_of(nghttp2_session* session, std::int32_t stream) {
    return *static_cast<EtcdCall*>(nghttp2_session_get_stream_user_data(session, stream));
  }

  static ssize_t on_send(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t room,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) {
    EtcdCall& call = *static_cast<EtcdCall*>(source->ptr);
    if (call.request.empty()) return NGHTTP2_ERR_DEFERRED;
    const std::size_t size = call.request.copy(reinterpret_cast<char*>(out), room);
    call.request.erase(0, size);
    if (call.request.empty() && !call.stream) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t, void*) {
    const std::string_view status("grpc-status");
    if (std::equal(name, name + name_size, status.begin(), status.end())) {
      call_of(session, frame->hd.stream_id).ok = value_size == 1 && *value == '0';
    }
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t stream,
                     const std::uint8_t* data, std::size_t size, void*) {
    call_of(session, stream).answers.append(data, data + size);
    return 0;
  }
  static int on_close(nghttp2_session* session, std::int32_t stream, std::uint32_t, void*) {
    EtcdCall& call = call_of(session, stream);
    call.ended = true;
    if (call.then) call.then();
    return 0;
  }

  const std::string authority_;
  const int socket_;
  nghttp2_session* session_ = nullptr;
  std::string unsent_;
  std::array<std::uint8_t, 64 * 1024> received_{};
};

}  // namespace holdfast::bench
