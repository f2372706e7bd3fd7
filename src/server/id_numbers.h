// Numbers of a namespace of segments (holdfast/ids/segments.h) that this server keeps, for callers
// without a client of Holdfast.
//
// Guarantee: a number is answered after the commit of its counter, and to one caller only, among
// them all processes that take segments of the same namespace. Numbers of calls that follow one
// another grow.
// Not guaranteed: that none is left out. A caller whose answer is lost asks again, which is a gap.
// Thread-safety: the service's loop only.
// Errors: kInvalidArgument: no such namespace, no such count. kUnsupported: so many are not left.
// kCorruptState: the counter was stopped, or is damaged. And the errors of
// Service::keep().
#pragma once

#include <cstdint>
#include <string>

#include "src/server/service.h"

namespace holdfast::server {

constexpr std::uint64_t kMostNumbers = 1'000'000;

inline bool fits_one_call(std::uint64_t count) { return count > 0 && count <= kMostNumbers; }

struct IdNumbers {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  std::uint64_t last() const { return first + count - 1; }
};

// The name that a user needs the right to acquire.
std::string name_of_ids(const std::string& name);

void take_numbers(Service& service, const std::string& name, std::uint64_t count,
                  Done<IdNumbers> done);

}  // namespace holdfast::server
