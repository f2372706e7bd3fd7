// Ids of a namespace that this server keeps, for callers without a client of Holdfast: numbers of
// segments (holdfast/ids/segments.h), or ids with a time (src/ids/segments/served.h).
//
// Guarantee: an id is answered after the commit of its record, and to one caller only, among them
// all processes that take ids of the same namespace. Ids of calls that follow one another grow;
// ids with a time do so where their layout is ordered().
// Not guaranteed: that none is left out. A caller whose answer is lost asks again, which is a gap.
// Thread-safety: the service's loop only.
// Errors: kInvalidArgument: no such namespace, no such count. kUnsupported: so many are not left,
// or not in one call. kUnavailable: the clock was set back, or jumped forward. kCorruptState: the
// counter was stopped, or is damaged. And the errors of Service::keep().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/server/service.h"

namespace holdfast::server {

constexpr std::uint64_t kMostNumbers = 1'000'000;

inline bool fits_one_call(std::uint64_t count) { return count > 0 && count <= kMostNumbers; }

struct IdNumbers {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::vector<std::uint64_t> with_time{};  // Ids with a time are no range: these, in order.

  std::uint64_t last() const { return with_time.empty() ? first + count - 1 : with_time.back(); }
};

// The name that a user needs the right to acquire.
std::string name_of_ids(const std::string& name);

// The caller gets kMostServedIds at most where they have a time. `as_range`: two or more of these
// are refused (kUnsupported). `user`: as in a Request.
void take_numbers(Service& service, const std::string& name, std::uint64_t count, bool as_range,
                  const std::string& user, Done<IdNumbers> done);

}  // namespace holdfast::server
