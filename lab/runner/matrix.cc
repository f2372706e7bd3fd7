#include "lab/runner/matrix.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace holdfast::lab {
namespace {

using Nemeses = std::vector<NemesisSpec>;

// Some of everything: short holds, readers, permits, several locks, careless writers, leaders.
std::vector<WorkloadSpec> mixed(bool one_process) {
  const std::int64_t owners = one_process ? 3 : 1;
  return {{.kind = "contend", .owners = owners, .locks = 2, .cancels_percent = 30},
          {.kind = "contend", .owners = owners, .locks = 1, .hold = 1ms, .think = 1ms},
          {.kind = "long-hold", .owners = owners, .locks = owners == 1 ? 3 : 2, .hold = 600ms},
          {.kind = "readers-writers", .owners = owners, .locks = 1},
          {.kind = "permits", .owners = owners, .locks = 1},
          {.kind = "nested", .owners = owners, .locks = 3},
          {.kind = "multi", .owners = owners, .locks = 3},
          {.kind = "contend", .owners = owners, .locks = 1, .cancels_percent = 20, .barging = true},
          {.kind = "guarded", .owners = owners, .locks = 1, .hold = 100ms, .careful = false},
          {.kind = "election", .owners = owners, .locks = 1, .hold = 1s}};
}

// Where a violation has to be seen: leases are long, and always somebody holds and somebody waits.
std::vector<WorkloadSpec> believers() {
  return {{.kind = "contend", .owners = 3, .locks = 4, .ttl = 2s, .hold = 1500ms}};
}

// Leases that live on renewals.
std::vector<WorkloadSpec> keepers() {
  return {{.kind = "long-hold",
           .owners = 2,
           .locks = 2,
           .ttl = 500ms,
           .hold = 1s,
           .renews_percent = 10},
          {.kind = "election", .owners = 1, .locks = 1, .ttl = 500ms, .hold = 2s}};
}

NemesisSpec often(const std::string& kind, milliseconds every, milliseconds lasts) {
  NemesisSpec spec;
  spec.kind = kind;
  spec.every = every;
  spec.lasts = lasts;
  return spec;
}

class Cells {
 public:
  Cells(StoreSpec store, std::uint64_t seed) : store_(std::move(store)), seed_(seed) {}

  Scenario& add(const std::string& name, Nemeses nemeses) {
    Scenario& cell = cells_.emplace_back();
    cell.name = store_.kind + "-" + name;
    cell.seed = seed_;
    cell.store = store_;
    cell.clients.processes = store_.kind == "memory" ? 1 : 4;
    cell.workloads = mixed(store_.kind == "memory");
    cell.nemeses = std::move(nemeses);
    return cell;
  }
  Scenario& add_unsafe(const std::string& name, Nemeses nemeses) {
    Scenario& cell = add(name, std::move(nemeses));
    cell.duration = 20s;
    cell.workloads = believers();
    cell.expect[static_cast<std::size_t>(Class::kV1)] = Expected::kMust;
    return cell;
  }

  std::vector<Scenario> take() && { return std::move(cells_); }

