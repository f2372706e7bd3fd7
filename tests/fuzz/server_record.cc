// Records of the lock service's journal. The bytes get a true checksum, since no other way leads
// further in: whatever reads becomes a state that a machine takes or refuses.

#include <string>

#include "src/base/fnv.h"
#include "src/server/recovery.h"
#include "src/server/testing/sim_journal.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_record {
namespace {

using server::testing::SimDisk;

std::string with_checksum(std::string bytes) {
  const std::uint64_t sum = base::fnv1a(bytes);
  for (unsigned shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(sum >> shift)));
  }
  return bytes;
}

std::string head_of(char kind) { return std::string("HFJ\x01", 4) + kind + '\x01' + '\0'; }

Result<server::Recovered> recover(SimDisk& disk) {
  server::testing::SimJournal journal(disk);
  return server::recover(journal, {}, 0);
}

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
    const bool readable = read(fold).has_value();
    SimDisk disk;
    if (kind == '\x01') {
      disk.batches[1] = bytes;
    } else {
      disk.chunks[{1, 0}] = bytes;
      disk.head = {1, 1, base::fnv1a(bytes)};
    }
    auto all = recover(disk);
    demand(readable || !all, "a recovery takes no record that a fold refuses");
    if (!readable) continue;
    SimDisk copy;
    copy.head = {1, 0, base::kFnvStart};
    while (const auto chunk = fold.take_chunk(100)) {
      copy.head.checksum = base::fnv1a(*chunk, copy.head.checksum);
      copy.chunks[{1, copy.head.count++}] = *chunk;
    }
    const auto same = recover(copy);
    if (kind == '\x01')
      demand(all.has_value() == same.has_value(), "a snapshot is as good as a batch");
    if (!all) continue;
    demand(same.has_value(), "what was recovered can be written and recovered again");
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
