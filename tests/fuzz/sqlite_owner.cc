// Owners as SQLite has them.

#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::sqlite_owner {

void run(std::string_view input) {
  const auto owner = rows::decode_owner(input);
  if (!owner) return;
  demand((*owner == nullptr) == input.empty(), "nobody is the empty text");
  if (*owner == nullptr) return;
  std::string again;
  rows::encode_owner(*owner, (*owner)->wake, again);
  demand(again == input || input.find('\x1f') != input.npos,
         "what is read without a trace id is written back the same");
  const auto back = rows::decode_owner(again);
  const bool fits = (*owner)->reason.size() <= 1792 && (*owner)->trace_id.size() < 256;
  demand(back && *back && (!fits || **back == **owner), "an owner is read back equal");
  (void)port::to_public(*owner);
}

}  // namespace holdfast::fuzz::sqlite_owner

HOLDFAST_FUZZ_TARGET(sqlite_owner)