 private:
  const StoreSpec store_;
  const std::uint64_t seed_;
  std::vector<Scenario> cells_;
};

void add_clients_faults(Cells& cells) {
  cells.add("calm", {});
  cells.add("kill", {often("kill", 700ms, 200ms)});
  cells.add("pause", {often("pause", 500ms, 1300ms)});
  cells.add("kill-pause", {often("kill", 1s, 200ms), often("pause", 500ms, 1300ms)});
  cells.add("starve", {often("starve", 3s, 1s)}).workloads = keepers();
}

void add_sqlite(Cells& cells) {
  NemesisSpec ahead = often("clock-jump", 3s, 1s);
  ahead.delay = 1h;
  NemesisSpec back = ahead;
  back.first = 2s;
  back.delay = -1h;
  cells.add("clock", {ahead, back, often("kill", 2s, 200ms)}).store.clock = true;
  Scenario& chaos = cells.add("chaos", {often("kill", 1s, 200ms), often("pause", 700ms, 1300ms),
                                        ahead, back, often("starve", 4s, 500ms)});
  chaos.duration = 24s;
  chaos.store.clock = true;
  if (::geteuid() != 0) return;
  cells.add("disk-full", {often("disk-full", 2s, 1s), often("kill", 2s, 200ms)}).store.disk_mb = 4;
}

void add_redis(Cells& cells) {
  NemesisSpec to_server = often("partition", 1500ms, 800ms);
  to_server.direction = "to-server";
  NemesisSpec to_client = to_server;
  to_client.direction = "to-client";
  NemesisSpec everybody = often("partition", 3s, 1s);
  everybody.target = "all";
  NemesisSpec delay = often("delay", 1500ms, 1s);
  delay.delay = 150ms;
  NemesisSpec loss = often("loss", 500ms, 300ms);
  loss.delay = 200ms;
  cells.add("partition", {often("partition", 1s, 1200ms)});
  cells.add("partition-all", {everybody});
  cells.add("partition-to-server", {to_server});
  cells.add("partition-to-client", {to_client});
  cells.add("blackhole", {often("blackhole", 1500ms, 1s)});
  cells.add("delay", {delay});
  cells.add("loss", {loss});
  cells.add("hold", {often("hold", 1s, 1500ms)});
  cells.add("reorder", {often("reorder", 300ms, 100ms)});
  cells.add("duplicate", {often("duplicate", 600ms, 400ms)});
  cells.add("drop-replies", {often("drop-replies", 1s, 500ms)});
  cells.add("split", {often("split", 1s, 600ms)});
  cells.add("reset", {often("reset", 600ms, 300ms)});
  cells.add("kill-pause-partition", {often("kill", 1s, 200ms), often("pause", 1500ms, 1500ms),
                                     often("partition", 1500ms, 1200ms)});
  cells.add("server-pause", {often("server-pause", 2s, 700ms)});
  Scenario& restart = cells.add("restart", {often("restart", 3s, 300ms)});
  restart.store.appendonly = true;
  Scenario& chaos = cells.add(
      "chaos",
      {often("kill", 1500ms, 200ms), often("pause", 1s, 1300ms), often("partition", 2s, 1200ms),
       often("hold", 1500ms, 1s), often("duplicate", 1s, 400ms), often("drop-replies", 2s, 500ms),
       often("reset", 1s, 300ms), often("server-pause", 3s, 700ms), often("restart", 4s, 300ms)});
  chaos.duration = 24s;
  chaos.store.appendonly = true;
  cells.add_unsafe("restart-empty", {often("restart-empty", 2500ms, 50ms)});
  NemesisSpec failover = often("failover", 10s, 4s);
  failover.first = 2s;
  cells.add_unsafe("failover", {failover}).store.replica = true;
  NemesisSpec ahead = often("clock-jump", 4s, 2s);
  ahead.delay = 5s;
  cells.add_unsafe("clock-ahead", {ahead}).store.clock = true;
}

}  // namespace

std::vector<Scenario> matrix_cells(const std::string& wanted, std::uint64_t seed) {
  // Of the memory store every process has its own, whatever the name.
  const std::string store = wanted.rfind("memory:", 0) == 0 ? "memory" : wanted;
  StoreSpec spec;
  spec.kind = store;
  if (store.find(':') != std::string::npos) {
    spec.kind = "url";
    spec.url = store;
  } else if (store != "memory" && store != "sqlite" && store != "redis") {
    return {};
  }
  spec.proxy = store == "redis";
  Cells cells(spec, seed);
  add_clients_faults(cells);
  if (store == "sqlite") add_sqlite(cells);
  if (store == "redis") add_redis(cells);
  return std::move(cells).take();
}

}  // namespace holdfast::lab
