// Keeps the order of requests about one lock, because the server keeps none between calls.
//
// Guarantee: of two requests about the same contender, the later one begins when the earlier one
// has ended. The same holds for an entry after entries and removals, and for any request before or
// after a step of several keys. All others run side by side.
// Thread-safety: the loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>

#include "src/machine/types.h"

namespace holdfast::stores::etcd {

class PerLockOrder {
 public:
  enum class Kind : std::uint8_t { kEnter, kOther, kRemove, kStep };

  // Calls `start` now or later, with a function that the request calls once at its end.
  void run(const std::string& lock, Kind kind, const machine::AcquisitionId& id,
           std::function<void(std::function<void()> finished)> start);

 private:
  struct Job {
    Kind kind;
    machine::AcquisitionId id;
    std::function<void(std::function<void()>)> start;  // Empty while it runs.
  };
  using Lane = std::list<Job>;

  static bool waits(const Job& later, const Job& earlier);
  void begin(const std::string& lock, Lane::iterator job);
  void finish(const std::string& lock, Lane::iterator job);

  std::map<std::string, Lane> order_;
};

}  // namespace holdfast::stores::etcd
