// Records of the lock service's journal. The bytes get a true checksum, since no other way leads
// further in: whatever reads becomes a state that a machine takes or refuses.

#include <string>

#include "src/base/fnv.h"
#include "src/server/fold.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_record {
namespace {

std::string with_checksum(std::string bytes) {
  const std::uint64_t sum = base::fnv1a(bytes);
  for (unsigned shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(sum >> shift)));
  }
  return bytes;
}

std::string head_of(char kind) { return std::string("HFJ\x01", 4) + kind + '\x01' + '\0'; }

}  // namespace

void run(std::string_view input) {
  using server::Fold;
  static_cast<void>(Fold().batch(1, input));
  static_cast<void>(Fold().batch(1, with_checksum(std::string(input))));
  for (const char kind : {'\x01', '\x02'}) {
    const std::string bytes = with_checksum(head_of(kind) + std::string(input));
    const auto read = [&](Fold& fold) {
      return kind == '\x01' ? fold.batch(1, bytes) : fold.chunk({1, 1, 0}, 0, bytes);
    };
    Fold fold;
    if (!read(fold)) continue;
    Fold twin;
    demand(read(twin).has_value(), "it is read alike again");
    Fold copy;
    server::SnapshotHead head{1, 0, 0};
    while (const auto chunk = twin.take_chunk(100)) {
      demand(copy.chunk(head, head.count++, *chunk).has_value(), "a fold reads its own chunks");
    }
    auto all = fold.take_all({}, 0);
    const auto same = copy.take_all({}, 0);
    demand(all.has_value() == same.has_value(), "a snapshot is as good as its batches");
    if (!all) continue;
    all->machine.check_invariants();
    demand(all->machine.names("", SIZE_MAX) == same->machine.names("", SIZE_MAX),
           "a snapshot has all locks");
    machine::Effects effects;
    all->machine.apply({all->machine.now(), machine::Tick{}}, effects);
    all->machine.check_invariants();
  }
}

}  // namespace holdfast::fuzz::server_record

HOLDFAST_FUZZ_TARGET(server_record)
