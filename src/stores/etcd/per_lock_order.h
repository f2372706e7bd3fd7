// The order of requests about one lock: gRPC keeps none between calls, and the server answers them
// as they come.
//
// Guarantee: of two requests about the same contender the later one begins when the earlier one has
// ended; likewise an entry behind entries and removals, and anything before and behind a step of
// several keys.
// All others run side by side.
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

  // Calls `start` now or later; `start` gets what is to be called at its end, once.
  void run(const std::string& lock, Kind kind, const machine::AcquisitionId& id,
           std::function<void(std::function<void()> finished)> start);

 private:
  struct Job {
    Kind kind;
    machine::AcquisitionId id;
    std::function<void(std::function<void()>)> start;  // Empty: it runs.
  };
  using Lane = std::list<Job>;

  static bool waits(const Job& later, const Job& earlier);
  void begin(const std::string& lock, Lane::iterator job);
  void finish(const std::string& lock, Lane::iterator job);

  std::map<std::string, Lane> order_;
};

}  // namespace holdfast::stores::etcd
