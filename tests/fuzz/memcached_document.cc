// A lock's document on memcached, and what the machine makes of it.

#include "src/machine/lock_machine.h"
#include "src/stores/memcached/document.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::memcached_document {
namespace {

using stores::memcached::decode;
using stores::memcached::Document;
using stores::memcached::encode;

// A ticket has 24 bytes at least, and is some ten times as large in memory; an owner has one byte.
constexpr std::size_t kTimes = 600;
constexpr std::size_t kOwn = 16 * 1024;

}  // namespace

void run(std::string_view bytes) {
  const PeakMemory peak;
  const Result<Document> document = decode(bytes);
  demand(peak.bytes() <= kTimes * bytes.size() + kOwn, "a document has its limit");
  if (!document) {
    demand(!document.error().message().empty(), "it is told what is wrong");
    return;
  }
  const std::string again = encode(*document);
  const Result<Document> same = decode(again);
  demand(same.has_value(), "what was written is read");
  demand(encode(*same) == again, "and is the same");
  machine::LockMachine machine(machine::Token{0, 1});
  if (!machine.restore_lock(document->image)) return;
  machine::Effects effects;
  const machine::Instant at(machine::Duration(1));
  machine.apply({at, machine::Release{document->image.name, {1, 1}, {}}}, effects);
  machine.check_invariants();
}

}  // namespace holdfast::fuzz::memcached_document

HOLDFAST_FUZZ_TARGET(memcached_document)
