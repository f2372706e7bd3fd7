// The records of a namespace of segments, and ranges taken from its counter by compare-and-set.
//
//   ids/NAME                      the head: the counter's incarnation, first and last number
//   ids/NAME/INCARNATION/counter  the counter: the next number, and who raised it last
//
// A process that has read the counter once takes a range by one replace() of the version that it
// saw last. Only a version that somebody else changed makes it read again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/ids/segments.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/base/jitter.h"
#include "src/ids/segments/names.h"
#include "src/port/records.h"

namespace holdfast::ids {

inline constexpr std::string_view kSegmentsKind = "segments";
inline constexpr std::string_view kCounterKind = "segments-counter";
inline constexpr std::uint64_t kGreatestNumber = std::numeric_limits<std::int64_t>::max();

struct SegmentsHead {
  std::string name{};
  std::string incarnation{};
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  static std::string key(const std::string& name) { return head_key(name); }
  std::string counter_key() const { return key(name) + "/" + incarnation + "/counter"; }
  std::string text() const;
  // Errors: as RecordText::parse() for the kind of segments.
  static Result<SegmentsHead> parse(const std::string& name, const std::string& text);
};

struct CounterState {
  std::string incarnation{};
  std::uint64_t next = 0;  // last + 1: used up.
  std::uint64_t last = 0;
  std::string writer{};  // The random id of the request that wrote this.
  std::optional<std::string> stopped{};

  std::string text() const;
  // Errors: kCorruptState, kVersionMismatch.
  static Result<CounterState> parse(const std::string& text, const std::string& where);
};

struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  std::uint64_t end() const { return first + count; }
};

// Guarantee: a range is answered only after its write was committed, once, and to this object
// alone, while the namespace has this counter. Ranges of one object grow. A counter that is
// missing, damaged, stopped, or lower than this object has seen is kCorruptState; the last one also
// stops the counter for everybody.
// Not guaranteed: that a range is used: a request whose reply is lost may leave a gap.
// Thread-safety: one thread at a time. Ownership: the records must outlive it.
class Counter {
 public:
  using Pause = std::function<void(std::chrono::microseconds)>;

  Counter(port::Records& records, SegmentsHead head, Pause pause);

  // Reads the counter, so that its errors show before the first range.
  Result<void> look(base::BootInstant by);

  // At most `step` numbers, fewer at the end of the namespace.
  // Errors: kUnavailable: the store cannot be reached, or others changed the counter all the time.
  // kUnsupported: the last number is taken. kCorruptState. Others of the store.
  Result<Range> take(std::uint64_t step, base::BootInstant by);

  // The loss is not written down yet: take() tries again.
  bool must_stop() const { return loss_ && !stopped_; }

 private:
  struct LastSeen {
    CounterState state{};
    std::uint64_t version = 0;
  };
  struct Pending {
    std::string writer{};
    Range range{};
  };

  // The range of a request whose reply was lost, if the counter shows that it was applied.
  Result<std::optional<Range>> read(base::BootInstant by);
  Result<void> look_at_head(base::BootInstant by);
  Error corrupt(const std::string& what);
  void stop(base::BootInstant by);

  port::Records& records_;
  const SegmentsHead head_;
  const Pause pause_;
  base::Jitter jitter_;
  std::uint64_t floor_ = 0;  // The highest `next` that was seen. A counter never goes below it.
  std::optional<LastSeen> seen_;
  std::optional<Pending> pending_;
  std::optional<Error> loss_;
  bool stopped_ = false;
};

// Errors: as Segments::create().
Result<void> create_segments(port::Records& records, const std::string& name,
                             const SegmentsSpec& spec, base::BootInstant by);
// Errors: kInvalidArgument: there is no such namespace, or it is of another kind.
Result<SegmentsHead> read_segments_head(port::Records& records, const std::string& name,
                                        base::BootInstant by);
// Errors: as Segments::set_floor().
Result<void> set_segments_floor(port::Records& records, const std::string& name,
                                std::uint64_t floor, const std::string& reason,
                                base::BootInstant by);
// Errors: as Segments::status().
Result<SegmentsStatus> segments_status(port::Records& records, const std::string& name,
                                       base::BootInstant by);

}  // namespace holdfast::ids
