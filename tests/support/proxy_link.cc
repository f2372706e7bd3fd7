#include "tests/support/proxy_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace holdfast::support {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;
constexpr std::size_t kTail = 4 * 1024;
constexpr std::size_t kTranscript = 256 * 1024;
constexpr std::size_t kBackpressure = 4 * 1024 * 1024;
constexpr std::chrono::microseconds kSmallestGap{20};

constexpr std::size_t index(Direction direction) { return static_cast<std::size_t>(direction); }
constexpr Direction other(Direction direction) {
  return direction == Direction::kToServer ? Direction::kToClient : Direction::kToServer;
}
constexpr std::array kBoth = {Direction::kToServer, Direction::kToClient};

SteadyTime now() { return std::chrono::steady_clock::now(); }

std::size_t queued(const ProxyLane& lane) {
  std::size_t size = 0;
  for (const auto& piece : lane.queue) size += piece.bytes.size();
  return size;
}

bool contains(std::string_view text, std::string_view part) {
  return part.empty() || text.find(part) != std::string_view::npos;
}

void keep_end(std::string& text, std::size_t size) {
  if (text.size() > size) text.erase(0, text.size() - size);
}

// The number of a line like "*3\r\n", and where the next line begins; -1: no such line. `at` stays
// where it is while the line is not complete.
std::optional<long> read_count(std::string_view stream, std::size_t& at, char kind) {
  if (at >= stream.size()) return std::nullopt;
  if (stream[at] != kind) return -1;
  const auto end = stream.find("\r\n", at);
  if (end == std::string_view::npos) return std::nullopt;
  long count = -1;
  const auto parsed = std::from_chars(stream.data() + at + 1, stream.data() + end, count);
  if (parsed.ec != std::errc() || parsed.ptr != stream.data() + end) return -1;
  at = end + 2;
  return count;
}

}  // namespace

std::size_t resp_request_size(std::string_view stream) {
  std::size_t at = 0;
  const auto words = read_count(stream, at, '*');
  if (!words) return 0;
  if (*words < 0) return std::string_view::npos;
  for (long word = 0; word < *words; ++word) {
    const auto size = read_count(stream, at, '$');
    if (!size) return 0;
    if (*size < 0) return std::string_view::npos;
    at += static_cast<std::size_t>(*size) + 2;
    if (at > stream.size()) return 0;
  }
  return at;
}

ProxyLinks::~ProxyLinks() {
  for (ProxyLink& link : links_) end(link, false);
  for (const ProxyCopy& copy : copies_) ::close(copy.socket);
}

void ProxyLinks::accept(int client) {
  ++stats_.accepted;
  ProxyLink& link = links_.emplace_back();
  link.sockets = {client, connect_to(options_.server_host, options_.server_port)};
  ++stats_.open;
  if (link.sockets[1] < 0) end(link, true);
}

std::vector<pollfd> ProxyLinks::wanted() const {
  std::vector<pollfd> all;
  for (const ProxyLink& link : links_) {
    for (const Direction direction : kBoth) {
      const ProxyLane& in = link.lanes[index(direction)];
      const ProxyLane& out = link.lanes[index(other(direction))];
      const bool to_server = direction == Direction::kToServer;
      short events = 0;
      const bool full =
          !in.queue.empty() && in.queue.front().held_by == 0 && queued(in) > kBackpressure;
      if (!in.ended && !full && (to_server || !link.connecting)) events |= POLLIN;
      if (out.blocked || (!to_server && link.connecting)) events |= POLLOUT;
      // A socket that hangs up would wake poll() for ever.
      all.push_back({events == 0 ? -1 : link.sockets[index(direction)], events, 0});
    }
  }
  for (const ProxyCopy& copy : copies_) {
    const short events = copy.bytes.empty() ? POLLIN : POLLOUT;
    all.push_back({copy.socket, events, 0});
  }
  return all;
}

std::optional<SteadyTime> ProxyLinks::next_due() const {
  std::optional<SteadyTime> next;
  for (const ProxyLink& link : links_) {
    for (const ProxyLane& lane : link.lanes) {
      if (lane.queue.empty() || lane.queue.front().held_by != 0 || lane.blocked) continue;
      if (&lane == &link.lanes[0] && link.connecting) continue;
      next = std::min(next.value_or(lane.queue.front().due), lane.queue.front().due);
    }
  }
  return next;
}

