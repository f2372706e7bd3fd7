// The text by which a lease is handed to another process: "hf1.<mode>.<ttl>.<id>.<name>".
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "src/machine/types.h"

namespace holdfast::primitives {

struct LeaseId {
  std::string name;
  Mode mode = Mode::exclusive();
  std::chrono::milliseconds ttl{};  // The adopter renews it for as long again.
  machine::AcquisitionId id;
};

// The name is percent-encoded, so that the text survives shells and lists.
std::string format_lease_id(const LeaseId& id);

// Errors: kInvalidArgument.
Result<LeaseId> parse_lease_id(std::string_view text);

}  // namespace holdfast::primitives
