#include "src/server/front/leader_link.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/empty_buffer.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

using base::BootClock;
using port::SocketIo;

constexpr std::size_t kLongestReply = std::size_t{1} << 20U;
constexpr std::size_t kReadAtOnce = 64 * 1'024;
constexpr std::size_t kKept = 64 * 1'024;

// A message of a channel that nobody asked for. The answer to a subscription looks alike but for
// its first word.
bool is_message(std::string_view reply) {
  constexpr std::string_view kRest = "3\r\n$7\r\nmessage\r\n";
  const bool counts = reply.starts_with('*') || reply.starts_with('>');
  return counts && reply.substr(1).starts_with(kRest);
}

void forget(Connection&, std::string_view) {}

std::string hello_of(const Connection& client) {
  const std::string version = std::to_string(client.protocol);
  Words hello{"HELLO", version};
  if (client.login != nullptr) {
    hello.insert(hello.end(), {"AUTH", client.login->user, client.login->password});
  }
  hello.insert(hello.end(), {"SETNAME", client.name});
  return request_bytes(hello);
}

}  // namespace

std::string request_bytes(const Words& words) {
  std::string bytes;
  append_array(bytes, words.size());
  for (const std::string_view each : words) append_text(bytes, each);
  return bytes;
}

LeaderLink::LeaderLink(const LinkTools& tools, const ConnectionPtr& client, std::string leader)
    : tools_(tools),
      client_(client),
      leader_(std::move(leader)),
      reader_(kLongestReply),
      protocol_(client->protocol),
      name_(client->name),
      login_(client->login),
      // The leader judges rights and limits, so it must know the user.
      out_(hello_of(*client) + request_bytes({"HF1", "forwarded", "0"})) {}

void LeaderLink::open() {
  dial_ = std::make_shared<Dial>(tools_.dial, [weak = weak_from_this()](Result<Stream> stream) {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ == State::kClosed) return;
    stream ? self->begin(*std::move(stream)) : self->end(stream.error().message());
  });
  dial_->start(leader_);
}

void LeaderLink::begin(Stream stream) {
  stream_.emplace(std::move(stream));
  state_ = State::kGreeting;
  flush();
  wait_read();
}

// No request has left yet, so whatever is wrong here is told as an error.
void LeaderLink::on_greeting(std::string_view reply) {
  if (!std::exchange(hello_answered_, true)) {
    if (reply.starts_with('-')) fail_all(reply);
    return;
  }
  if (!reply.starts_with('+')) return end("its version does not take forwarded requests");
  // This server may have stood still, and the client may have given up.
  const auto now = BootClock::now();
  const auto is_late = [now](const Asked& each) { return each.by <= now; };
  if (std::any_of(asked_.begin(), asked_.end(), is_late)) return end("it answers too late");
  state_ = State::kOpen;
  for (Asked& each : asked_) out_ += std::exchange(each.bytes, {});
  flush();
}

void LeaderLink::send(std::string bytes, base::BootInstant by, Answered answered) {
  const ConnectionPtr client = client_.lock();
  if (client == nullptr) return;
  // It could not even begin to connect.
  if (state_ == State::kClosed) return answered(*client, failure_);
  keep_up_with(*client);
  put(std::move(bytes), {by, std::move(answered)});
}

// The client may have changed its user, its protocol or its name since its last request. A log-in
// that the leader refuses ends the connection there, so no later request is done for the user of
// before.
void LeaderLink::keep_up_with(const Connection& client) {
  if (client.protocol == protocol_ && client.name == name_ && client.login == login_) return;
  protocol_ = client.protocol;
  name_ = client.name;
  login_ = client.login;
  put(hello_of(client), {BootClock::now() + tools_.patience, &forget});
}

void LeaderLink::put(std::string bytes, Asked asked) {
  const bool open = state_ == State::kOpen;
  count_unsent(unsent_ + bytes.size());
  (open ? out_ : asked.bytes) += bytes;
  asked_.push_back(std::move(asked));
  if (asked_.size() == 1) watch_time();
  if (open && !writing_) flush();
}

void LeaderLink::count_unsent(std::size_t now) {
  const std::size_t before = std::exchange(unsent_, now);
  if (const ConnectionPtr client = client_.lock()) client->note_unsent(before, now);
}