void ProxyLinks::handle(const std::vector<pollfd>& polled, std::size_t first) {
  std::size_t at = first;
  for (ProxyLink& link : links_) {
    const short from_client = at < polled.size() ? polled[at].revents : short{0};
    const short from_server = at + 1 < polled.size() ? polled[at + 1].revents : short{0};
    at += 2;
    constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
    if (link.connecting && from_server != 0) connected(link);
    if (!link.finished && (from_client & kReadable) != 0) read(link, Direction::kToServer);
    if (!link.finished && (from_server & kReadable) != 0) read(link, Direction::kToClient);
    if ((from_client & POLLOUT) != 0) link.lanes[1].blocked = false;
    if ((from_server & POLLOUT) != 0) link.lanes[0].blocked = false;
    for (const Direction direction : kBoth) pump(link, direction);
    settle(link);
  }
  for (ProxyCopy& copy : copies_) {
    if (at < polled.size() && polled[at].revents != 0) handle_copy(copy, polled[at].revents);
    ++at;
  }
  links_.remove_if([](const ProxyLink& link) { return link.finished; });
  copies_.remove_if([](const ProxyCopy& copy) { return copy.finished; });
  stats_.open = links_.size();
  stats_.pending = {};
  for (const ProxyLink& link : links_) {
    for (std::size_t i = 0; i < link.lanes.size(); ++i) {
      stats_.pending[i] += queued(link.lanes[i]) + link.lanes[i].partial.size();
    }
  }
}

void ProxyLinks::connected(ProxyLink& link) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(link.sockets[1], SOL_SOCKET, SO_ERROR, &error, &size);
  link.connecting = false;
  if (error != 0) end(link, true);
}

void ProxyLinks::read(ProxyLink& link, Direction direction) {
  ProxyLane& lane = link.lanes[index(direction)];
  if (lane.ended) return;
  std::array<char, kReadSize> buffer;
  const ssize_t size = ::recv(link.sockets[index(direction)], buffer.data(), buffer.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    lane.ended = true;
    // Half a request is the server's to judge.
    if (!lane.partial.empty()) take_message(link, direction, std::exchange(lane.partial, {}));
    if (direction == Direction::kToServer) ++stats_.clients_gone;
    return;
  }
  const auto count = static_cast<std::size_t>(size);
  stats_.received[index(direction)] += count;
  if (direction == Direction::kToClient && link.lanes[0].ended) stats_.replies_to_the_gone += count;
  take(link, direction, std::string(buffer.data(), count));
}

void ProxyLinks::take(ProxyLink& link, Direction direction, std::string bytes) {
  if (options_.framing == Framing::kRaw || direction == Direction::kToClient) {
    take_message(link, direction, std::move(bytes));
    return;
  }
  std::string& partial = link.lanes[index(direction)].partial;
  partial += bytes;
  std::size_t at = 0;
  while (at < partial.size()) {
    std::size_t size = resp_request_size(std::string_view(partial).substr(at));
    if (size == 0) break;
    size = std::min(size, partial.size() - at);
    take_message(link, direction, partial.substr(at, size));
    at += size;
  }
  partial.erase(0, at);
}

bool ProxyLinks::meets(const ProxyLink& link, Direction direction, const Fault& fault,
                       std::string_view message) const {
  return fault.direction == direction && contains(link.transcript, fault.on_connection_with) &&
         contains(message, fault.containing);
}

void ProxyLinks::take_message(ProxyLink& link, Direction direction, std::string bytes) {
  ProxyLane& lane = link.lanes[index(direction)];
  if (direction == Direction::kToServer) remember(link, bytes);
  ProxyLane::Piece piece{std::move(bytes), std::max(lane.last_due, now()), 0, {}};
  for (auto& [number, active] : faults_) {
    // A text that began in the message before ends in this one.
    const std::size_t overlap =
        active.fault.containing.empty()
            ? 0
            : std::min(lane.tail.size(), active.fault.containing.size() - 1);
    const std::string seen = lane.tail.substr(lane.tail.size() - overlap) + piece.bytes;
    if (active.fault.times != 0 && active.left == 0) continue;
    if (!meets(link, direction, active.fault, seen)) continue;
    if (active.left > 0) --active.left;
    ++stats_.hits[number];
    apply(link, direction, number, active.fault, piece);
  }
  lane.tail += piece.bytes;
  keep_end(lane.tail, kTail);
  lane.last_due = piece.due;
  if (lane.mute) {
    stats_.dropped[index(direction)] += piece.bytes.size();
    return;
  }
  lane.queue.push_back(std::move(piece));
}

void ProxyLinks::apply(ProxyLink& link, Direction direction, int number, const Fault& fault,
                       ProxyLane::Piece& piece) {
  ProxyLane& lane = link.lanes[index(direction)];
  switch (fault.kind) {
    case Fault::Kind::kDelay: piece.due = std::max(piece.due, now() + fault.delay); break;
    case Fault::Kind::kHold:
      if (piece.held_by == 0) piece.held_by = number;
      break;
    case Fault::Kind::kBlackhole: lane.mute = true; break;
    case Fault::Kind::kDropReplies: link.lanes[index(other(direction))].mute = true; break;
    case Fault::Kind::kReset:
      if (!lane.reset_after) lane.reset_after = queued(lane) + fault.after_bytes;
      break;
    case Fault::Kind::kSplit: piece.gap = std::max(kSmallestGap, fault.delay); break;
    case Fault::Kind::kDuplicate: copy(piece.bytes, fault.preamble); break;
  }
}

void ProxyLinks::remember(ProxyLink& link, const std::string& message) {
  if (link.transcript.size() < kTranscript) link.transcript += message;
  remembered_.push_back(message);
  if (remembered_.size() > FaultProxy::kRemembered) remembered_.pop_front();
}

