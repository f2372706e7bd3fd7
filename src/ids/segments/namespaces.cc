#include <utility>

#include "src/ids/record_text.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/names.h"

namespace holdfast::ids {
namespace {

using base::BootInstant;
using port::Record;
using port::Records;

constexpr int kMostStops = 20;

Error unfit(const std::string& what) { return {Errc::kInvalidArgument, what}; }

Result<std::optional<Record>> read_head(Records& records, const std::string& name, BootInstant by) {
  if (auto good = check_namespace(name); !good) return good.error();
  return records.read(SegmentsHead::key(name), by);
}

Error missing(const std::string& name) {
  return unfit("there is no namespace '" + name +
               "' of ids: make it once, by "
               "Segments::create() or 'holdfast id init'. If it was there before, the store lost "
               "data: take another name, or begin above all numbers that were ever given");
}

Error taken(const std::string& name) {
  return {Errc::kStoreInUse, "the namespace '" + name + "' of ids is there already"};
}

// Writes a counter that begins at `next`. An answer that is lost is no harm: nobody knows of the
// incarnation yet, so it is read back.
Result<void> write_counter(Records& records, const SegmentsHead& head, std::uint64_t next,
                           BootInstant by) {
  const CounterState fresh{.incarnation = head.incarnation, .next = next, .last = head.last};
  const std::string text = fresh.text();
  const auto made = records.create(head.counter_key(), text, by);
  if (made && *made) return {};
  if (!made && made.error().code() != Errc::kOutcomeUnknown) return made.error();
  const auto found = records.read(head.counter_key(), by);
  if (!found) return found.error();
  if (*found && (*found)->text == text) return {};
  return Error(Errc::kUnavailable, "the store did not keep the new counter: try again");
}

// Whether a change of the head whose answer was lost took effect. An error: nobody knows.
Result<bool> took_effect(Records& records, const SegmentsHead& head, const Error& lost,
                         BootInstant by) {
  const auto found = records.read(SegmentsHead::key(head.name), by);
  if (found && *found && (*found)->text == head.text()) return true;
  return lost;
}

// Stops the counter that a floor takes the place of, so that no range of it is taken from now on.
Result<void> stop_for_floor(Records& records, const SegmentsHead& head, std::uint64_t floor,
                            const std::string& reason, BootInstant by) {
  for (int tries = 0; tries < kMostStops; ++tries) {
    const auto record = records.read(head.counter_key(), by);
    if (!record) return record.error();
    if (!*record) return {};  // Missing: nobody can take a range from it.
    auto state = CounterState::parse((*record)->text, "it");
    if (!state) {  // Nor from a damaged one. The operator's floor stands for what it said.
      return state.error().code() == Errc::kCorruptState ? Result<void>() : state.error();
    }
    if (state->next > floor + 1) {
      return unfit("the counter of the ids '" + head.name + "' is at " +
                   std::to_string(state->next) + ": the floor must be at least " +
                   std::to_string(state->next - 1));
    }
    if (state->stopped) return {};
    state->stopped = "an operator set a floor: " + reason;
    const auto replaced =
        records.replace(head.counter_key(), (*record)->version, state->text(), by);
    if (!replaced && replaced.error().code() != Errc::kOutcomeUnknown) return replaced.error();
    if (replaced && *replaced) return {};
  }
  return Error(Errc::kUnavailable, "other processes changed the counter of the ids '" + head.name +
                                       "' at every try: try again");
}

}  // namespace

std::string SegmentsHead::text() const {
  return RecordText(std::string(kSegmentsKind))
      .add("incarnation", incarnation)
      .add_number("first", first)
      .add_number("last", last)
      .text();
}

Result<SegmentsHead> SegmentsHead::parse(const std::string& name, const std::string& text) {
  const std::string where = "the namespace '" + name + "' of ids";
  const auto record = RecordText::parse(text, kSegmentsKind, where);
  if (!record) return record.error();
  SegmentsHead head{.name = name, .incarnation = record->value("incarnation").value_or("")};
  const auto first = record->number<std::uint64_t>("first");
  const auto last = record->number<std::uint64_t>("last");
  if (head.incarnation.empty() || !first || !last || *first > *last || *last > kGreatestNumber) {
    return Error(Errc::kCorruptState, where + ": its numbers make no sense");
  }
  head.first = *first;
  head.last = *last;
  return head;
}

Result<SegmentsHead> read_segments_head(Records& records, const std::string& name, BootInstant by) {
  const auto record = read_head(records, name, by);
  if (!record) return record.error();
  if (!*record) return missing(name);
  return SegmentsHead::parse(name, (*record)->text);
}

Result<void> create_segments(Records& records, const std::string& name, const SegmentsSpec& spec,
                             BootInstant by) {
  if (spec.first > spec.last || spec.last > kGreatestNumber) {
    return unfit("the numbers of a namespace go from `first` to `last`, and to 2^63 - 1 at most");
  }
  const auto there = read_head(records, name, by);
  if (!there) return there.error();
  if (*there) {
    const auto head = SegmentsHead::parse(name, (*there)->text);
    return head ? taken(name) : head.error();
  }
  const SegmentsHead head{
      .name = name, .incarnation = fresh_incarnation(), .first = spec.first, .last = spec.last};
  if (auto written = write_counter(records, head, spec.first, by); !written) return written;
  const auto made = records.create(SegmentsHead::key(name), head.text(), by);
  if (made) return *made ? Result<void>() : taken(name);
  if (made.error().code() != Errc::kOutcomeUnknown) return made.error();
  const auto took = took_effect(records, head, made.error(), by);
  return took ? Result<void>() : took.error();
}

Result<void> set_segments_floor(Records& records, const std::string& name, std::uint64_t floor,
                                const std::string& reason, BootInstant by) {
  const auto record = read_head(records, name, by);
  if (!record) return record.error();
  if (!*record) return missing(name);
  auto head = SegmentsHead::parse(name, (*record)->text);
  if (!head) return head.error();
  if (reason.empty()) return unfit("a floor needs a reason, for those who find it later");
  if (floor < head->first || floor >= head->last) {
    return unfit("the floor must be one of the numbers of '" + name + "' before the last one: " +
                 std::to_string(head->first) + " to " + std::to_string(head->last));
  }
  if (auto stopped = stop_for_floor(records, *head, floor, reason, by); !stopped) return stopped;
  head->incarnation = fresh_incarnation();
  if (auto written = write_counter(records, *head, floor + 1, by); !written) return written;
  const auto replaced =
      records.replace(SegmentsHead::key(name), (*record)->version, head->text(), by);
  if (replaced && *replaced) return {};
  if (replaced) {
    return Error(Errc::kStoreInUse, "somebody else set a floor of '" + name +
                                        "' at the same time: look at it with status()");
  }
  if (replaced.error().code() != Errc::kOutcomeUnknown) return replaced.error();
  const auto took = took_effect(records, *head, replaced.error(), by);
  return took ? Result<void>() : took.error();
}

Result<SegmentsStatus> segments_status(Records& records, const std::string& name, BootInstant by) {
  const auto head = read_segments_head(records, name, by);
  if (!head) return head.error();
  const auto record = records.read(head->counter_key(), by);
  if (!record) return record.error();
  const std::string where = "the counter of the ids '" + name + "'";
  if (!*record) return Error(Errc::kCorruptState, where + " is missing: the store lost data");
  const auto counter = CounterState::parse((*record)->text, where);
  if (!counter) return counter.error();
  return SegmentsStatus{.incarnation = head->incarnation,
                        .first = head->first,
                        .last = head->last,
                        .next = counter->next,
                        .stopped = counter->stopped,
                        .forgets = records.forgets()};
}

}  // namespace holdfast::ids
