// The answers of the scripts, and what is pushed: one text each, which the server may have garbled.

#include "src/stores/redis/answers.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_answer {
namespace {

using machine::Outcome;
using port::TicketStatus;

void check_terms(const port::TicketState& state) {
  demand(state.lease.count() >= 0, "a lease has no negative length");
  demand(!state.next_expiry || state.next_expiry->count() >= 0, "the next expiry lies ahead");
  if (state.status == TicketStatus::kHeld) {
    demand(state.token != port::Token{}, "who holds has a token");
  }
}

template <typename T>
bool explained(const Result<T>& answer) {
  return answer.has_value() || !answer.error().message().empty();
}

void check_push(std::string_view text) {
  const auto push = stores::redis::parse_push(text);
  if (!push) return;
  demand(static_cast<bool>(push->id), "a push is about a ticket");
  demand(stores::redis::parse_id(stores::redis::id_text(push->id)) == push->id,
         "an id is read back equal");
  if (push->kind == port::Push::Kind::kGranted) check_terms(push->state);
}

}  // namespace

void run(std::string_view input) {
  const auto reply = stores::redis::parse_answer(input);
  if (!reply) {
    demand(reply.error().code() == Errc::kCorruptState, "no answer of ours is a corrupt state");
  } else if (reply->outcome == Outcome::kHeld) {
    // Whoever believes to hold must have been told so in full.
    const std::string whole = "held " + std::to_string(reply->token.counter) + " " +
                              std::to_string(reply->seq) + " " +
                              std::to_string(reply->lease.count());
    const auto again = stores::redis::parse_answer(whole);
    demand(again.has_value() && *again == *reply, "a grant is read back equal");
  }
  port::AcquireRequest request;
  request.name = "x";
  request.id = {1, 2};
  if (const auto state = stores::redis::acquire_answer(input, request)) check_terms(*state);
  port::RenewItem item;
  item.name = "x";
  item.token = {0, 7};
  const auto renewed = stores::redis::renew_answer(input, item);
  demand(explained(renewed), "an error has a reason");
  if (renewed) check_terms(*renewed);
  demand(explained(stores::redis::downgrade_answer(input, "x")), "an error has a reason");
  demand(explained(stores::redis::end_answer(input, "x")), "an error has a reason");
  demand(explained(stores::redis::done_answer(input, "x")), "an error has a reason");
  (void)stores::redis::script_error(input, "x");
  check_push(input);
}

}  // namespace holdfast::fuzz::redis_answer

HOLDFAST_FUZZ_TARGET(redis_answer)
