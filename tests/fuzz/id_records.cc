// Records of ids in a store: the texts as they are, and with a head and a checksum that are right.

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "src/ids/leased/slot.h"
#include "src/ids/record_text.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/served.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::id_records {
namespace {

void check_error(const Error& error) {
  demand(error.code() == Errc::kCorruptState || error.code() == Errc::kVersionMismatch ||
             error.code() == Errc::kInvalidArgument,
         "a record is refused as damaged, as a later version's, or as of another kind");
}

// A record that is read writes the same again.
void read_all(const std::string& text) {
  if (const auto head = ids::WorkersHead::parse("orders", text)) {
    const auto again = ids::WorkersHead::parse("orders", head->text());
    demand(again && again->text() == head->text(), "a head of workers is its own");
    demand(head->spec.workers > 0, "a namespace has workers");
  } else {
    check_error(head.error());
  }
  if (const auto head = ids::SegmentsHead::parse("orders", text)) {
    const auto again = ids::SegmentsHead::parse("orders", head->text());
    demand(again && again->text() == head->text(), "a head of segments is its own");
  } else {
    check_error(head.error());
  }
  if (const auto counter = ids::CounterState::parse(text, "it")) {
    const auto again = ids::CounterState::parse(counter->text(), "it");
    demand(again && again->text() == counter->text(), "a counter is its own");
    demand(counter->next <= counter->last + 1, "a counter stands within its numbers");
  } else {
    check_error(counter.error());
  }
  if (const auto head = ids::ServedHead::parse("orders", text)) {
    demand(head->worker < head->layout.workers(), "the service's number is in the layout");
  } else if (head.error().code() != Errc::kUnsupported) {
    check_error(head.error());
  }
  if (auto served = ids::ServedState::parse(text, "it")) {
    const auto again = ids::ServedState::parse(served->text(), "it");
    demand(again && again->text() == served->text(), "a record of the service is its own");
    const ids::ServedHead head{"orders", "i", *ids::Layout::parse("leaf"), {}, 7};
    static_cast<void>(served->give(head, 3, std::chrono::hours(24 * 365 * 56)));
  } else {
    check_error(served.error());
  }
  if (const auto slot = ids::SlotState::parse(text, "i", 7, "it")) {
    const auto again = ids::SlotState::parse(slot->text(), "i", 7, "it");
    demand(again && again->text() == slot->text(), "a slot is its own");
  } else {
    check_error(slot.error());
  }
}

}  // namespace

// The first line is the kind, each other one "key=value".
void run(std::string_view input) {
  read_all(std::string(input));
  const std::size_t line = input.find('\n');
  ids::RecordText record{std::string(input.substr(0, line))};
  while (line != input.npos && !input.empty()) {
    const std::string_view one = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(one.size() + 1, input.size()));
    const std::size_t equals = one.find('=');
    if (equals != one.npos) {
      record.add(std::string(one.substr(0, equals)), std::string(one.substr(equals + 1)));
    }
  }
  read_all(record.text());
}

}  // namespace holdfast::fuzz::id_records

HOLDFAST_FUZZ_TARGET(id_records)
