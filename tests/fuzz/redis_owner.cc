// Owners and breakers of a lock, as JSON in Redis that anybody can write to.

#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_owner {
namespace {

bool has_broken_text(const machine::OwnerInfo& owner) {
  return owner.owner.size() >= 2048 || owner.host.size() >= 2048 || owner.program.size() >= 2048 ||
         owner.reason.size() >= 2048 || owner.trace_id.size() >= 2048;
}

}  // namespace

void run(std::string_view input) {
  const machine::OwnerPtr owner = port::read_owner(input);
  demand(owner != nullptr, "there is always an owner, of whom perhaps nothing is known");
  (void)port::to_public(owner);
  // Text that is too long is cut, perhaps within a character.
  if (!has_broken_text(*owner)) {
    const auto again = port::read_owner(port::write_owner(owner));
    demand(*again == *owner, "an owner is read back equal");
  }

  const port::BreakTrace trace = port::read_trace(input);
  const machine::Token token{0, trace.token.counter};
  const std::string digits = std::to_string(token.counter);
  demand(token.counter == 0 || input.find(digits) != input.npos,
         "a token is one that stands there");
  const port::BreakTrace again = port::read_trace(port::write_trace({token, owner}));
  demand(again.token == trace.token, "a trace is read back equal");

  // Whatever a user writes as a reason comes back; replaced is only what is not UTF-8.
  auto mine = std::make_shared<machine::OwnerInfo>();
  mine->reason = std::string(input.substr(0, 2048));
  mine->trace_id = mine->reason;
  const std::string json = port::write_owner(mine);
  demand(port::read_owner(json)->reason.empty() == mine->reason.empty(), "a reason stays one");
  demand(port::read_owner(json)->trace_id.empty() == mine->reason.empty(), "a trace id stays one");
  demand(json.find('\n') == std::string::npos && json.find('\0') == std::string::npos,
         "a document is one line");
}

}  // namespace holdfast::fuzz::redis_owner

HOLDFAST_FUZZ_TARGET(redis_owner)
