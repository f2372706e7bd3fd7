// Answers of a Consul agent, or of whatever listens there, to each kind of request.

#include "src/stores/consul/handoff.h"
#include "src/stores/consul/transport/errors.h"
#include "src/stores/consul/transport/messages.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::consul_reply {
namespace {

using namespace stores::consul;

// Room for errors, and for a parser at the beginning.
constexpr std::size_t kOwn = 16 * 1024;
constexpr int kStatuses[] = {200, 204, 404, 409, 403, 429, 500, 0, 302};

template <typename T>
void check(const Result<T>& result) {
  if (!result) demand(!result.error().message().empty(), "it is told what is wrong");
}

}  // namespace

void run(std::string_view bytes) {
  Input input(bytes);
  HttpReply reply;
  reply.status = kStatuses[input.byte() % std::size(kStatuses)];
  reply.body = std::string(input.rest());

  const PeakMemory peak;
  const auto transaction = read_transaction(reply, "asking", true);
  check(transaction);
  const auto pairs = read_pairs(reply, "asking");
  check(pairs);
  if (pairs) {
    for (const Pair& pair : *pairs) (void)pair.value();
  }
  check(read_keys(reply, "asking"));
  demand(peak.bytes() <= memory_to_read(reply.body) + kOwn, "an answer has its limit");
  const auto session = read_session_id(reply, "asking");
  check(session);
  demand(!session || !session->empty(), "a session has an id");
  (void)read_session(reply);
  demand(!to_error(reply, "asking", true).message().empty(), "a refusal is told");
  (void)judge(reply, "contender", 1, 2);

  const auto left = parse_handoff(reply.body);
  if (left) {
    const auto again = parse_handoff(to_text(*left));
    demand(again && again->order == left->order && again->token == left->token,
           "what was left is read back equal");
  }
  demand(from_base64(to_base64(reply.body)) == reply.body, "what was encoded is read back equal");
  (void)from_base64(reply.body);
}

}  // namespace holdfast::fuzz::consul_reply

HOLDFAST_FUZZ_TARGET(consul_reply)
