// Lock names, and the texts that are made of them: keys of Redis, lease ids, messages.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "src/primitives/lease_id.h"
#include "src/session/names.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::lock_name {
namespace {

// Marks that turn the direction of writing: they are allowed in a name, and shown escaped.
bool has_mark(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMarks = {"\u061C", "\u200E", "\u200F", "\u202A",
                                                       "\u202B", "\u202C", "\u202D", "\u202E",
                                                       "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::any_of(kMarks.begin(), kMarks.end(), [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  });
}

bool is_clean(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return false;
  }
  return true;
}

}  // namespace

void run(std::string_view input) {
  const auto good = session::check_name(input);
  if (!good) {
    demand(good.error().code() == Errc::kInvalidArgument, "a name is refused as invalid");
    demand(is_clean(good.error().message()), "a message has no control characters");
  } else {
    demand(!input.empty() && input.size() <= 256, "a name has 1 to 256 bytes");
    demand(is_clean(input), "a name has no control characters");
    demand((session::printable(input) == input) != has_mark(input),
           "a name can be shown as it is, unless it has a mark of direction");
    demand(("/" + std::string(input) + "/").find("/../") == std::string::npos, "no '..' in a name");
  }
  demand(is_clean(session::printable(input)), "what is printable has no control characters");
  demand(!has_mark(session::printable(input)), "what is printable has no mark of direction");

  // Whatever the name: the text by which a lease is handed on says it again.
  if (input.empty()) return;
  const primitives::LeaseId id{
      std::string(input), Mode::shared(), std::chrono::milliseconds(1), {1, 2}};
  const auto again = primitives::parse_lease_id(primitives::format_lease_id(id));
  demand(again.has_value() && again->name == input, "a lease id keeps the name");
}

}  // namespace holdfast::fuzz::lock_name

HOLDFAST_FUZZ_TARGET(lock_name)
