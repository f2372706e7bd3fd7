// Owners and breakers of a lock, as JSON in Redis that anybody can write to.

#include "src/port/outcome.h"
#include "src/stores/redis/protocol/owner_json.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_owner {
namespace {

bool has_broken_text(const machine::OwnerInfo& owner) {
  return owner.owner.size() > 2048 || owner.host.size() > 2048 || owner.program.size() > 2048 ||
         owner.reason.size() > 2048 || owner.trace_id.size() > 2048;
}

}  // namespace

void run(std::string_view input) {
  const machine::OwnerPtr owner = stores::redis::owner_from_json(input);
  demand(owner != nullptr, "there is always an owner, of whom perhaps nothing is known");
  (void)port::to_public(owner);
  // Text that is too long is cut, perhaps within a character.
  if (!has_broken_text(*owner)) {
    const auto again = stores::redis::owner_from_json(stores::redis::to_json(owner));
    demand(*again == *owner, "an owner is read back equal");
  }

  const BreakInfo trace = stores::redis::trace_from_json(input);
  const machine::Token token{0, trace.token.counter};
  const std::string digits = std::to_string(token.counter);
  demand(token.counter == 0 || input.find(digits) != input.npos,
         "a token is one that stands there");
  const BreakInfo again =
      stores::redis::trace_from_json(stores::redis::trace_to_json(token, owner));
  demand(again.token == trace.token, "a trace is read back equal");

  // Whatever a user writes as a reason comes back; replaced is only what is not UTF-8.
  auto mine = std::make_shared<machine::OwnerInfo>();
  mine->reason = std::string(input.substr(0, 2048));
  mine->trace_id = mine->reason;
  const std::string json = stores::redis::to_json(mine);
  demand(stores::redis::owner_from_json(json)->reason.empty() == mine->reason.empty(),
         "a reason stays one");
  demand(stores::redis::owner_from_json(json)->trace_id.empty() == mine->reason.empty(),
         "a trace id stays one");
  demand(json.find('\n') == std::string::npos && json.find('\0') == std::string::npos,
         "a document is one line");
}

}  // namespace holdfast::fuzz::redis_owner

HOLDFAST_FUZZ_TARGET(redis_owner)
