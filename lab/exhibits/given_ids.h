// The ids that the hosts of an exhibit were given, and which of them came twice.
//
// Guarantee: an id that was added before is a duplicate, whichever host was given it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

#include "lab/exhibits/steps.h"

namespace holdfast::lab {

class GivenIds {
 public:
  // A step of the story, at this time of the script.
  void tell(std::int64_t at_ns, const std::string& who, const std::string& what);
  void add(std::int64_t at_ns, const std::string& who, std::uint64_t id);

  std::size_t count() const { return count_; }
  std::size_t duplicates() const { return count_ - first_.size(); }
  bool unique() const { return duplicates() == 0; }

  // The steps, the first duplicate where it happened, and the sum. Nothing without any id.
  void print(std::ostream& out) const;

 private:
  struct First {
    std::int64_t at_ns = 0;
    std::string who;
  };

  std::size_t count_ = 0;
  std::unordered_map<std::uint64_t, First> first_;
  std::vector<ToldStep> steps_;
};

}  // namespace holdfast::lab
