#include "src/cli/guard/guard_wire.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace holdfast::cli {
namespace {

struct Header {
  GuardWord word{};
  std::int32_t number = 0;
  std::int64_t instant = 0;
};

}  // namespace

bool send_message(int fd, const GuardMessage& message) {
  Header header{message.word, message.number, message.instant};
  iovec parts[2] = {{&header, sizeof header},
                    {const_cast<char*>(message.text.data()), message.text.size()}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  for (;;) {
    if (::sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::optional<GuardMessage> receive_message(int fd) {
  const auto next_size = [fd] {
    return ::recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  };
  ssize_t size = next_size();
  // An end that closes with unread messages resets the link. Its earlier messages are still there,
  // after an error that is reported once.
  if (size < 0 && errno == ECONNRESET) size = next_size();
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  GuardMessage message;
  message.word = GuardWord::kGone;
  if (size < static_cast<ssize_t>(sizeof(Header))) return message;
  std::vector<char> bytes(static_cast<std::size_t>(size));
  if (::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) != size) return message;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  message.word = header.word;
  message.number = header.number;
  message.instant = header.instant;
  message.text.assign(bytes.begin() + sizeof header, bytes.end());
  return message;
}

}  // namespace holdfast::cli
