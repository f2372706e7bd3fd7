// OwnerInfo as bytes, for the `owner` and `broken_by` columns of a store with tables.
//
// Guarantee: decode(encode(x)) == x for strings within the limits; longer ones are cut.
// Errors: decode answers nullopt for anything else; it bounds every length before it reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/machine/types.h"

namespace holdfast::rows {

// `wake` replaces owner.wake. Appends to nothing: `out` is overwritten, and keeps its memory.
void encode_owner(const machine::OwnerPtr& owner, std::string_view wake, std::string& out);

// An empty text is no owner (nullptr inside).
std::optional<machine::OwnerPtr> decode_owner(std::string_view bytes);

}  // namespace holdfast::rows
