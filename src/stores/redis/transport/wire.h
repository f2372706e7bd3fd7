// A socket to a Redis server, plain, Unix or TLS. It never blocks its caller unless asked to.
//
// The pipeline and the subscriber wait in the loop's reactor, the direct link in poll(). All three
// share this class, so TLS is OpenSSL's own here and not Asio's stream.
//
// Thread-safety: one thread at a time; descriptor() and abandon() also from a forked child.
// Errors: why() tells what failed: kUnavailable, or kPermissionDenied for certificates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

class Wire {
 public:
  enum class Io { kDone, kWantRead, kWantWrite, kFailed };
  struct Outcome {
    Io io = Io::kDone;
    std::size_t bytes = 0;
  };

  Wire() = default;
  ~Wire() { close(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Begins to connect; dial() continues. false: it failed at once.
  bool open(const Remote& remote, const Endpoint& endpoint);
  // Connects and does TLS, one step per call, until kDone. Call it again when the socket is ready
  // for the returned wish.
  Outcome dial();
  enum class Wait { kNever, kAWhile };
  // kFailed also if the peer has closed. kAWhile: waits up to a quarter of a second for bytes, and
  // then returns kWantRead. Needs an earlier let_reads_wait().
  Outcome read(char* into, std::size_t size, Wait wait = Wait::kNever);
  // May write a part of the bytes. After kWantRead or kWantWrite, pass the same bytes again.
  Outcome write(std::string_view bytes);
  // Whether read() may have more without the socket becoming readable.
  bool buffers() const noexcept { return tls_ != nullptr; }

  void let_reads_wait();
  // Whether the peer has closed, or has sent bytes that nobody asked for.
  bool stale() const noexcept;

  // The URL and the endpoint that was opened last, for messages.
  const std::string& where() const noexcept { return where_; }
  int descriptor() const noexcept { return socket_.fd.load(std::memory_order_relaxed); }
  // Why and where the last call failed.
  Error why() const { return failure_; }

  void close() noexcept;
  // Wakes a thread that waits in read() or poll(). The caller ensures that nobody closes the socket
  // meanwhile.
  void shut_down() noexcept;
  // Closes the descriptor and nothing else.
  void abandon() noexcept;

 private:
  Outcome failed(Errc code, std::string what);
  Outcome failed_errno(const char* doing);
  Outcome of_tls(int result, const char* doing);
  void look_for_alert();
  bool set_up_tls(const Remote& remote, const Endpoint& endpoint);

  TlsSocket socket_;  // Its flags are those of the read() under way.
  bool connected_ = false;
  SslSession tls_;
  std::string where_;
  Error failure_{Errc::kUnavailable, "not connected"};
};

}  // namespace holdfast::stores::redis
