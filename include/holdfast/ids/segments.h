// Small numbers that grow, from a counter in a store: a process takes a range of them by one write,
// and gives them from memory.
//
// Guarantee: no number of a namespace is given twice, by any number of processes on any hosts,
// whatever is killed, forked, disconnected or late. A range is used only after the store has
// committed the write that took it. Numbers of one object grow in the order of the calls.
// A counter that is missing, damaged or lower than this object has seen is an error, and stops
// every process, until an operator sets a floor. Nothing begins anew by itself.
// Not guaranteed: that there are no gaps. Numbers that an object has taken and not given are lost.
// Nor an order between objects. Nor anything after an older copy of the store's data was put back,
// until an object that has seen higher numbers asks again: a process that began later cannot see
// it. Stop all processes and set a floor when you restore a backup.
//
// Thread-safety: all calls, from any thread.
// Blocking: next() waits for the store only when both of the object's ranges are used up; at most
// request_timeout then, twice that where a request had begun before. The destructor waits for a
// request under way.
// fork(): the child's calls answer kClosed.
// Errors: with each call. kUnavailable: the store cannot be reached; kUnsupported: the last number
// is given; kClosed: close() was called, or this is a forked child; kCorruptState: data was lost.
// None of them gives or wraps a number.
// Source: two buffers and an adaptive step are known from Leaf-segment of 2017; the rules for lost
// replies and lost data are our own (docs/design/0065-segments.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/result.h"

namespace holdfast::ids {

// A namespace's own, for good.
struct SegmentsSpec {
  std::uint64_t first = 1;
  std::uint64_t last = std::numeric_limits<std::int64_t>::max();  // At most that.
};

struct SegmentsOptions {
  // A range has so many numbers: as many as last for wanted_duration, between these bounds. More
  // mean fewer requests, and larger gaps. At most 2^32 - 1.
  std::uint64_t step_min = 1'000;
  std::uint64_t step_max = 1'000'000;
  std::chrono::milliseconds wanted_duration{10'000};
  // The next range is fetched when this share of the present one is used: above 0, at most 1. With
  // 1 it is fetched when a number of it is asked for.
  double fill_level = 0.2;
  // For one request to the store.
  std::chrono::milliseconds request_timeout{5'000};
  // Refuses a store that may forget a write that it has answered.
  bool require_durable = false;
};

struct SegmentsStatus {
  std::string incarnation{};  // A random name, new with every floor.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t next = 0;                // The next range begins there.
  std::optional<std::string> stopped{};  // The reason why no process gets numbers.
  std::string forgets{};                 // As IdGuarantees::forgets.
};

class HOLDFAST_EXPORT Segments final : public IdSource {
 public:
  // Makes the namespace `name` in the store of a client's URL.
  // Errors: kStoreInUse: it is there already. kInvalidArgument: a name or a spec out of bounds, or
  // the name is taken by ids of another kind. kUnsupported: the store keeps no records. Also those
  // of Client::connect(). After kOutcomeUnknown it may be there: look with status().
  static Result<void> create(const std::string& url, const std::string& name,
                             const SegmentsSpec& spec = {});

  // Takes no range yet: the first next() does.
  // Errors: kInvalidArgument: there is no such namespace (make it by create()), it is of another
  // kind, or an option is out of bounds. kUnsupported: the store keeps no records, or forgets them
  // (require_durable). kCorruptState: the counter is missing, damaged or stopped.
  static Result<std::unique_ptr<Segments>> open(const std::string& url, const std::string& name,
                                                const SegmentsOptions& options = {});

  // For an operator, after a loss of data: no number up to `floor` is given again. The floor must
  // be at least the highest number that any process was ever given. Open objects answer
  // kCorruptState from their next range on: open them again. The counter stays stopped when this
  // fails halfway: call it again.
  // Errors: kInvalidArgument: the counter is above the floor, or there is no such namespace.
  // kStoreInUse: somebody else sets one now. kCorruptState: the namespace's head is damaged.
  static Result<void> set_floor(const std::string& url, const std::string& name,
                                std::uint64_t floor, const std::string& reason);

  // Errors: kInvalidArgument: there is no such namespace. kCorruptState: its head or its counter is
  // missing or damaged.
  static Result<SegmentsStatus> status(const std::string& url, const std::string& name);

  ~Segments() override;
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // No lock. One system call for each range, at its fill level, wakes the thread that fetches.
  Result<Id> next() override;
  // Fills as much as it can and says how much: less than the whole only when an error came behind
  // the first number. Errors: as next(), when there is not one number.
  Result<std::size_t> next_batch(std::span<std::uint64_t> into);

  // From then on every call answers kClosed. The numbers left are a gap.
  void close();

  IdGuarantees guarantees() const override;
  // The size of the next range.
  std::uint64_t step() const;

 private:
  friend struct SegmentsOverRecords;
  struct Impl;
  explicit Segments(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::ids
