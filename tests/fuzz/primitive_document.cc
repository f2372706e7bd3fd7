// The value beside a lock may be the primitive's own document, another one's, or anything that a
// program has put there.

#include <vector>

#include "src/primitives/barrier_record.h"
#include "src/primitives/document.h"
#include "src/primitives/value_records.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::primitive_document {
namespace {

constexpr std::string_view kKinds[] = {"barrier", "election", "latch", "once"};

// In turn a number, a token and a text, beginning with `kind`.
void read_fields(std::string_view body, int kind) {
  primitives::Fields fields(body);
  for (; fields.good() && !fields.at_end(); ++kind) {
    std::string written;
    if (kind % 3 == 0) {
      const auto number = fields.number();
      if (number) primitives::put(written, *number);
      demand(!number || primitives::Fields(written).number() == number, "a number is read back");
    } else if (kind % 3 == 1) {
      const auto token = fields.token();
      if (token) primitives::put(written, *token);
      demand(!token || primitives::Fields(written).token() == token, "a token is read back");
    } else {
      const auto text = fields.text();
      if (text) primitives::put_text(written, *text);
      demand(!text || primitives::Fields(written).text() == text, "a text is read back");
      demand(!text || text->size() < body.size(), "a text lies in its body");
    }
    demand(fields.good() != written.empty(), "what is not read is not good");
  }
}

void use_barrier(std::string_view text) {
  using namespace primitives::barring;
  auto record = read_record(text, "x");
  if (!record || record->parties == 0) return;
  const auto again = read_record(write_record(*record), "x");
  demand(again && *again == *record, "a record is read back equal");
  demand(record->members.size() <= record->awaited(), "nobody is there for whom there is no place");
  demand(write_record(*record).size() <= 4096, "it fits beside a lock");
  std::vector<Token> seats;
  for (const Member& member : record->members) seats.push_back(member.token);
  if (!seats.empty()) static_cast<void>(arrive(*record, seats.back(), "x"));
  if (seats.size() > 1) static_cast<void>(leave(*record, seats.front(), "x"));
  static_cast<void>(enter(*record, {UINT32_MAX, 7}, record->parties, record->policy, "x"));
  drop_gone(*record, seats);
  reopen(*record);
  const auto changed = read_record(write_record(*record), "x");
  demand(changed && *changed == *record, "and still is after whatever was done to it");
}

void use_others(const std::string& text) {
  if (const auto count = primitives::latching::read_count(text, "x", 3)) {
    demand(count->left <= count->initial, "nothing is left that was not there");
    const auto again =
        primitives::latching::read_count(primitives::latching::write_count(*count), "x", 0);
    demand(again && again->left == count->left, "a count is read back");
  }
  if (const auto record = primitives::electing::read_record(text, "x");
      record && record->last < UINT64_MAX) {
    const LeaderInfo change{{0, 1}, "host", "value"};
    const auto again =
        primitives::electing::read_record(primitives::electing::with(*record, change), "x");
    demand(again && again->last == record->last + 1, "changes are counted");
    demand(again->changes.back() == change, "the last one is behind");
  }
  const Token holder{0, 7};
  const auto outcome = primitives::once_only::read_outcome(text, "x", holder);
  if (!outcome || !*outcome) return;
  const std::string written = primitives::once_only::write_outcome(holder, **outcome);
  demand(primitives::once_only::read_outcome(written, "x", holder).value() == *outcome,
         "an outcome is read back");
}

}  // namespace

void run(std::string_view input) {
  int opened = 0;
  for (const std::string_view kind : kKinds) {
    const auto body = primitives::open_document(input, kind, "x");
    if (!body) {
      const Errc code = body.error().code();
      demand(code == Errc::kInvalidArgument || code == Errc::kVersionMismatch, "it is refused");
      continue;
    }
    demand(body->has_value() == !input.empty(), "nothing is there only where nothing is");
    if (!*body) continue;
    ++opened;
    demand(primitives::make_document(kind, **body) == input, "it is what would be written");
  }
  demand(opened <= 1, "a document is of one kind");
  use_barrier(input);
  for (int kind = 0; kind < 3; ++kind) read_fields(input, kind);
  use_barrier(primitives::make_document("barrier", input));
  use_others(std::string(input));
  for (const std::string_view kind : kKinds) use_others(primitives::make_document(kind, input));
}

}  // namespace holdfast::fuzz::primitive_document

HOLDFAST_FUZZ_TARGET(primitive_document)
