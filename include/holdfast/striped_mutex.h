// One hot name spread over N mutexes, so that users of different parts do not wait for one
// another.
//
// Example (examples/primitives.cc#striped_mutex):
//   holdfast::StripedMutex stock = client.striped_mutex("stock", 64);
//   auto lease = stock.acquire("article 4711", {.wait = 5s});  // most other articles do not wait
//   if (!lease) return lease.error();
//   work_with(lease->token());
//   return lease->release();
//
// Guarantee: as Mutex's, per stripe. A key belongs to the same stripe on every machine and in every
// version. The stripes of `name` are the mutexes `name/0` to `name/N-1`.
// Not guaranteed: that two keys have different stripes. Nested locking of two keys can deadlock:
// use Client::acquire_all() with stripe_name() of both, or name an Owner. All users of a name must
// agree on N: nothing checks it. For the rare work on all parts, acquire_all() holds every stripe.
//
// Thread-safety, ownership, time, fairness, errors: as Mutex's. kInvalidArgument: no stripes, or
// more than 64.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/multi_lock.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {

namespace detail {
struct Async;
}

class HOLDFAST_EXPORT StripedMutex {
 public:
  StripedMutex(const StripedMutex&) = default;
  StripedMutex& operator=(const StripedMutex&) = default;
  ~StripedMutex() = default;

  const std::string& name() const;
  std::uint32_t stripes() const;
  // By FNV-1a (64 bit) of the key's bytes.
  std::uint32_t stripe_of(std::string_view key) const;
  std::string stripe_name(std::uint32_t stripe) const;

  // The stripe of that key.
  Result<Lease> acquire(std::string_view key, AcquireOptions options = {});
  Result<std::optional<Lease>> try_acquire(std::string_view key, AcquireOptions options = {});

  // Takes any free stripe, and tries that of the key first. If none is free it waits for that one.
  // Asks the store once per stripe until one is free. For work that may be done on any part, like
  // taking one item of many. Lease::name() is the name of the stripe.
  Result<Lease> acquire_any(std::string_view key, AcquireOptions options = {});

  // All stripes, or none: as Client::acquire_all().
  Result<LeaseSet> acquire_all(AcquireOptions options = {});

 private:
  friend class Client;
  friend struct detail::Async;
  struct State;
  explicit StripedMutex(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast
