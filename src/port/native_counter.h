// The port to a counter that a store has in a form of its own, which other programs know and may
// raise at the same time: a key, a sequence, a row, the numbers of sequential nodes.
//
// Guarantee: the numbers of take() come from the reply of one committed write at the primary, and
// nobody else gets them. A counter that is missing is an error: nothing makes it again by itself.
// Not guaranteed: anything after somebody has set the counter back, or put an older copy back. The
// caller compares with what it has seen.
//
// Thread-safety: any thread, one call at a time for each object. Ownership: it has a connection of
// its own, and outlives nothing. fork(): a child must not use or destroy it.
// Blocking: each call, until the store answers or until `by`, on the boot clock.
// Errors: kUnavailable: no number was taken. kOutcomeUnknown: numbers may have been taken, and are
// a gap then. kUnsupported: the last number is given. kCorruptState: the counter is missing, or is
// not what it was. kPermissionDenied.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/registry.h"

namespace holdfast::port {

class NativeCounter {
 public:
  struct Taken {
    std::vector<std::uint64_t> numbers{};  // They grow; one or more.
    std::uint64_t counter = 0;  // It stood there then. It only grows, unless data was lost.
  };

  virtual ~NativeCounter() = default;

  // At most `count` numbers; `count` is positive.
  virtual Result<Taken> take(std::uint32_t count, base::BootInstant by) = 0;

  // As Records::forgets().
  virtual std::string forgets() const = 0;
  // The server gives each connection a cache of numbers, so a later number may be a lower one where
  // calls go over several connections.
  virtual bool caches() const { return false; }
};

// A question to a factory about a counter in its store. The factory answers with a counter that was
// looked at, or makes one. It returns no store.
// Errors: kInvalidArgument: there is none of that name, or it is of a kind that gives no ids.
// kStoreInUse: `create_from` is set, and it is there already. kUnsupported: `create_from` cannot be
// the first number.
struct NativeCounterJob {
  std::string name{};
  std::optional<std::uint64_t> create_from{};  // The first number of a new one.
  std::unique_ptr<NativeCounter> made{};
};

// How a factory answers a job: with a counter that has, beside the port, create(first number, by)
// and open(by), which looks at the counter.
template <typename Own>
Result<std::unique_ptr<Store>> answer(NativeCounterJob& job, std::unique_ptr<Own> counter,
                                      base::BootInstant by) {
  const Result<void> done =
      job.create_from ? counter->create(*job.create_from, by) : counter->open(by);
  if (!done) return done.error();
  if (!job.create_from) job.made = std::move(counter);
  return std::unique_ptr<Store>();
}

}  // namespace holdfast::port
