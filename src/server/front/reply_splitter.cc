#include "src/server/front/reply_splitter.h"

#include <cstdint>
#include <utility>

#include "holdfast/detail/number.h"

namespace holdfast::server {
namespace {

Error no_reply(const std::string& why) {
  return {Errc::kInvalidArgument, "the server's answer is not of the Redis protocol: " + why};
}

}  // namespace

void ReplySplitter::feed(std::string_view bytes) {
  buffer_.erase(0, begin_);
  at_ -= std::exchange(begin_, 0);
  buffer_ += bytes;
}

Result<std::string_view> ReplySplitter::next() {
  while (left_ > 0) {
    const auto whole = skip_value();
    if (!whole) return whole.error();
    if (*whole) continue;
    if (unfinished() > most_) return no_reply("it is too long");
    return std::string_view();
  }
  const std::string_view reply = std::string_view(buffer_).substr(begin_, at_ - begin_);
  if (reply.size() > most_) return no_reply("it is too long");
  begin_ = at_;
  left_ = 1;
  return reply;
}

// One value, or the head of one that has others inside. False: it is not whole.
Result<bool> ReplySplitter::skip_value() {
  const std::size_t end = buffer_.find("\r\n", at_);
  if (end == buffer_.npos) return false;
  const std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
  const std::size_t after = end + 2;
  const char sign = line.empty() ? ' ' : line.front();
  if (std::string_view("+-:_#,(").find(sign) != std::string_view::npos) {
    at_ = after;
    --left_;
    return true;
  }
  const auto size = detail::parse_number<std::int64_t>(line.substr(line.empty() ? 0 : 1));
  if (!size || *size < -1 || *size > static_cast<std::int64_t>(most_)) {
    return no_reply("a value has no valid length");
  }
  const std::size_t length = *size < 0 ? 0 : static_cast<std::size_t>(*size);
  if (sign == '$' || sign == '=' || sign == '!') {
    const std::size_t past = *size < 0 ? after : after + length + 2;
    if (past > buffer_.size()) return false;
    at_ = past;
    --left_;
    return true;
  }
  if (std::string_view("*~>%").find(sign) == std::string_view::npos) {
    return no_reply("a value begins with no known sign");
  }
  const std::size_t items = sign == '%' ? 2 * length : length;
  if (items > most_ - left_) return no_reply("it has too many values");
  left_ += items - 1;
  at_ = after;
  return true;
}

}  // namespace holdfast::server
