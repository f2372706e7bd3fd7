#include "src/server/front/ready_set.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace holdfast::server {
namespace {

int make_epoll() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return fd;
}

}  // namespace

std::shared_ptr<ReadySet> ReadySet::make(asio::io_context& io) {
  return std::shared_ptr<ReadySet>(new ReadySet(io));
}

ReadySet::ReadySet(asio::io_context& io) : epoll_(io, make_epoll()) {}

// The kernel goes on telling an event until nobody waits for it: a client that asks one request
// after the other costs no further call.
void ReadySet::wait(Socket& socket, Ready& place, std::uint32_t event, Ready ready) {
  if (!ask(socket, socket.asked_ | event)) {
    return tell_later({errno, std::generic_category()}, std::move(ready));
  }
  if (place == nullptr) {
    place = std::move(ready);
  } else {  // TLS may have to read for a write while a read waits, too.
    place = [first = std::move(place), second = std::move(ready)](std::error_code error) {
      first(error);
      second(error);
    };
  }
}

void ReadySet::tell_later(std::error_code error, Ready ready) {
  asio::post(epoll_.get_executor(), [ready = std::move(ready), error] { ready(error); });
}

bool ReadySet::ask(Socket& socket, std::uint32_t events) {
  if (events == socket.asked_) return true;
  const int how = socket.asked_ == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  epoll_event wanted{.events = events, .data = {.ptr = &socket}};
  if (::epoll_ctl(epoll_.native_handle(), how, socket.fd_, &wanted) != 0) return false;
  socket.asked_ = events;
  if (how == EPOLL_CTL_ADD && ++watched_ == 1) wait_for_events();
  // A wait of asio's keeps the loop from its end.
  if (how == EPOLL_CTL_DEL && --watched_ == 0) epoll_.cancel();
  return true;
}

void ReadySet::end(Socket& socket) {
  ask(socket, 0);
  for (std::size_t at = told_; at < count_; ++at) {
    if (events_[at].data.ptr == &socket) events_[at].data.ptr = nullptr;
  }
  ::close(socket.fd_);
}

void ReadySet::wait_for_events() {
  if (std::exchange(waiting_, true)) return;
  epoll_.async_wait(asio::posix::descriptor_base::wait_read,
                    [weak = weak_from_this()](std::error_code error) {
                      const auto self = weak.lock();
                      if (self == nullptr) return;
                      self->waiting_ = false;
                      if (!error) self->on_events();
                      if (self->watched_ > 0) self->wait_for_events();
                    });
}

void ReadySet::on_events() {
  const int count =
      ::epoll_wait(epoll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  count_ = static_cast<std::size_t>(std::max(count, 0));
  for (told_ = 0; told_ < count_; ++told_) tell(told_);
  count_ = 0;
}

void ReadySet::tell(std::size_t at) {
  auto* const socket = static_cast<Socket*>(events_[at].data.ptr);
  if (socket == nullptr) return;
  const std::uint32_t events = events_[at].events;
  const auto take = [&](Ready& place, std::uint32_t event) {
    const bool happened = (events & (event | EPOLLERR | EPOLLHUP)) != 0;
    return happened ? std::exchange(place, nullptr) : Ready();
  };
  const Ready readable = take(socket->readable_, EPOLLIN);
  const Ready writable = take(socket->writable_, EPOLLOUT);
  if (readable == nullptr && writable == nullptr) {
    // Nobody waits for this one, which would be told without an end.
    const auto waits = (socket->readable_ ? EPOLLIN : 0U) | (socket->writable_ ? EPOLLOUT : 0U);
    ask(*socket, waits);
    return;
  }
  if (readable != nullptr) readable({});
  // The first call may have ended the socket.
  if (writable != nullptr && events_[at].data.ptr != nullptr) writable({});
}

}  // namespace holdfast::server
