// hiredis' reader keeps the input and finds the protocol's items; here they become Reply objects.
//
// An array grows with the items that arrive, so a claimed length costs nothing. The reader's stack
// points to unfinished arrays. Each of them is the last item of its parent, and the parent grows
// only after it is finished, so these pointers stay valid.

#include "src/stores/redis/protocol/reply.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include <hiredis/read.h>

namespace holdfast::stores::redis {
namespace {

// A growing array exists twice for a moment, and the new copy has spare room.
constexpr std::size_t kPerElement = 3 * sizeof(Reply);

struct Building {
  // Reserves memory beside the input; false if it would pass the limit.
  bool take(std::size_t memory) {
    const std::size_t unread = reader->len - reader->pos;
    used += memory;
    too_large = too_large || used > limit || unread > limit - used;
    return !too_large;
  }

  const redisReader* reader = nullptr;
  std::size_t limit = 0;
  std::size_t used = 0;  // By the unfinished reply.
  bool too_large = false;
};

Reply* add(const redisReadTask* task, Reply::Kind kind, std::size_t text = 0) {
  if (!static_cast<Building*>(task->privdata)->take(kPerElement + text)) return nullptr;
  Reply* reply = nullptr;
  if (task->parent == nullptr) {
    reply = new Reply;
  } else {
    reply = &static_cast<Reply*>(task->parent->obj)->items.emplace_back();
  }
  reply->kind = kind;
  return reply;
}

void* create_string(const redisReadTask* task, char* text, std::size_t size) {
  Reply* reply = add(task,
                     task->type == REDIS_REPLY_ERROR    ? Reply::Kind::kError
                     : task->type == REDIS_REPLY_STATUS ? Reply::Kind::kStatus
                                                        : Reply::Kind::kText,
                     size);
  if (reply != nullptr) reply->text.assign(text, size);
  return reply;
}

void* create_array(const redisReadTask* task, int elements) {
  auto& building = *static_cast<Building*>(task->privdata);
  if (elements < 0 || static_cast<std::size_t>(elements) > building.limit / kPerElement) {
    building.too_large = true;
    return nullptr;
  }
  return add(task, Reply::Kind::kArray);
}

void* create_integer(const redisReadTask* task, long long number) {
  Reply* reply = add(task, Reply::Kind::kInteger);
  if (reply != nullptr) reply->integer = number;
  return reply;
}

void* create_nil(const redisReadTask* task) { return add(task, Reply::Kind::kNil); }

// Called for the root only, which owns its items.
void free_object(void* object) { delete static_cast<Reply*>(object); }

redisReplyObjectFunctions kFunctions = {create_string, create_array, create_integer, create_nil,
                                        free_object};

// hiredis frees its buffer when it is empty and larger than this.
constexpr std::size_t kKeptBuffer = 256 * 1024;

}  // namespace

std::string_view Reply::error_word() const noexcept {
  if (!is_error()) return {};
  return std::string_view(text).substr(0, text.find(' '));
}

struct ReplyReader::Impl {
  explicit Impl(ReplyLimits limits) {
    building.limit = limits.max_memory;
    reader = redisReaderCreateWithFunctions(&kFunctions);
    if (reader == nullptr) throw std::bad_alloc();
    reader->maxbuf = kKeptBuffer;
    reader->privdata = &building;
    building.reader = reader;
  }
  ~Impl() { redisReaderFree(reader); }

  Error broken(const std::string& why) const {
    if (building.too_large) return {Errc::kCorruptState, port::kAnswerTooLarge};
    return {Errc::kCorruptState, ": the server's answer is not the Redis protocol: " + why};
  }

  Building building;
  redisReader* reader;
};

ReplyReader::ReplyReader(ReplyLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
ReplyReader::~ReplyReader() = default;

Result<void> ReplyReader::feed(std::string_view bytes) {
  redisReader* const reader = impl_->reader;
  if (reader->err != 0) return impl_->broken(reader->errstr);
  Building& building = impl_->building;
  const std::size_t left = building.limit - std::min(building.used, building.limit);
  building.too_large = bytes.size() > left || reader->len - reader->pos > left - bytes.size();
  if (building.too_large) return impl_->broken({});
  if (redisReaderFeed(reader, bytes.data(), bytes.size()) != 0) {
    return impl_->broken(reader->errstr);
  }
  return {};
}

Result<std::optional<Reply>> ReplyReader::next() {
  void* object = nullptr;
  if (redisReaderGetReply(impl_->reader, &object) != 0) {
    return impl_->broken(impl_->reader->errstr);
  }
  if (object == nullptr) return std::optional<Reply>();
  impl_->building.used = 0;
  const std::unique_ptr<Reply> reply(static_cast<Reply*>(object));
  return std::optional<Reply>(std::move(*reply));
}

namespace {

void append_header(std::string& out, char kind, std::size_t number) {
  char digits[24];
  digits[0] = kind;
  char* end = std::to_chars(digits + 1, digits + sizeof digits - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append(digits, static_cast<std::size_t>(end - digits));
}

}  // namespace

void append_array_header(std::string& out, std::size_t words) { append_header(out, '*', words); }

void append_word(std::string& out, std::string_view word) {
  append_header(out, '$', word.size());
  out.append(word);
  out.append("\r\n", 2);
}

void append_word(std::string& out, std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  append_header(out, '$', size);
  for (const std::string_view part : parts) out.append(part);
  out.append("\r\n", 2);
}

// hiredis' own formatter costs a sprintf() and a copy for each argument; the test compares with it.
void append_command(std::string& out, std::span<const std::string_view> args) {
  std::size_t size = 16;
  for (const std::string_view arg : args) size += arg.size() + 16;
  if (out.capacity() - out.size() < size) out.reserve(std::max(out.size() + size, out.size() * 2));
  append_array_header(out, args.size());
  for (const std::string_view arg : args) append_word(out, arg);
}

}  // namespace holdfast::stores::redis
