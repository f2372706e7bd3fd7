// The Redis protocol (RESP2): requests to bytes, bytes to replies.
//
// Guarantee: whatever bytes arrive, the unfinished input and the items made from it take at most
// `max_memory`. A length is checked before memory is reserved for it.
// Thread-safety: one thread at a time.
// Errors: kCorruptState: the bytes are not of the protocol, or exceed the limits. The message
// follows the server's name. After an error, close the connection and drop the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/port/answer_limit.h"

namespace holdfast::stores::redis {

struct Reply {
  enum class Kind : std::uint8_t { kNil, kText, kStatus, kError, kInteger, kArray };

  Kind kind = Kind::kNil;
  std::int64_t integer = 0;  // kInteger.
  std::string text;          // kText, kStatus ("OK"), kError ("READONLY You can't ...").
  std::vector<Reply> items;  // kArray.

  bool is_error() const noexcept { return kind == Kind::kError; }
  // The error's first word ("NOSCRIPT"); empty for other kinds.
  std::string_view error_word() const noexcept;
};

// Replies may be nested at most 7 deep, which is hiredis' own limit.
struct ReplyLimits {
  std::size_t max_memory = port::kMostAnswerMemory;
};

class ReplyReader {
 public:
  explicit ReplyReader(ReplyLimits limits = {});
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  Result<void> feed(std::string_view bytes);
  // nullopt if no whole reply has arrived.
  Result<std::optional<Reply>> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends one request. Arguments may hold any bytes.
void append_command(std::string& out, std::span<const std::string_view> args);
// The same in parts: the number of words, then each word.
void append_array_header(std::string& out, std::size_t words);
void append_word(std::string& out, std::string_view word);
// One word made of these.
void append_word(std::string& out, std::initializer_list<std::string_view> parts);

}  // namespace holdfast::stores::redis
