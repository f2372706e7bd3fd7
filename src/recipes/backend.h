// The place of locks that other programs take, too: as little as RecipeStore needs of it.
//
// Guarantee: every `done` is called once, on the loop and not inline, unless close() comes first.
// kUnavailable: surely not done. kOutcomeUnknown: perhaps; give_back() clears that up.
// Thread-safety: everything on the loop, but guarantees(), close() and abandon_after_fork().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/lock_info.h"
#include "src/port/store.h"

namespace holdfast::recipes {

struct Hold {
  std::string name;
  std::string key;
  machine::AcquisitionId id{};
};

struct Taken {
  bool held = false;                        // False: somebody has the lock.
  std::uint64_t micros = 0;                 // Held: the server's clock at the grant.
  std::optional<port::Duration> free_in{};  // Not held: until a lease ends, where that is known.
};

class Backend {
 public:
  // These were held, and are no more.
  using Lost = std::function<void(const std::vector<machine::AcquisitionId>& ids)>;

  virtual ~Backend() = default;

  virtual Guarantees guarantees() const = 0;
  // Names of one key are one lock. Errors: kInvalidArgument.
  virtual Result<std::string> key_of(const std::string& name) const = 0;

  // Connects, and looks whether the server can serve the recipe.
  virtual void start(Lost lost, port::Done<bool> done) = 0;
  // Takes the lock if it is free now. One request for a key is under way at a time.
  virtual void take(Hold hold, machine::OwnerPtr owner, port::Done<Taken> done) = 0;
  // Whether each is still held; the lease of those that are begins anew.
  virtual void confirm(std::vector<Hold> holds, port::Done<std::vector<Result<bool>>> done) = 0;
  // Also after a take() whose outcome is not known. False: it was not held.
  virtual void give_back(Hold hold, port::Done<bool> done) = 0;
  // nullopt: nobody holds it.
  virtual void inspect(Hold hold, port::Done<std::optional<LockInfo>> done) = 0;
  virtual void probe(port::Done<std::vector<Finding>> done) = 0;

  // For a server that tells when a lock may have become free. `free` is called on the loop.
  using Free = std::function<void(const std::string& key)>;
  virtual void on_free(Free) {}
  // Whether somebody waits for the key. After it begins, `free` is called once at least.
  virtual void watch(const std::string& key, bool waits) {
    static_cast<void>(key);
    static_cast<void>(waits);
  }
  // Between two questions of a waiter.
  virtual std::chrono::milliseconds longest_pause() const { return std::chrono::milliseconds(250); }
  virtual std::string how_to_break() const {
    return "with recipe= no lock can be broken: end its holder's session on the server, or delete "
           "its row";
  }

  // Ends the connections; nothing is called back afterwards.
  virtual void close() = 0;
  virtual void abandon_after_fork() noexcept = 0;
};

}  // namespace holdfast::recipes
