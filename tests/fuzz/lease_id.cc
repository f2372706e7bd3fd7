// Lease ids and tokens, as people hand them from one program to the next.

#include "src/primitives/lease_id.h"

#include "holdfast/token.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::lease_id {

void run(std::string_view input) {
  if (const auto token = Token::parse(input)) {
    demand(Token::parse(token->to_string()) == token, "a token is read back equal");
    demand(token->to_string().size() == 31, "a token has a fixed width");
  }
  const auto id = primitives::parse_lease_id(input);
  if (!id) {
    demand(id.error().code() == Errc::kInvalidArgument, "a lease id is refused as invalid");
    return;
  }
  demand(!id->name.empty() && static_cast<bool>(id->id), "a lease id names a lock and a lease");
  demand(id->ttl.count() > 0, "a lease has a length");
  demand(id->mode.count() >= 1 && id->mode.count() <= id->mode.capacity(), "n is one to N");
  const auto again = primitives::parse_lease_id(primitives::format_lease_id(*id));
  demand(again.has_value(), "a lease id is read back");
  demand(again->name == id->name && again->mode == id->mode && again->ttl == id->ttl &&
             again->id == id->id,
         "a lease id is read back equal");
}

}  // namespace holdfast::fuzz::lease_id

HOLDFAST_FUZZ_TARGET(lease_id)
