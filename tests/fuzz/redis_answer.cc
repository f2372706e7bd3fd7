// The answers of the scripts, and what is pushed: one text each, which the server may have garbled.
#include <algorithm>
#include <vector>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_answer {
namespace {

using machine::Outcome;
using port::AcquisitionStatus;

void check_terms(const port::AcquisitionState& state) {
  demand(state.lease.count() >= 0, "a lease has no negative length");
  demand(!state.next_expiry || state.next_expiry->count() >= 0, "the next expiry lies ahead");
  if (state.status == AcquisitionStatus::kHeld) {
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

// Answers for two locks: one text in place of the answers, and then a line for each.
void check_batch(std::string_view input) {
  std::vector<port::AcquireRequest> asked(2);
  asked[0].name = "x";
  asked[0].id = {1, 2};
  asked[1].name = "y";
  asked[1].id = {3, 4};
  const std::vector<port::AcquisitionRequest> given{{"x", {1, 2}, {}, 1}, {"y", {3, 4}, {}, 2}};
  stores::redis::Reply reply;
  reply.kind = stores::redis::Reply::Kind::kText;
  reply.text = input;
  const auto refused = stores::redis::acquire_all_answer(reply, asked);
  demand(explained(refused), "an error has a reason");
  demand(!refused || !*refused, "one text grants nothing");
  reply.kind = stores::redis::Reply::Kind::kArray;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    reply.items.emplace_back();
    reply.items.back().kind = stores::redis::Reply::Kind::kText;
    reply.items.back().text = line;
  }
  const auto granted = stores::redis::acquire_all_answer(reply, asked);
  demand(explained(granted), "an error has a reason");
  if (granted) {
    demand(granted->has_value() && (*granted)->size() == 2,
           "all are granted, or there is an error");
    for (const port::AcquisitionState& state : **granted) check_terms(state);
  }
  const auto ended = stores::redis::end_all_answer(reply, given);
  demand(explained(ended), "an error has a reason");
  if (!ended) return;
  demand(ended->size() == 2, "an end for each");
  for (const auto& one : *ended) demand(explained(one), "an error has a reason");
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
  check_batch(input);
}

}  // namespace holdfast::fuzz::redis_answer

HOLDFAST_FUZZ_TARGET(redis_answer)
