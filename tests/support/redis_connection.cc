#include "tests/support/redis_connection.h"

#include <poll.h>

#include <sys/time.h>

#include <ostream>
#include <stdexcept>

#include <hiredis/hiredis.h>

namespace holdfast::support {
namespace {

timeval to_timeval(std::chrono::milliseconds limit) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1000);
  time.tv_usec = static_cast<suseconds_t>(limit.count() % 1000 * 1000);
  return time;
}

Reply to_reply(const redisReply& from) {
  Reply reply;
  if (from.str != nullptr) reply.text.assign(from.str, static_cast<std::size_t>(from.len));
  reply.integer = from.integer;
  switch (from.type) {
    case REDIS_REPLY_STATUS: reply.kind = Reply::Kind::kStatus; break;
    case REDIS_REPLY_STRING: reply.kind = Reply::Kind::kString; break;
    case REDIS_REPLY_INTEGER: reply.kind = Reply::Kind::kInteger; break;
    case REDIS_REPLY_ERROR: reply.kind = Reply::Kind::kError; break;
    case REDIS_REPLY_ARRAY:
      reply.kind = Reply::Kind::kArray;
      for (std::size_t i = 0; i < from.elements; ++i) {
        reply.elements.push_back(to_reply(*from.element[i]));
      }
      break;
    default: reply.kind = Reply::Kind::kNil;
  }
  return reply;
}

}  // namespace

std::string Reply::error_code() const {
  return is_error() ? text.substr(0, text.find(' ')) : std::string();
}

std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  switch (reply.kind) {
    case Reply::Kind::kNil: return out << "(nil)";
    case Reply::Kind::kStatus: return out << reply.text;
    case Reply::Kind::kString: return out << '"' << reply.text << '"';
    case Reply::Kind::kInteger: return out << "(integer) " << reply.integer;
    case Reply::Kind::kError: return out << "(error) " << reply.text;
    case Reply::Kind::kArray: break;
  }
  out << '[';
  for (std::size_t i = 0; i < reply.elements.size(); ++i) {
    out << (i == 0 ? "" : ", ") << reply.elements[i];
  }
  return out << ']';
}

void RedisConnection::Free::operator()(redisContext* context) const { ::redisFree(context); }

RedisConnection::RedisConnection(std::uint16_t port, std::chrono::milliseconds limit)
    : context_(::redisConnectWithTimeout("127.0.0.1", port, to_timeval(limit))) {
  check("connect", limit);
}

RedisConnection::RedisConnection(const std::string& socket_path, std::chrono::milliseconds limit)
    : context_(::redisConnectUnixWithTimeout(socket_path.c_str(), to_timeval(limit))) {
  check("connect", limit);
}

RedisConnection::~RedisConnection() = default;
RedisConnection::RedisConnection(RedisConnection&&) noexcept = default;

void RedisConnection::check(const char* doing, std::chrono::milliseconds limit) {
  if (context_ == nullptr) throw std::runtime_error("redis: no memory");
  if (context_->err != 0) {
    throw std::runtime_error(std::string("redis: ") + doing + ": " + context_->errstr);
  }
  ::redisSetTimeout(context_.get(), to_timeval(limit));
}

Reply RedisConnection::command(const std::vector<std::string>& words) {
  send(words);
  return read();
}

void RedisConnection::send(const std::vector<std::string>& words) {
  // hiredis would write to a closed socket, and SIGPIPE would end the test.
  pollfd entry{fd(), POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
    throw std::runtime_error("redis: write: the server has closed the connection");
  }
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  ::redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                           sizes.data());
  for (int done = 0; done == 0;) {
    if (::redisBufferWrite(context_.get(), &done) != REDIS_OK) {
      throw std::runtime_error(std::string("redis: write: ") + context_->errstr);
    }
  }
}

Reply RedisConnection::read() {
  void* raw = nullptr;
  if (::redisGetReply(context_.get(), &raw) != REDIS_OK || raw == nullptr) {
    throw std::runtime_error(std::string("redis: read: ") + context_->errstr);
  }
  const std::unique_ptr<void, void (*)(void*)> owned(raw, ::freeReplyObject);
  return to_reply(*static_cast<const redisReply*>(raw));
}

int RedisConnection::fd() const { return context_->fd; }

}  // namespace holdfast::support
