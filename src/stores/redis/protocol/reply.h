// The Redis protocol (RESP2): requests to bytes, bytes to replies.
//
// Guarantee: whatever bytes come, the unfinished input and what was made of it by then take
// `max_memory` at most; a length is checked before memory is taken for it.
// Thread-safety: one thread at a time.
// Errors: kCorruptState, as a text to stand behind the server's name: the bytes are not the
// protocol's, or beyond the limits. The reader is of no more use then, and its connection is
// closed.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Depth: at most 7, as hiredis has it.
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
  // nullopt: no whole reply is there.
  Result<std::optional<Reply>> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends one request. Arguments may hold any bytes.
void append_command(std::string& out, std::span<const std::string_view> args);
// The same in parts: how many words, then each of them.
void append_array_header(std::string& out, std::size_t words);
void append_word(std::string& out, std::string_view word);

}  // namespace holdfast::stores::redis
