// The owner of locks, as an object that the program passes along: not a thread, not a client.
//
// Example (examples/primitives.cc#owner):
//   const holdfast::Owner me("order 42");
//   auto stock = client.mutex("stock/7").acquire({.owner = me});
//   if (!stock) return stock.error();
//   auto account = client.mutex("account/3").acquire({.wait = 60s, .owner = me});
//   if (!account && account.error().code() == holdfast::Errc::kWouldDeadlock) {
//     std::printf("%s\n", account.error().message().c_str());  // who waits for whom
//     return stock->release();                                 // the others go on; begin anew
//   }
//
// A recursive mutex knows its holder by the owner, and so does deadlock detection: two owners that
// each wait for a lock of the other would wait for ever. The client watches waits that name their
// owner, and one wait of such a cycle ends with kWouldDeadlock (AcquireOptions::owner).
//
// The youngest wait ends, by the clocks of the waiters. This takes two to four seconds, needs a
// store that lists its queues, and happens only if two readings show the same cycle with the same
// grants and waits. An owner that has several waits at once is in a cycle only when all of them
// are. Permits count only when all their holders are in the cycle.
//
// Guarantee: two owners that were made are never equal, on whatever hosts: 128 random bits from the
// kernel. Copies are the same owner.
// Not guaranteed: that an owner is the one it claims to be; nothing is checked. After fork() both
// processes have the same owners: make new ones in the child.
// Thread-safety: a value; share it or copy it, also across threads and coroutines. A move copies.
// Errors: none. A label of more than 128 bytes is refused with kInvalidArgument by the request that
// names the owner.
#pragma once

#include <string>

#include "holdfast/export.h"

namespace holdfast {

class HOLDFAST_EXPORT Owner {
 public:
  // A new one. The label is for people.
  explicit Owner(std::string label = {});
  Owner(const Owner&) = default;
  Owner& operator=(const Owner&) = default;
  ~Owner() = default;

  const std::string& label() const { return label_; }

  // "order 42#6f1c...": the label, and 32 hexadecimal digits. People see this text when they ask
  // who holds a lock or waits for it (OwnerInfo::owner).
  const std::string& id() const { return id_; }

  friend bool operator==(const Owner& a, const Owner& b) { return a.id_ == b.id_; }

 private:
  std::string label_;
  std::string id_;
};

}  // namespace holdfast
