// The texts of clock policies.
#include <array>
#include <optional>

#include "holdfast/detail/number.h"
#include "holdfast/ids/snowflake.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;

std::string ms(milliseconds time) { return std::to_string(time.count()) + "ms"; }

std::optional<milliseconds> read_ms(std::string_view text) {
  if (text.ends_with("ms")) text.remove_suffix(2);
  const auto number = detail::parse_number<std::uint32_t>(text);
  if (!number) return std::nullopt;
  return milliseconds(*number);
}

// The part before the next `mark`, which is taken away.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view part = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + 1);
  return part;
}

std::optional<ClockPolicy> read_back(std::string_view text) {
  const std::string_view name = take_until(text, ':');
  if (name == "logical" && text.empty()) return ClockPolicy::logical();
  if (name == "refuse" && text.empty()) return ClockPolicy::refuse();
  if (name == "wait") {
    const auto at_most = read_ms(text);
    if (at_most) return ClockPolicy::wait(*at_most);
  }
  if (name == "step") {
    const auto step = detail::parse_number<std::uint32_t>(text);
    if (step && *step > 0) return ClockPolicy::step_sequence(*step);
  }
  if (name == "extension") {
    const auto bits = detail::parse_number<int>(take_until(text, ':'));
    const auto small = read_ms(text);
    if (bits && *bits >= 1 && *bits <= 16 && small) {
      return ClockPolicy::extension_bits(*bits, *small);
    }
  }
  return std::nullopt;
}

int bits_of(std::uint32_t rounds) {
  int bits = 0;
  while (rounds > 1) rounds >>= 1, ++bits;
  return bits;
}

}  // namespace

Result<ClockPolicy> ClockPolicy::parse(std::string_view text) {
  const std::string whole(text);
  const auto back = read_back(take_until(text, ' '));
  std::optional<ClockPolicy> made = back;
  while (made && !text.empty()) {
    std::string_view word = take_until(text, ' ');
    const std::string_view name = take_until(word, ':');
    const auto time = read_ms(word);
    if (name == "borrow" && time) {
      made = made->borrow(*time);
    } else if (name == "forward" && time && *time > milliseconds::zero()) {
      made->forward_at_most = *time;
    } else {
      made.reset();
    }
  }
  if (!made || whole.ends_with(' ')) {
    return Error(Errc::kInvalidArgument,
                 "'" + whole +
                     "' is no clock policy: write logical, refuse, wait:5ms, step:1024 or "
                     "extension:2:5ms, and after a space borrow:10ms or forward:60000ms");
  }
  return *made;
}

std::string ClockPolicy::to_string() const {
  std::string text;
  switch (back) {
    case Back::kLogical: text = "logical"; break;
    case Back::kRefuse: text = "refuse"; break;
    case Back::kWait: text = "wait:" + ms(back_at_most); break;
    case Back::kRounds:
      text = round_size != 0
                 ? "step:" + std::to_string(round_size)
                 : "extension:" + std::to_string(bits_of(rounds)) + ":" + ms(back_at_most);
  }
  if (borrow_at_most > milliseconds::zero()) text += " borrow:" + ms(borrow_at_most);
  if (forward_at_most != ClockPolicy().forward_at_most) text += " forward:" + ms(forward_at_most);
  return text;
}

}  // namespace holdfast::ids
