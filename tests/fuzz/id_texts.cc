// The texts of ids: layouts, clock policies, and ids themselves; and an id on the line below its
// layout, taken apart.

#include <string>

#include "holdfast/ids/snowflake.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::id_texts {

namespace {

void decode(std::string_view layout_text, std::string_view id_text) {
  const auto layout = ids::Layout::parse(layout_text);
  const auto id = ids::Id::parse(id_text);
  if (!layout || !id) return;
  const auto parts = layout->decode(*id);
  if (!parts) {
    demand(parts.error().code() == Errc::kInvalidArgument, "an id of others is refused as invalid");
    return;
  }
  const auto again = layout->compose(parts->time, parts->worker, parts->sequence);
  demand(again && *again == *id, "an id is made of its parts");
  for (const ids::LayoutField& field : layout->spec().fields) {
    const auto value = layout->field(*id, field.name);
    demand(value && *value >> field.bits == 0, "a field's value fits it");
  }
}

}  // namespace

void run(std::string_view input) {
  if (const std::size_t end = input.find('\n'); end != input.npos) {
    decode(input.substr(0, end), input.substr(end + 1));
  }
  if (const auto layout = ids::Layout::parse(input)) {
    demand(*ids::Layout::parse(layout->to_string()) == *layout, "a layout's text is its own");
    const auto last =
        layout->compose((std::uint64_t{1} << layout->time_bits()) - 1, layout->workers() - 1,
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
