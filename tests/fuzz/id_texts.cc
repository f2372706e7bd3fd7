// The texts of ids: layouts, clock policies, and ids themselves.

#include <string>

#include "holdfast/ids/snowflake.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::id_texts {

void run(std::string_view input) {
  if (const auto layout = ids::Layout::parse(input)) {
    demand(*ids::Layout::parse(layout->to_string()) == *layout, "a layout's text is its own");
    const auto last = layout->compose((std::uint64_t{1} << layout->time_bits()) - 1,
                                      layout->workers() - 1,
                                      (std::uint64_t{1} << layout->sequence_bits()) - 1);
    demand(last.has_value(), "the greatest parts fit");
    demand(last->number() >> 63 == 0, "an id has 63 bits");
    if (const auto parts = layout->decode(*last)) {
      demand(parts->worker == layout->workers() - 1, "the worker comes back");
    }
  } else {
    demand(layout.error().code() == Errc::kInvalidArgument, "a bad layout is refused as invalid");
  }
  if (const auto policy = ids::ClockPolicy::parse(input)) {
    demand(*ids::ClockPolicy::parse(policy->to_string()) == *policy, "a policy's text is its own");
  }
  if (const auto id = ids::Id::parse(input)) {
    demand(ids::Id::parse(id->to_string()) == id, "an id's text is its own");
  }
}

}  // namespace holdfast::fuzz::id_texts

HOLDFAST_FUZZ_TARGET(id_texts)
