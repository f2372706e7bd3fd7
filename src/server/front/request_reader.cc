#include "src/server/front/request_reader.h"

#include "src/base/empty_buffer.h"

namespace holdfast::server {
namespace {

// A larger buffer is given back when it is empty.
constexpr std::size_t kKeptBuffer = 16 * 1'024;
// Digits of a length. More than any limit has.
constexpr std::size_t kMostDigits = 8;

}  // namespace

void RequestReader::feed(std::string_view bytes) {
  give_back();
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    at_ -= begin_;
    begin_ = 0;
  }
  buffer_.append(bytes);
}

void RequestReader::give_back() {
  if (begin_ < buffer_.size()) return;
  base::empty_buffer(buffer_, kKeptBuffer);
  begin_ = at_ = 0;
}

RequestReader::Part RequestReader::read_length(char sign, std::size_t most, std::size_t& length) {
  const char* const begin = buffer_.data() + at_;
  const char* const end = buffer_.data() + buffer_.size();
  if (begin == end) return Part::kMore;
  if (*begin != sign) {
    return malformed(sign == '*' ? "expected '*' (this port speaks the Redis protocol)"
                                 : "expected '$' (this port speaks the Redis protocol)");
  }
  std::size_t number = 0;
  const char* digit = begin + 1;
  for (; digit != end && *digit != '\r'; ++digit) {
    if (*digit < '0' || *digit > '9' || static_cast<std::size_t>(digit - begin) > kMostDigits) {
      return malformed("invalid length");
    }
    number = number * 10 + static_cast<std::size_t>(*digit - '0');
  }
  if (number > most) {
    return sign == '*' ? too_large("a request", "words", most, number)
                       : too_large("a word", "bytes", most, number);
  }
  if (end - digit < 2) return Part::kMore;
  if (digit == begin + 1 || digit[1] != '\n') return malformed("invalid length");
  at_ += static_cast<std::size_t>(digit - begin) + 2;
  length = number;
  return Part::kWhole;
}

RequestReader::Part RequestReader::read_word() {
  if (!in_word_) {
    const Part part = read_length('$', limits_.max_word, length_);
    if (part != Part::kWhole) return part;
    in_word_ = true;
    const std::size_t size = at_ - begin_ + length_;
    if (size > limits_.max_request) {
      return too_large("a request", "bytes", limits_.max_request, size);
    }
  }
  if (buffer_.size() - at_ < length_ + 2) return Part::kMore;
  if (buffer_[at_ + length_] != '\r' || buffer_[at_ + length_ + 1] != '\n') {
    return malformed("a string is longer than its length");
  }
  places_.emplace_back(at_ - begin_, length_);
  at_ += length_ + 2;
  in_word_ = false;
  return Part::kWhole;
}

// Words of one or two digits' length that have arrived whole: nearly all of them are.
void RequestReader::read_short_words() {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t all = buffer_.size();
  const char* const bytes = buffer_.data();
  while (places_.size() < awaited_ && all - at_ >= 5 && bytes[at_] == '$') {
    const char* digit = bytes + at_ + 1;
    if (!is_digit(*digit)) return;
    auto length = static_cast<std::size_t>(*digit++ - '0');
    if (is_digit(*digit)) length = length * 10 + static_cast<std::size_t>(*digit++ - '0');
    const std::size_t from = static_cast<std::size_t>(digit - bytes) + 2;
    if (all < from + length + 2 || digit[0] != '\r' || digit[1] != '\n') return;
    if (bytes[from + length] != '\r' || bytes[from + length + 1] != '\n') return;
    // The slow way knows what to say.
    if (length > limits_.max_word || from - begin_ + length > limits_.max_request) return;
    places_.emplace_back(from - begin_, length);
    at_ = from + length + 2;
  }
}

RequestReader::Part RequestReader::read_words() {
  if (awaited_ == 0) {
    const Part part = read_length('*', limits_.max_words, awaited_);
    if (part != Part::kWhole) return part;
    if (awaited_ == 0) return malformed("an empty request");
  }
  while (places_.size() < awaited_) {
    if (!in_word_) read_short_words();
    if (places_.size() == awaited_) break;
    const Part part = read_word();
    if (part != Part::kWhole) return part;
  }
  return Part::kWhole;
}

Result<bool> RequestReader::next(Words& words) {
  const Part part = read_words();
  if (part == Part::kMore) return false;
  if (part == Part::kMalformed) {
    return Error(Errc::kInvalidArgument, std::string("Protocol error: ") + wrong_);
  }
  words.clear();
  const char* const request = buffer_.data() + begin_;
  for (const auto& [from, length] : places_) words.emplace_back(request + from, length);
  places_.clear();
  awaited_ = 0;
  begin_ = at_;
  return true;
}

}  // namespace holdfast::server