void LeaderLink::flush() {
  while (state_ != State::kClosed && sent_ < out_.size()) {
    const SocketIo io = stream_->write(std::string_view(out_).substr(sent_));
    if (io.next == SocketIo::Next::kEnded) return end("the connection was lost");
    if (io.next != SocketIo::Next::kDone) {
      out_.erase(0, std::exchange(sent_, 0));
      if (state_ == State::kOpen) count_unsent(out_.size());
      writing_ = true;
      return stream_->when_writable([weak = weak_from_this()](std::error_code error) {
        const auto self = weak.lock();
        if (self == nullptr || self->state_ == State::kClosed) return;
        self->writing_ = false;
        error ? self->end(error.message()) : self->flush();
      });
    }
    sent_ += io.bytes;
  }
  if (state_ == State::kClosed) return;
  sent_ = 0;
  base::empty_buffer(out_, kKept);
  if (state_ == State::kOpen) count_unsent(0);
}

void LeaderLink::wait_read() {
  if (state_ == State::kClosed) return;
  stream_->when_readable([weak = weak_from_this()](std::error_code error) {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ == State::kClosed) return;
    error ? self->end(error.message()) : self->on_readable();
  });
}

// A client that reads nothing has at most as many answers here as a connection may have requests.
void LeaderLink::on_readable() {
  const auto self = shared_from_this();
  const SocketIo io = stream_->read(tools_.scratch.data(), kReadAtOnce);
  if (io.next == SocketIo::Next::kEnded) return end("the connection was lost");
  if (io.next == SocketIo::Next::kDone) {
    reader_.feed(std::string_view(tools_.scratch).substr(0, io.bytes));
    while (state_ != State::kClosed) {
      const auto reply = reader_.next();
      if (!reply) return end(reply.error().message());
      if (reply->empty()) break;
      state_ == State::kGreeting ? on_greeting(*reply) : take(*reply);
    }
  }
  wait_read();
}

void LeaderLink::take(std::string_view reply) {
  const ConnectionPtr client = client_.lock();
  if (client == nullptr) return close();
  if (is_message(reply)) {
    std::string message(reply);
    message.front() = client->protocol == 3 ? '>' : '*';  // It may have changed since.
    return client->push(message);
  }
  if (asked_.empty()) return end("it answers what nobody asked");
  // The lease began no earlier than the request was read. An answer that is too old could tell of a
  // lease that has ended.
  if (BootClock::now() >= asked_.front().by) return end("its answer is too late");
  const Asked asked = std::move(asked_.front());
  asked_.pop_front();
  watch_time();
  asked.answered(*client, reply);
}

void LeaderLink::watch_time() {
  if (alarm_) tools_.alarms.cancel(*std::exchange(alarm_, std::nullopt));
  if (asked_.empty()) return;
  alarm_ = tools_.alarms.at(asked_.front().by, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ == State::kClosed) return;
    self->alarm_.reset();
    self->end("it does not answer");
  });
}

// A request that was sent may be applied, so nothing may be said about it.
void LeaderLink::end(const std::string& why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen) {
    const ConnectionPtr client = client_.lock();
    if (client == nullptr) return close();
    client->flush();  // Answers that have come are good.
    return client->close();
  }
  std::string error;
  append_error(error, "STANDBY this server does not lead, and cannot forward to " + leader_ +
                          ", which does: " + why);
  fail_all(error);
}

// Nothing was sent. The next request tries another connection.
void LeaderLink::fail_all(std::string_view error) {
  const auto self = shared_from_this();
  std::deque<Asked> failed;
  failed.swap(asked_);
  failure_ = error;
  const ConnectionPtr client = client_.lock();
  close();
  if (client == nullptr) return;
  client->links.erase(leader_);
  for (const Asked& each : failed) each.answered(*client, failure_);
}

void LeaderLink::close() {
  if (state_ == State::kClosed) return;
  if (alarm_) tools_.alarms.cancel(*std::exchange(alarm_, std::nullopt));
  asked_.clear();
  state_ = State::kClosed;
  out_.clear();
  sent_ = 0;
  count_unsent(0);
  if (dial_) dial_->close();
  if (stream_) stream_->close();
}

}  // namespace holdfast::server
