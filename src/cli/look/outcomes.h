// Finds the marks of finished Onces: locks under which nobody works any more.
//
// Guarantee: only certain marks are taken out. Not guaranteed: that all are; unfinished ones are
// asked about again after a few seconds.
// Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/client.h"

namespace holdfast::cli {

struct Finished {
  LockInfo lock;
  std::string outcome;
};

// The outcome of a finished Once of that name; nullopt: there is none.
std::optional<std::string> outcome_of(const Client& client, const LockInfo& lock);

class Outcomes {
 public:
  explicit Outcomes(const Client& client) : client_(client) {}

  // Takes the finished ones out of `locks`, and keeps the order of the others. Asks the store about
  // unknown ones, many at a time.
  std::vector<Finished> take_from(std::vector<LockInfo>& locks);

 private:
  using Grant = std::pair<std::string, Token>;
  struct Known {
    std::optional<std::string> outcome;
    std::chrono::steady_clock::time_point asked{};
  };

  void ask(const std::vector<LockInfo>& locks);

  Client client_;
  std::map<Grant, Known> known_;
};

}  // namespace holdfast::cli
