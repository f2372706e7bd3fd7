#include "src/server/front/request_reader.h"

#include "src/base/empty_buffer.h"

namespace holdfast::server {
namespace {

// A larger buffer is given back when it is empty.
constexpr std::size_t kKeptBuffer = 16 * 1'024;
// Digits of a length. More than any limit has.
constexpr std::size_t kMostDigits = 8;

Error malformed(const std::string& what) {
  return {Errc::kInvalidArgument, "Protocol error: " + what};
}

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

Result<bool> RequestReader::read_length(char sign, std::size_t most, std::size_t& length) {
  if (at_ == buffer_.size()) return false;
  if (buffer_[at_] != sign) {
    return malformed(std::string("expected '") + sign + "' (this port speaks the Redis protocol)");
  }
  std::size_t number = 0;
  std::size_t digit = at_ + 1;
  for (; digit < buffer_.size() && buffer_[digit] != '\r'; ++digit) {
    if (buffer_[digit] < '0' || buffer_[digit] > '9' || digit - at_ > kMostDigits) {
      return malformed("invalid length");
    }
    number = number * 10 + static_cast<std::size_t>(buffer_[digit] - '0');
  }
  if (number > most) return malformed("too large");
  if (digit == buffer_.size() || digit + 1 == buffer_.size()) return false;
  if (digit == at_ + 1 || buffer_[digit + 1] != '\n') return malformed("invalid length");
  at_ = digit + 2;
  length = number;
  return true;
}

Result<bool> RequestReader::read_word() {
  if (!in_word_) {
    auto whole = read_length('$', limits_.max_word, length_);
    if (!whole || !*whole) return whole;
    in_word_ = true;
    if (at_ - begin_ + length_ > limits_.max_request) return malformed("too large a request");
  }
  if (buffer_.size() - at_ < length_ + 2) return false;
  if (buffer_[at_ + length_] != '\r' || buffer_[at_ + length_ + 1] != '\n') {
    return malformed("a string is longer than its length");
  }
  places_.emplace_back(at_ - begin_, length_);
  at_ += length_ + 2;
  in_word_ = false;
  return true;
}

Result<bool> RequestReader::next(Words& words) {
  if (awaited_ == 0) {
    auto whole = read_length('*', limits_.max_words, awaited_);
    if (!whole || !*whole) return whole;
    if (awaited_ == 0) return malformed("an empty request");
  }
  while (places_.size() < awaited_) {
    auto whole = read_word();
    if (!whole || !*whole) return whole;
  }
  words.clear();
  const std::string_view request = std::string_view(buffer_).substr(begin_);
  for (const auto& [from, length] : places_) words.push_back(request.substr(from, length));
  places_.clear();
  awaited_ = 0;
  begin_ = at_;
  return true;
}

}  // namespace holdfast::server
