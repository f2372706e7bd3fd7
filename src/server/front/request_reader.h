// Reads the requests of one connection: arrays of strings in the Redis protocol.
//
//   *2\r\n $4\r\nPING\r\n $2\r\nhi\r\n      (without the spaces)
//
// There are no inline commands: a request that does not begin with `*` is an error. So a browser
// that was lured into sending its HTTP here is cut off at its first byte (safety rule 63).
//
// Guarantee: whatever bytes arrive, an unfinished request takes at most `max_request` bytes. A
// length is checked before anything is kept for it, and a byte is looked at once, also if they
// arrive one by one.
// Thread-safety: one thread at a time.
// Errors: kInvalidArgument with the reason. Close the connection then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::server {

struct RequestLimits {
  std::size_t max_words = 1'024;      // A renewal of 128 locks has 644.
  std::size_t max_word = 64 * 1'024;  // Bytes.
  std::size_t max_request = 1'024 * 1'024;
  const char* advice = "";  // For whoever goes beyond them.
};

// The words of a request. They point into the reader.
using Words = std::vector<std::string_view>;

class RequestReader {
 public:
  explicit RequestReader(RequestLimits limits) : limits_(limits) {}

  // Applies from the next byte on.
  void set_limits(RequestLimits limits) { limits_ = limits; }

  // Invalidates the words of next().
  void feed(std::string_view bytes);
  // True: `words` has a whole request. False: more bytes must come first.
  Result<bool> next(Words& words);

  // Gives the memory of large requests back, if all are taken. Invalidates the words of next().
  void give_back();

  // Bytes of the request that has not arrived whole.
  std::size_t unfinished() const { return buffer_.size() - begin_; }

 private:
  // kMore: the bytes of it have not all arrived. kMalformed: wrong_ says why. A Result here would
  // cost more than the reading, because a request has a dozen words.
  enum class Part : std::uint8_t { kWhole, kMore, kMalformed };
  // The number after the sign.
  Part read_length(char sign, std::size_t most, std::size_t& length);
  Part read_word();
  void read_short_words();
  Part read_words();
  Part malformed(std::string what) {
    wrong_ = std::move(what);
    return Part::kMalformed;
  }
  // "a request has at most 16 words, and this one has 200"
  Part too_large(const char* what, const char* unit, std::size_t most, std::size_t number) {
    return malformed(std::string(what) + " has at most " + std::to_string(most) + ' ' + unit +
                     ", and this one has " + std::to_string(number) + limits_.advice);
  }

  RequestLimits limits_;
  std::string buffer_;
  std::size_t begin_ = 0;    // The request's first byte.
  std::size_t at_ = 0;       // All bytes before it were looked at.
  std::size_t awaited_ = 0;  // Words of the request; 0: its first line has not arrived.
  bool in_word_ = false;     // The length of the next word is known:
  std::size_t length_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // From begin_, and length.
  std::string wrong_;
};

}  // namespace holdfast::server
