// Tells when the sockets of many clients are ready. asio's own waits ask the kernel anew for each
// request and each socket; this asks once for all that are ready in a turn of the loop.
//
// Guarantee: each wait is told once, in a later turn of the loop. A socket that ended is told
// nothing from the kernel any more, also when the same turn has found it ready.
// Not guaranteed: silence after the end. A call that when_asked() has posted still comes, and so
// does an error of the kernel's. The second of two waits of one kind comes although the first has
// ended the socket. So the callback looks whether its socket is open. Sockets have no order.
//
// Thread-safety: the loop's thread. Blocking: never. Ownership: shared; the loop outlives it.
// Errors: make() throws std::system_error where there is no descriptor to be had.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>

namespace holdfast::server {

class ReadySet : public std::enable_shared_from_this<ReadySet> {
 public:
  using Ready = std::function<void(std::error_code)>;

  // A socket, which it closes.
  class Socket {
   public:
    Socket(std::shared_ptr<ReadySet> set, int fd) : set_(std::move(set)), fd_(fd) {}
    ~Socket() { set_->end(*this); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    int fd() const { return fd_; }
    // An error: the kernel refuses to watch the socket.
    void when_readable(Ready ready) { set_->wait(*this, readable_, EPOLLIN, std::move(ready)); }
    void when_writable(Ready ready) { set_->wait(*this, writable_, EPOLLOUT, std::move(ready)); }
    // In the loop's next turn.
    void when_asked(Ready ready) { set_->tell_later({}, std::move(ready)); }

   private:
    friend class ReadySet;
    const std::shared_ptr<ReadySet> set_;
    const int fd_;
    std::uint32_t asked_ = 0;  // The events that the kernel tells.
    Ready readable_;
    Ready writable_;
  };

  static std::shared_ptr<ReadySet> make(asio::io_context& io);

 private:
  explicit ReadySet(asio::io_context& io);

  void wait(Socket& socket, Ready& place, std::uint32_t event, Ready ready);
  bool ask(Socket& socket, std::uint32_t events);
  void tell_later(std::error_code error, Ready ready);
  void end(Socket& socket);
  void wait_for_events();
  void on_events();
  void tell(std::size_t at);

  asio::posix::stream_descriptor epoll_;
  std::array<epoll_event, 128> events_{};
  std::size_t told_ = 0;  // Events before this one are told.
  std::size_t count_ = 0;
  std::size_t watched_ = 0;  // Sockets that the kernel watches.
  bool waiting_ = false;
};

}  // namespace holdfast::server
