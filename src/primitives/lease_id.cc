#include "src/primitives/lease_id.h"

#include <charconv>
#include <utility>

#include "holdfast/detail/percent.h"
#include "src/base/random.h"

namespace holdfast::primitives {
namespace {

template <typename T>
bool read(std::string_view text, T& out, int base) {
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc{} && end == text.data() + text.size();
}

bool is_plain(char c) { return detail::is_alphanumeric(c) || c == '-' || c == '_' || c == '/'; }

std::string format_mode(const Mode& mode) {
  switch (mode.kind()) {
    case Mode::Kind::kExclusive: return "e";
    case Mode::Kind::kShared: return "s";
    case Mode::Kind::kPermits:
      return "p" + std::to_string(mode.count()) + "of" + std::to_string(mode.capacity());
  }
  return "?";
}

bool parse_mode(std::string_view text, Mode& mode) {
  if (text == "e") return mode = Mode::exclusive(), true;
  if (text == "s") return mode = Mode::shared(), true;
  const auto of = text.find("of");
  if (!text.starts_with('p') || of == std::string_view::npos) return false;
  std::uint32_t count = 0;
  std::uint32_t capacity = 0;
  if (!read(text.substr(1, of - 1), count, 10) || !read(text.substr(of + 2), capacity, 10)) {
    return false;
  }
  mode = Mode::permits(count, capacity);
  return count > 0 && count <= capacity;
}

std::string_view take_part(std::string_view& text) {
  const auto dot = text.find('.');
  const std::string_view part = text.substr(0, dot);
  text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  return part;
}

}  // namespace

std::string format_lease_id(const LeaseId& id) {
  return "hf1." + format_mode(id.mode) + "." + std::to_string(id.ttl.count()) + "." +
         base::to_hex(id.id.high, id.id.low) + "." + detail::percent_encode(id.name, is_plain);
}

Result<LeaseId> parse_lease_id(std::string_view text) {
  LeaseId id;
  const std::string_view version = take_part(text);
  const std::string_view mode = take_part(text);
  std::int64_t ttl = 0;
  const bool timed = read(take_part(text), ttl, 10) && ttl > 0;
  id.ttl = std::chrono::milliseconds(ttl);
  const std::string_view hex = take_part(text);
  auto name = detail::percent_decode(text, is_plain);
  const bool good = version == "hf1" && parse_mode(mode, id.mode) && timed && hex.size() == 32 &&
                    read(hex.substr(0, 16), id.id.high, 16) &&
                    read(hex.substr(16), id.id.low, 16) && id.id && name && !name->empty();
  if (name) id.name = *std::move(name);
  if (good) return id;
  return Error(Errc::kInvalidArgument,
               "not a lease id: it is the text that an acquire printed, beginning with 'hf1.'");
}

}  // namespace holdfast::primitives
