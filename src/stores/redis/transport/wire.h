// A socket to a Redis server, plain, Unix or TLS, that never makes its caller wait unless told to.
//
// The pipeline and the subscriber wait for it in the loop's reactor, the direct link in poll(): one
// transport for all, which is why TLS is OpenSSL's own here and not Asio's stream.
//
// Thread-safety: one thread at a time; descriptor() and abandon() also from a forked child.
// Errors: what failed is told by why(): kUnavailable, or kPermissionDenied for certificates.
#pragma once

#include <atomic>
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

  // Begins to connect; dial() goes on with it. false: it failed at once.
  bool open(const Remote& remote, const Endpoint& endpoint);
  // Connecting and TLS, a step at a time, until kDone. To be called when what it wanted is there.
  Outcome dial();
  enum class Wait { kNever, kAWhile };
  // kFailed also when the peer has closed. kAWhile: waits for bytes, a quarter of a second at most
  // (then: kWantRead), once let_reads_wait() was called.
  Outcome read(char* into, std::size_t size, Wait wait = Wait::kNever);
  // Some of the bytes. After kWant... the same bytes must be given again.
  Outcome write(std::string_view bytes);
  // Whether read() may have more without the socket becoming readable.
  bool buffers() const noexcept { return tls_ != nullptr; }

  void let_reads_wait();
  // Whether the peer is known to have closed, or sent what nobody asked for.
  bool stale() const noexcept;

  int descriptor() const noexcept { return fd_.load(std::memory_order_relaxed); }
  // Why the last call failed, naming where.
  Error why() const { return failure_; }

  void close() noexcept;
  // Wakes whoever waits in read() or poll(). The caller sees to it that nobody closes meanwhile.
  void shut_down() noexcept;
  // Closes the descriptor and nothing else.
  void abandon() noexcept;

 private:
  friend struct WireBio;

  Outcome failed(Errc code, std::string what);
  Outcome failed_errno(const char* doing);
  Outcome of_tls(int result, const char* doing);
  void look_for_alert();
  bool set_up_tls(const Remote& remote);

  std::atomic<int> fd_{-1};
  int recv_flags_ = 0;  // For the read() under way.
  bool connected_ = false;
  SslSession tls_;
  std::string where_;
  Error failure_{Errc::kUnavailable, "not connected"};
};

}  // namespace holdfast::stores::redis
