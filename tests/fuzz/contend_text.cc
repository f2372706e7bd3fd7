// Parses a contender's key, its details and a lock's record, which anybody can write to.

#include "src/contend/record.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::contend_text {
namespace {

void check(const Error& error) {
  demand(error.code() == Errc::kCorruptState || error.code() == Errc::kVersionMismatch,
         "what others wrote is corrupt or of another version: " + error.message());
  demand(!error.message().empty(), "it is told what is wrong");
}

bool equal(const machine::OwnerPtr& one, const machine::OwnerPtr& other) {
  return one && other ? *one == *other : one == other;
}

void read_key(std::string_view input) {
  const auto key = contend::parse_key(input);
  if (!key) return;
  demand(static_cast<bool>(key->id), "a contender has an id");
  demand(contend::parse_key(contend::to_text(*key)) == *key, "a key is read back equal");
}

void read_details(std::string_view input) {
  const auto details = contend::parse_details(input);
  const auto known = contend::read_details(input, "key");
  demand(details.has_value() != (known.unreadable != nullptr), "what cannot be read says so");
  if (!details) return check(*known.unreadable);
  demand(details->owner != nullptr, "there is always an owner, of whom perhaps nothing is known");
  const auto again = contend::parse_details(contend::to_text(*details));
  demand(again.has_value(), "details are read back");
  demand(again->weakened == details->weakened && again->marked == details->marked &&
             again->attempt == details->attempt && again->session == details->session,
         "details are read back equal");
}

void read_record(std::string_view input) {
  const auto record = contend::parse_record(input);
  if (!record) return check(record.error());
  demand(record->capacity != 0U, "a lock of permits has one at least");
  const auto again = contend::parse_record(contend::to_text(*record));
  demand(again.has_value(), "a record is read back");
  demand(again->upgrade == record->upgrade && again->capacity == record->capacity,
         "a record is read back equal");
}

// Whatever a user says of himself comes back, as far as there is room for it.
void write_owner(std::string_view input) {
  machine::OwnerInfo owner;
  owner.owner = owner.host = owner.program = owner.reason = owner.trace_id =
      std::string(input.substr(0, 2048));
  contend::Details details;
  details.owner = std::make_shared<const machine::OwnerInfo>(owner);
  const auto again = contend::parse_details(contend::to_text(details));
  demand(again.has_value(), "details of a long owner can be read");
  demand(equal(again->owner, details.owner), "an owner is read back equal");
}

}  // namespace

void run(std::string_view input) {
  read_key(input);
  read_details(input);
  read_record(input);
  write_owner(input);
}

}  // namespace holdfast::fuzz::contend_text

HOLDFAST_FUZZ_TARGET(contend_text)
