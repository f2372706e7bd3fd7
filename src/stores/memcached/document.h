// One lock as the value of one item: the lock machine's image, without instants.
//
// A ticket carries the length of its lease and the number of the request that defined it, never its
// end: each client adds the end by its own clock (sightings.h).
//
// Guarantee: decode(encode(x)) is x but for the ends of leases and for texts of owners that are
// longer than src/rows allows. Lengths are compared with the bytes that are left before memory is
// taken for them.
// Thread-safety: pure functions and values.
// Errors: kCorruptState: bytes that no version wrote; kVersionMismatch: those of a newer one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/machine/image.h"

namespace holdfast::stores::memcached {

struct Document {
  struct Broken {
    machine::Token token{};
    machine::OwnerPtr by{};
  };

  machine::LockImage image;
  // A request that creates the document may still arrive: it is refused while there is one, so this
  // one is not deleted. It ends by the item's own expiry.
  bool keep = false;
  std::optional<Broken> broken;  // The last break by an operator.
};

std::string encode(const Document& document);
// Overwrites `bytes`, and keeps its memory.
void encode(const Document& document, std::string& bytes);
Result<Document> decode(std::string_view bytes);

}  // namespace holdfast::stores::memcached
