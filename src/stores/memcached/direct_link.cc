#include "src/stores/memcached/direct_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace holdfast::stores::memcached {
namespace {

using base::BootClock;
using base::BootInstant;

// recv() and send() wait no longer: then the boot clock is read, which goes on in a suspend.
constexpr std::chrono::milliseconds kSlice{20};
// After this long without use, a check whether the socket is still open is worth its price.
constexpr std::chrono::milliseconds kIdle{5};

void limit_waiting(int socket, int option, std::chrono::milliseconds most) {
  const timeval time{most.count() / 1000, (most.count() % 1000) * 1000};
  ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof time);
}

std::string words_of(int error) { return std::error_code(error, std::system_category()).message(); }

bool only_late(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

DirectLink::~DirectLink() { drop(); }

void DirectLink::set_server(std::optional<asio::ip::tcp::endpoint> server) {
  const base::LocalLock lock(mutex_);
  away_ = !server;
  // The connection to a server that is away may be as dead as the main one.
  if (!server && socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  server_ = std::move(server);
}

std::optional<DirectLink::Turn> DirectLink::try_take() noexcept {
  if (away_ || closed_) return std::nullopt;
  if (taken_.exchange(true, std::memory_order_acquire)) return std::nullopt;
  return Turn(this);
}

bool DirectLink::connect() {
  std::optional<asio::ip::tcp::endpoint> server;
  int socket = -1;
  {
    const base::LocalLock lock(mutex_);
    if (!server_ || closed_) return false;
    server = server_;
    socket = ::socket(server->protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    socket_ = socket;
  }
  if (socket < 0) return false;
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  limit_waiting(socket, SO_SNDTIMEO, patience_);  // It bounds connect(), too.
  if (::connect(socket, server->data(), static_cast<socklen_t>(server->size())) != 0) {
    drop();
    return false;
  }
  limit_waiting(socket, SO_SNDTIMEO, kSlice);
  limit_waiting(socket, SO_RCVTIMEO, kSlice);
  ++generation_;
  reader_ = {};
  return true;
}

// Whether the server has ended the connection meanwhile.
bool DirectLink::stale() {
  char byte = 0;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count >= 0 || !only_late(errno);
}

void DirectLink::drop() {
  const base::LocalLock lock(mutex_);
  const int socket = socket_.exchange(-1);
  if (socket >= 0) ::close(socket);
}

Answer DirectLink::lose(const std::string& why, bool sent) {
  drop();
  return {sent ? Fate::kUnknown : Fate::kNotSent, {}, why};
}

void DirectLink::close() {
  closed_ = true;
  {
    const base::LocalLock lock(mutex_);
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  }
  while (taken_.load(std::memory_order_acquire)) taken_.wait(true);
  drop();
}

void DirectLink::abandon() noexcept {
  const int socket = socket_.exchange(-1);
  if (socket >= 0) ::close(socket);
}

DirectLink::Turn::Turn(Turn&& other) noexcept : link_(std::exchange(other.link_, nullptr)) {}

DirectLink::Turn::~Turn() {
  if (link_ == nullptr) return;
  link_->taken_.store(false, std::memory_order_release);
  link_->taken_.notify_all();
}

std::uint64_t DirectLink::Turn::generation() {
  DirectLink& link = *link_;
  const bool rested = BootClock::now() - link.used_ > kIdle;
  if (link.socket_ >= 0 && rested && link.stale()) link.drop();
  return link.socket_ >= 0 || link.connect() ? link.generation_ : 0;
}

Answer DirectLink::Turn::ask(std::string_view request, BootInstant deadline) {
  DirectLink& link = *link_;
  deadline = std::min(deadline, BootClock::now() + link.patience_);
  const std::size_t size = request.size();
  while (!request.empty()) {
    const ssize_t count = ::send(link.socket_, request.data(), request.size(), MSG_NOSIGNAL);
    if (count < 0 && !only_late(errno)) return link.lose(words_of(errno), /*sent=*/false);
    if (count > 0) request.remove_prefix(static_cast<std::size_t>(count));
    // Its last byte is missing, so the server does not carry it out.
    if (!request.empty() && BootClock::now() >= deadline) {
      return link.lose("cannot send " + std::to_string(size) + " bytes in time", /*sent=*/false);
    }
  }
  std::array<char, 4096> buffer;
  while (true) {
    ssize_t count = -1;
    const auto look = [&](int flags) {
      count = ::recv(link.socket_, buffer.data(), buffer.size(), flags);
      return count >= 0 || !only_late(errno);
    };
    if (!link.spin_.until([&] { return look(MSG_DONTWAIT); })) look(0);
    if (count == 0) return link.lose("the server has closed the connection", /*sent=*/true);
    if (count < 0 && !only_late(errno)) return link.lose(words_of(errno), /*sent=*/true);
    if (count > 0) {
      link.reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
      auto reply = link.reader_.next();
      if (link.reader_.bad() || (reply && link.reader_.next())) {
        return link.lose("the server's answer is none of memcached's", /*sent=*/true);
      }
      if (reply) {
        link.used_ = BootClock::now();
        return {Fate::kDone, *std::move(reply), {}};
      }
    }
    if (BootClock::now() >= deadline) return link.lose("no answer in time", /*sent=*/true);
  }
}

}  // namespace holdfast::stores::memcached
