// The time in which a lock server begins: the snapshot of a million held locks is read, folded
// together and given to a machine. The aim is under a second. The journal lies in memory, so that
// no disk is measured.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "src/base/fnv.h"
#include "src/server/record.h"
#include "src/server/recovery.h"
#include "src/server/testing/sim_journal.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10U;
constexpr machine::Instant kNow{std::chrono::hours(1)};

// As a client's own: a name, a host, a process, and why.
machine::OwnerPtr owner_of(std::uint64_t number) {
  machine::OwnerInfo owner;
  owner.owner = "worker-" + std::to_string(number);
  owner.host = "node-" + std::to_string(number % 100);
  owner.pid = static_cast<std::int32_t>(1 + number % 30'000);
  return std::make_shared<const machine::OwnerInfo>(std::move(owner));
}

void add(RecordWriter& writer, std::uint64_t number) {
  machine::Effect effect;
  effect.name = "orders/" + std::to_string(number);
  const machine::Token token{0, 2 + number};
  writer.add_lock({effect.name, machine::ModeKind::kExclusive, 1, token, 2});
  effect.kind = machine::EffectKind::kGranted;
  effect.id = {number + 1, number + 1};
  effect.order = 1;
  effect.token = token;
  effect.seq = 1;
  effect.ttl = effect.waiter_ttl = effect.lease = std::chrono::seconds(30);
  effect.lease_end = kNow + effect.lease;
  effect.owner = owner_of(number);
  writer.add_effect(effect);
}

testing::SimDisk disk_with(std::uint64_t locks) {
  testing::SimDisk disk;
  disk.head.batch = 1;
  disk.head.checksum = base::kFnvStart;
  for (std::uint64_t number = 0; number < locks;) {
    RecordWriter writer({RecordKind::kChunk, 1, disk.head.count});
    if (number == 0) writer.add_floor({0, locks + 2});
    while (number < locks && writer.size() < kChunk) add(writer, number++);
    std::string bytes = writer.finish(kNow);
    disk.head.checksum = base::fnv1a(bytes, disk.head.checksum);
    disk.chunks[{1, disk.head.count++}] = std::move(bytes);
  }
  return disk;
}

void begin(benchmark::State& state) {
  testing::SimDisk disk = disk_with(static_cast<std::uint64_t>(state.range(0)));
  for (auto run : state) {
    testing::SimJournal journal(disk);
    auto all = recover(journal, {}, 0);
    if (!all || all->holders != static_cast<std::size_t>(state.range(0))) std::abort();
    // A server that begins frees nothing.
    state.PauseTiming();
    { const Recovered gone = *std::move(all); }
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(begin)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace holdfast::server
