// Finds where each reply of a server ends: the Redis protocol in version 2 and 3.
//
// Replies are passed on as they are, so nothing is made of them here.
//
// Guarantee: whatever bytes arrive, at most `most` bytes are kept of a reply that is not whole.
// Thread-safety: one thread at a time.
// Errors: kInvalidArgument: these bytes are no replies, or too long. Close the connection then.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::server {

class ReplySplitter {
 public:
  explicit ReplySplitter(std::size_t most) : most_(most) {}

  // Invalidates the replies of next().
  void feed(std::string_view bytes);
  // The bytes of the next whole reply. Empty: more bytes must come first.
  Result<std::string_view> next();

  // Bytes of the reply that has not arrived whole.
  std::size_t unfinished() const { return buffer_.size() - begin_; }

 private:
  Result<bool> skip_value();

  const std::size_t most_;
  std::string buffer_;
  std::size_t begin_ = 0;  // The reply's first byte.
  std::size_t at_ = 0;     // All values before it are whole.
  std::size_t left_ = 1;   // So many values end the reply.
};

}  // namespace holdfast::server
