// The records port: small texts that a store keeps for good, each changed by compare-and-set. Ids
// keep their worker numbers and counters in them.
//
// Guarantee: a change that was answered is durable and never expires; forgets() tells the
// exceptions. replace() takes effect only while the record has the version that it names. So a
// request that arrives late or twice undoes no later change. read() sees every change that was
// answered before it began: it asks the primary, never a copy that lags.
// Not guaranteed: anything after a restored backup. The port cannot see that.
//
// Thread-safety: any thread, one call at a time for each object. Ownership: it has a connection of
// its own, and outlives nothing. fork(): a child must not use or destroy it.
// Blocking: each call, until the store answers or until `by`, on the boot clock.
// Errors: kUnavailable: surely not applied, and cannot be any more. kOutcomeUnknown: it may have
// been applied, or may still be: read() tells, as long as the caller knows its own text again, and
// a replace() of the same version then settles it. kInvalidArgument: a key or a text beyond the
// limits. kPermissionDenied, kVersionMismatch, kCorruptState.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"

namespace holdfast::port {

struct Record {
  std::string text{};
  std::uint64_t version = 0;  // The store's own; every change gives another one.
};

class Records {
 public:
  // Bytes. A key has no control characters.
  static constexpr std::size_t kLongestKey = 400;
  static constexpr std::size_t kLongestText = 8'192;

  virtual ~Records() = default;

  // nullopt: there is none of that name.
  virtual Result<std::optional<Record>> read(const std::string& key, base::BootInstant by) = 0;
  // The new version; nullopt: there is a record already, and nothing is changed.
  virtual Result<std::optional<std::uint64_t>> create(const std::string& key,
                                                      const std::string& text,
                                                      base::BootInstant by) = 0;
  // The new version; nullopt: the record has another version, or is gone, and nothing is changed.
  virtual Result<std::optional<std::uint64_t>> replace(const std::string& key,
                                                       std::uint64_t version,
                                                       const std::string& text,
                                                       base::BootInstant by) = 0;

  // The wall clock of the store's server, since 1970. nullopt: it has none, or it is this host's.
  virtual Result<std::optional<std::chrono::milliseconds>> wall_time(base::BootInstant by) {
    static_cast<void>(by);
    return std::optional<std::chrono::milliseconds>();
  }

  // Whether the server gives ids by itself to programs without a client of Holdfast.
  virtual bool serves_ids() const { return false; }

  // Why an answered change may be lost without a restored backup ("Redis answers before a replica
  // has it"); empty: it is not.
  virtual std::string forgets() const = 0;
};

// A question to a factory about records in its store, beside the locks of the URL. The factory
// fills in the answer and returns no store.
struct RecordsJob {
  std::unique_ptr<Records> made{};
};

}  // namespace holdfast::port
