#include "src/ids/segments/counter.h"

#include <algorithm>
#include <utility>

#include "src/base/random.h"
#include "src/ids/record_text.h"

namespace holdfast::ids {
namespace {

using base::BootInstant;

// Each lost race means that somebody else took a range, so this many in a row are no accident.
constexpr int kMostTries = 100;

}  // namespace

std::string CounterState::text() const {
  RecordText record{std::string(kCounterKind)};
  record.add("incarnation", incarnation)
      .add_number("next", next)
      .add_number("last", last)
      .add("writer", writer);
  if (stopped) record.add("stopped", *stopped);
  return record.text();
}

Result<CounterState> CounterState::parse(const std::string& text, const std::string& where) {
  const auto record = RecordText::parse(text, kCounterKind, where);
  if (!record) return record.error();
  const auto next = record->number<std::uint64_t>("next");
  const auto last = record->number<std::uint64_t>("last");
  if (!next || !last || *last > kGreatestNumber || *next > *last + 1) {
    return Error(Errc::kCorruptState, where + ": its numbers make no sense");
  }
  return CounterState{.incarnation = record->value("incarnation").value_or(""),
                      .next = *next,
                      .last = *last,
                      .writer = record->value("writer").value_or(""),
                      .stopped = record->value("stopped")};
}

Counter::Counter(port::Records& records, SegmentsHead head, Pause pause)
    : records_(records), head_(std::move(head)), pause_(std::move(pause)), floor_(head_.first) {}

Error Counter::corrupt(const std::string& what) {
  return {Errc::kCorruptState, "the counter of the ids '" + head_.name + "' " + what +
                                   ". No process gets numbers until an operator sets a floor above "
                                   "all that were ever given (Segments::set_floor)"};
}

Result<void> Counter::look(BootInstant by) {
  const auto pending = read(by);
  if (!pending) return pending.error();
  return {};
}

Result<Range> Counter::take(std::uint64_t step, BootInstant by) {
  if (loss_) {
    stop(by);
    return *loss_;
  }
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (!seen_) {
      const auto recovered = read(by);
      if (!recovered) return recovered.error();
      if (*recovered) return **recovered;
    }
    CounterState raised = seen_->state;
    if (raised.next > raised.last) {
      return Error(Errc::kUnsupported, "the last number of the ids '" + head_.name +
                                           "' is given: go on in a namespace of another name");
    }
    const Range range{raised.next, std::min(step, raised.last - raised.next + 1)};
    // A random writer marks the change. If its answer is lost, the next read shows by this mark
    // whether the range was taken.
    const base::Random128 request = base::random_128();
    raised.next = range.end();
    raised.writer = base::to_hex(request.high, request.low);
    const auto replaced = records_.replace(head_.counter_key(), seen_->version, raised.text(), by);
    if (replaced && *replaced) {
      // A counter that is ever below this went back: the store lost data.
      floor_ = raised.next;
      seen_ = LastSeen{std::move(raised), **replaced};
      if (auto ours = look_at_head(by); !ours) return ours.error();
      return range;
    }
    if (!replaced && replaced.error().code() != Errc::kOutcomeUnknown) return replaced.error();
    // Either another process was faster, or the outcome is not known. Both need another read.
    seen_.reset();
    if (!replaced) {
      pending_ = Pending{std::move(raised.writer), range};
    } else {
      pause_(jitter_.after_race(tries));
    }
  }
  return Error(Errc::kUnavailable, "other processes changed the counter of the ids '" + head_.name +
                                       "' at every try: take larger steps");
}

// A namespace that was lost and made again has another counter, which knows nothing of this one.
Result<void> Counter::look_at_head(BootInstant by) {
  const auto record = records_.read(SegmentsHead::key(head_.name), by);
  if (!record) return record.error();
  if (*record) {
    const auto head = SegmentsHead::parse(head_.name, (*record)->text);
    if (head && head->incarnation == head_.incarnation) return {};
  }
  loss_ = corrupt("is not the namespace's any more");
  return *loss_;
}

Result<std::optional<Range>> Counter::read(BootInstant by) {
  const auto record = records_.read(head_.counter_key(), by);
  if (!record) return record.error();
  if (!*record) return corrupt("is missing");
  auto state = CounterState::parse((*record)->text, "the counter of the ids '" + head_.name + "'");
  if (!state) return state.error();
  if (state->incarnation != head_.incarnation || state->last != head_.last) {
    return corrupt("is one of another namespace");
  }
  if (state->stopped) return corrupt("was stopped: " + *state->stopped);
  if (state->next < floor_) {
    loss_ = corrupt("went back from " + std::to_string(floor_) + " to " +
                    std::to_string(state->next) + ": the store lost data");
    stop(by);
    return *loss_;
  }
  floor_ = state->next;
  seen_ = LastSeen{*std::move(state), (*record)->version};
  // If the counter still has the mark of the request whose answer was lost, its range is ours.
  const auto pending = std::exchange(pending_, std::nullopt);
  if (pending && pending->writer == seen_->state.writer) {
    if (auto ours = look_at_head(by); !ours) return ours.error();
    return std::optional(pending->range);
  }
  return std::optional<Range>();
}

// Without this the processes that began after the loss would go on and repeat numbers.
void Counter::stop(BootInstant by) {
  for (int tries = 0; tries < kMostTries && !stopped_; ++tries) {
    const auto record = records_.read(head_.counter_key(), by);
    if (!record) return;
    auto state = *record ? CounterState::parse((*record)->text, "it") : corrupt("is missing");
    if (!state || state->stopped) {  // Nobody gets a range from it.
      stopped_ = true;
      return;
    }
    state->stopped = state->next < floor_
                         ? "a process had seen the counter at " + std::to_string(floor_) +
                               ", and it was at " + std::to_string(state->next) + " later"
                         : "the namespace has another counter, or is gone";
    const auto replaced =
        records_.replace(head_.counter_key(), (*record)->version, state->text(), by);
    if (!replaced) return;
    stopped_ = replaced->has_value();
  }
}

}  // namespace holdfast::ids
