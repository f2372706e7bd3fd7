// Numbers from a counter that a store has in a form of its own, and that other programs know and
// may raise at the same time.
//
//   store                    counter                                  name
//   Redis                    a string key, as INCR has it             the key
//   PostgreSQL               a sequence, as nextval() has it          as SQL: orders_id_seq
//   MySQL, MariaDB           a table of one row and one column        the table
//   ZooKeeper                the numbers of sequential nodes          the folder
//
// Guarantee: nobody else on the counter gets the same number, whatever processes do: kill, pause,
// fork. Numbers of one object grow in the order of the calls; with a batch of one they grow in the
// order of the calls of all processes (IdGuarantees::order). A batch comes from the reply of one
// committed write at the primary; a lost reply is a gap. A counter that is gone, or lower than this
// object has seen, ends this object.
// Not guaranteed: anything before this object began. Nobody can see that a counter was set back
// while no process ran. Other programs and other objects are not stopped: Segments has a counter of
// its own that is. Nor a number without gaps: the rest of a batch ends with its object.
//
// Thread-safety: all calls. Blocking: next(), once for each batch, until the store has answered or
// request_timeout. Ownership: it has a connection of its own. fork(): the child's calls answer
// kClosed.
// Errors of next(): kUnavailable: the store cannot be reached, or its reply was lost; call again.
// kUnsupported: the last number is given. kCorruptState: data was lost, or the counter was changed
// into something else; for good. kClosed: this is a forked child. kPermissionDenied.
// Source: the statements are those of the stores' manuals; the rules for lost replies and lost data
// are our own (docs/design/0069-store-counters.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/result.h"

namespace holdfast::ids {

struct StoreCounterOptions {
  // So many numbers for each request: 1 to 10,000. More mean fewer requests and larger gaps.
  std::uint32_t batch = 1;
  // For one request to the store.
  std::chrono::milliseconds request_timeout{5'000};
  // Refuses a store that may forget a write that it has answered.
  bool require_durable = false;
};

class HOLDFAST_EXPORT StoreCounter final : public IdSource {
 public:
  // Makes a counter whose first number is `first`.
  // Errors: kStoreInUse: something of that name is there. kInvalidArgument: the store cannot have
  // such a name. kUnsupported: the store has no counters, or cannot begin there (ZooKeeper: 0 or 1,
  // Redis: 1 or more). Also those of Client::connect(). After kOutcomeUnknown it may be there.
  static Result<void> create(const std::string& url, const std::string& name,
                             std::uint64_t first = 1);

  // Opens a counter that is there. Takes no number yet: the first next() does.
  // Errors: kInvalidArgument: there is none of that name, it is of another kind (a list, a view),
  // it would repeat numbers (a sequence with CYCLE, a key that expires), or an option is out of
  // bounds. kUnsupported: the store has no counters, or forgets them (require_durable). Also those
  // of Client::connect().
  static Result<std::unique_ptr<StoreCounter>> open(const std::string& url, const std::string& name,
                                                    const StoreCounterOptions& options = {});

  ~StoreCounter() override;
  StoreCounter(const StoreCounter&) = delete;
  StoreCounter& operator=(const StoreCounter&) = delete;

  Result<Id> next() override;
  IdGuarantees guarantees() const override;

 private:
  friend struct StoreCounterOverNative;
  struct Impl;
  explicit StoreCounter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::ids
