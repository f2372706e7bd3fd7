#include "src/stores/memcached/protocol/replies.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace holdfast::stores::memcached {
namespace {

constexpr std::size_t kLongestLine = 2048;
constexpr std::size_t kLongestStats = 64 * 1024;

std::string_view first_word(std::string_view& rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The flags of a reply: only c is asked for.
std::optional<std::uint64_t> cas_number(std::string_view flags) {
  std::uint64_t number = 0;
  while (true) {
    const std::string_view flag = first_word(flags);
    if (flag.empty()) return number;
    if (flag.front() != 'c') continue;
    const auto read = number_of<std::uint64_t>(flag.substr(1));
    if (!read) return std::nullopt;
    number = *read;
  }
}

}  // namespace

void ReplyReader::consume(std::size_t count) {
  at_ += count;
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  } else if (at_ > 64 * 1024) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
}

// The line that begins at at_, without its end; not consumed.
std::optional<std::string_view> ReplyReader::line() {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  const std::size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) {
    bad_ = bad_ || rest.size() > kLongestLine;
    return std::nullopt;
  }
  if (end > kLongestLine) {
    bad_ = true;
    return std::nullopt;
  }
  return rest.substr(0, end);
}

std::optional<Reply> ReplyReader::next() {
  if (bad_) return std::nullopt;
  const auto whole = line();
  if (!whole) return std::nullopt;
  std::string_view rest = *whole;
  const std::string_view word = first_word(rest);
  if (word == "VA") return read_value(*whole);
  if (word == "STAT" || word == "END") return read_stats();
  Reply reply;
  if (word == "HD") {
    reply.kind = Reply::Kind::kDone;
    const auto number = cas_number(rest);
    if (!number) return fail();
    reply.number = *number;
  } else if (word == "EN" || word == "NF") {
    reply.kind = Reply::Kind::kMissing;
  } else if (word == "NS" || word == "EX") {
    reply.kind = Reply::Kind::kConflict;
  } else if (word == "VERSION") {
    reply.kind = Reply::Kind::kText;
    reply.text = first_word(rest);
  } else if (word == "ERROR" || word == "CLIENT_ERROR" || word == "SERVER_ERROR") {
    reply.kind = Reply::Kind::kRefused;
    reply.text = *whole;
  } else {
    return fail();
  }
  consume(whole->size() + 2);
  return reply;
}

std::optional<Reply> ReplyReader::read_value(std::string_view line) {
  std::string_view rest = line;
  first_word(rest);
  const auto size = number_of<std::size_t>(first_word(rest));
  const auto number = cas_number(rest);
  if (!size || !number || *size > kLargestDocument) return fail();
  const std::string_view data = std::string_view(buffer_).substr(at_ + line.size() + 2);
  if (data.size() < *size + 2) return std::nullopt;
  if (data.substr(*size, 2) != "\r\n") return fail();
  Reply reply{Reply::Kind::kValue, *number, std::string(data.substr(0, *size))};
  consume(line.size() + 2 + *size + 2);
  return reply;
}

// STAT lines up to END.
std::optional<Reply> ReplyReader::read_stats() {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  std::size_t from = 0;
  while (true) {
    const std::size_t end = rest.find("\r\n", from);
    if (end == std::string_view::npos) {
      return rest.size() > kLongestStats ? fail() : std::nullopt;
    }
    const std::string_view each = rest.substr(from, end - from);
    from = end + 2;
    if (each == "END") break;
    if (!each.starts_with("STAT ") || from > kLongestStats) return fail();
  }
  Reply reply{Reply::Kind::kText, 0, std::string(rest.substr(0, from))};
  consume(from);
  return reply;
}

// FNV-1a with 128 bits: the same in every client.
std::string key_of(std::string_view name) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kPrime = (Wide{1} << 88) + 0x13b;
  Wide sum = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (const char c : name) sum = (sum ^ static_cast<unsigned char>(c)) * kPrime;
  std::string key("holdfast/1/00000000000000000000000000000000");
  for (auto digit = key.end(); sum != 0; sum >>= 4) {
    *--digit = "0123456789abcdef"[static_cast<unsigned>(sum & 0xf)];
  }
  return key;
}

std::string get_request(std::string_view key, bool value) {
  std::string text = "mg ";
  text.append(key).append(value ? " c v\r\n" : " c\r\n");
  return text;
}

std::string set_request(std::string_view key, std::string_view document, std::uint64_t number,
                        std::uint64_t seconds) {
  std::string text;
  text.reserve(key.size() + document.size() + 64);
  text.append("ms ").append(key).append(" ").append(std::to_string(document.size()));
  text.append(" c T").append(std::to_string(seconds));
  if (number == 0) {
    text.append(" ME\r\n");
  } else {
    text.append(" C").append(std::to_string(number)).append("\r\n");
  }
  return text.append(document).append("\r\n");
}

std::string delete_request(std::string_view key, std::uint64_t number) {
  std::string text;
  text.reserve(key.size() + 32);
  return text.append("md ").append(key).append(" C").append(std::to_string(number)).append("\r\n");
}

}  // namespace holdfast::stores::memcached