void ProxyLinks::lose(ProxyLane& lane, Direction direction) {
  stats_.dropped[index(direction)] += queued(lane);
  lane.queue.clear();
  lane.mute = true;
}

// One send() of what is due; false: there is no more to do for now.
bool ProxyLinks::send_some(ProxyLink& link, Direction direction) {
  ProxyLane& lane = link.lanes[index(direction)];
  if (lane.queue.empty() || lane.queue.front().held_by != 0) return false;
  ProxyLane::Piece& piece = lane.queue.front();
  if (piece.due > now()) return false;
  std::size_t size = piece.gap.count() == 0 ? piece.bytes.size() : 1;
  if (lane.reset_after) size = std::min(size, *lane.reset_after);
  const ssize_t sent = ::send(link.sockets[index(other(direction))], piece.bytes.data(), size,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    lane.blocked = errno == EAGAIN || errno == EINTR;
    if (!lane.blocked) lose(lane, direction);
    return false;
  }
  const auto count = static_cast<std::size_t>(sent);
  stats_.forwarded[index(direction)] += count;
  if (lane.reset_after) *lane.reset_after -= count;
  piece.bytes.erase(0, count);
  if (piece.gap.count() != 0) piece.due = now() + piece.gap;
  if (piece.bytes.empty()) lane.queue.pop_front();
  return true;
}

void ProxyLinks::pump(ProxyLink& link, Direction direction) {
  ProxyLane& lane = link.lanes[index(direction)];
  if (link.finished || lane.blocked) return;
  if (direction == Direction::kToServer && link.connecting) return;
  for (;;) {
    if (lane.reset_after == 0U) {
      end(link, true);
      return;
    }
    if (!send_some(link, direction)) break;
  }
  if (lane.ended && lane.queue.empty() && !lane.mute && !lane.shut) {
    lane.shut = true;
    ::shutdown(link.sockets[index(other(direction))], SHUT_WR);
  }
}

void ProxyLinks::settle(ProxyLink& link) {
  if (link.finished) return;
  const ProxyLane& to_server = link.lanes[0];
  const ProxyLane& to_client = link.lanes[1];
  const bool both_ended =
      to_server.ended && to_client.ended && to_server.queue.empty() && to_client.queue.empty();
  // A server that closes does not read on; its client is told so by our closing, too.
  if (both_ended || to_client.shut) end(link, false);
}

void ProxyLinks::end(ProxyLink& link, bool with_reset) {
  if (link.finished) return;
  link.finished = true;
  for (const Direction direction : kBoth) {
    lose(link.lanes[index(direction)], direction);
    const int socket = std::exchange(link.sockets[index(direction)], -1);
    if (socket < 0) continue;
    if (with_reset) {
      const linger at_once{1, 0};
      ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    ::close(socket);
  }
  if (with_reset) ++stats_.resets;
}

int ProxyLinks::add(const Fault& fault) {
  faults_[++last_number_] = {fault, fault.times};
  stats_.hits[last_number_] = 0;
  return last_number_;
}

void ProxyLinks::remove(int fault) {
  faults_.erase(fault);
  for (ProxyLink& link : links_) {
    for (ProxyLane& lane : link.lanes) {
      for (auto& piece : lane.queue) {
        if (piece.held_by == fault) piece.held_by = 0;
      }
    }
  }
}

void ProxyLinks::remove_all() {
  while (!faults_.empty()) remove(faults_.begin()->first);
}

void ProxyLinks::end_all(const std::string& text, bool with_reset) {
  for (ProxyLink& link : links_) {
    if (contains(link.transcript, text)) end(link, with_reset);
  }
}

bool ProxyLinks::replay(const std::string& text, const std::string& preamble) {
  const auto found = std::find_if(remembered_.rbegin(), remembered_.rend(),
                                  [&](const std::string& each) { return contains(each, text); });
  if (found == remembered_.rend()) return false;
  copy(*found, preamble);
  return true;
}

void ProxyLinks::copy(const std::string& bytes, const std::string& preamble) {
  ++stats_.copies_sent;
  const int socket = connect_to(options_.server_host, options_.server_port);
  if (socket >= 0) copies_.push_back({socket, preamble + bytes});
}

void ProxyLinks::handle_copy(ProxyCopy& copy, short events) {
  if ((events & POLLOUT) != 0 && !copy.bytes.empty()) {
    const ssize_t sent =
        ::send(copy.socket, copy.bytes.data(), copy.bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) copy.bytes.erase(0, static_cast<std::size_t>(sent));
    // The server answers, and then closes: that is how its last reply is told.
    if (copy.bytes.empty()) ::shutdown(copy.socket, SHUT_WR);
    if (sent > 0) return;
  }
  std::array<char, kReadSize> buffer;
  const ssize_t size = ::recv(copy.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size > 0) {
    stats_.copies_replies.append(buffer.data(), static_cast<std::size_t>(size));
    return;
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  ++stats_.copies_answered;
  ::close(copy.socket);
  copy.finished = true;
}

}  // namespace holdfast::support
