#include "lab/runner/matrix.h"

#include <unistd.h>

#include <utility>

#include "lab/scenario/topology.h"

namespace holdfast::lab {
namespace {

using Nemeses = std::vector<NemesisSpec>;

// Some of everything: short holds, readers, permits, several locks, careless writers, leaders.
std::vector<WorkloadSpec> mixed(bool one_process) {
  const std::int64_t owners = one_process ? 3 : 1;
  // Two candidates of one process share a session, so each may hear of the other's grants.
  const std::int64_t several = one_process ? 3 : 2;
  return {{.kind = "contend", .owners = several, .locks = 2, .cancels_percent = 30},
          {.kind = "contend", .owners = owners, .locks = 1, .hold = 1ms, .think = 1ms},
          {.kind = "long-hold", .owners = owners, .locks = owners == 1 ? 3 : 2, .hold = 600ms},
          {.kind = "readers-writers", .owners = owners, .locks = 1},
          {.kind = "permits", .owners = owners, .locks = 1},
          {.kind = "nested", .owners = owners, .locks = 3},
          {.kind = "multi", .owners = owners, .locks = 3},
          {.kind = "contend", .owners = owners, .locks = 1, .cancels_percent = 20},
          {.kind = "guarded", .owners = owners, .locks = 1, .hold = 100ms, .careful = false},
          {.kind = "election", .owners = owners, .locks = 1, .hold = 1s}};
}

// For cells with a required violation: leases are long, and there is always a holder and a waiter.
std::vector<WorkloadSpec> believers() {
  return {{.kind = "contend", .owners = 3, .locks = 4, .ttl = 2s, .hold = 1500ms}};
}

// Leases that depend on renewals.
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

// Readers, permits, and a leader's value.
void leave_exclusive(std::vector<WorkloadSpec>& work) {
  std::erase_if(work, [](const WorkloadSpec& each) {
    return each.kind == "readers-writers" || each.kind == "permits" || each.kind == "election";
  });
}

std::vector<WorkloadSpec> work_named(const std::string& name, bool one_process) {
  if (name == "believers") return believers();
  return name == "keepers" ? keepers() : mixed(one_process);
}

class Cells {
 public:
  explicit Cells(const Scenario& on) : on_(on), name_(on.store.kind) {
    const Topology* topology = on.topology.get();
    if (topology == nullptr) return;
    name_ = topology->name;
    one_process_ = topology->one_process;
    exclusive_only_ = topology->exclusive_only;
    on_.store.proxy = topology->has_proxies();
  }

  Scenario& add(const std::string& name, Nemeses nemeses) {
    Scenario& cell = cells_.emplace_back(on_);
    cell.name = name_ + "-" + name;
    cell.clients.processes = one_process_ ? 1 : 4;
    cell.workloads = mixed(one_process_);
    if (exclusive_only_) leave_exclusive(cell.workloads);
    cell.nemeses = std::move(nemeses);
    return cell;
  }

  // Replaces a cell of the same name.
  void add(const Cell& own) {
    Scenario cell = own.what;
    cell.name = name_ + "-" + own.what.name;
    std::erase_if(cells_, [&](const Scenario& other) { return other.name == cell.name; });
    cell.seed = on_.seed;
    cell.topology = on_.topology;
    cell.store.kind = on_.store.kind;
    cell.store.topology = on_.store.topology;
    if (cell.workloads.empty()) {
      cell.workloads = work_named(own.work, one_process_);
      if (exclusive_only_) leave_exclusive(cell.workloads);
    }
    cells_.push_back(std::move(cell));
  }

  bool one_process() const { return one_process_; }

  std::vector<Scenario> take() && { return std::move(cells_); }

 private:
  Scenario on_;
  std::string name_;
  bool one_process_ = false;
  bool exclusive_only_ = false;
  std::vector<Scenario> cells_;
};

void add_clients_faults(Cells& cells) {
  cells.add("calm", {});
  cells.add("kill", {often("kill", 700ms, 200ms)});
  cells.add("pause", {often("pause", 500ms, 1300ms)});
  // With one process, a pause has to fit between two kills.
  cells.add("kill-pause", {often("kill", cells.one_process() ? 2500ms : 1s, 200ms),
                           often("pause", 500ms, 1300ms)});
  cells.add("starve", {often("starve", 3s, 1s)}).workloads = keepers();
}

constexpr char kServerClock[] = "server-clock";
constexpr char kIsolate[] = "isolate";  // The cell and its nemesis.

// Jumps of wall clocks must not matter.
void add_clocks(Cells& cells, const Topology& topology) {
  NemesisSpec ahead = often("clock-jump", 3s, 1s);
  ahead.delay = 1h;
  NemesisSpec back = ahead;
  back.first = 2s;
  back.delay = -1h;
  const Nemeses jumps = {ahead, back, often("kill", 2s, 200ms)};
  cells.add("clock", jumps).store.clock = true;
  if (topology.server) {
    if (topology.fixed_clock.empty()) cells.add(kServerClock, jumps).store.server_clock = true;
    return;
  }
  Scenario& chaos = cells.add("chaos", {often("kill", 1s, 200ms), often("pause", 700ms, 1300ms),
                                        ahead, back, often("starve", 4s, 500ms)});
  chaos.duration = 24s;
  chaos.store.clock = true;
}

void add_disk(Cells& cells) {
  cells.add("disk-full", {often("disk-full", 2s, 1s), often("kill", 2s, 200ms)}).store.disk_mb = 4;
}

void add_network(Cells& cells) {
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
}

// `prefix` marks an unusual size.
void add_servers(Cells& cells, const Topology& topology, const std::string& prefix,
                 std::int64_t nodes) {
  const bool durable = !topology.server->durable.empty();
  const auto with = [&](Scenario& cell, bool restarts) {
    cell.store.nodes = nodes;
    cell.store.durable = restarts && durable;
  };
  with(cells.add(prefix + "server-pause", {often("server-pause", 2s, 700ms)}), false);
  const bool restarts = topology.can_restart(durable);
  if (restarts) with(cells.add(prefix + "restart", {often("restart", 3s, 300ms)}), true);
  const std::int64_t size = nodes > 0 ? nodes : topology.usual_nodes();
  if (size > 1 && !topology.server->leader.empty()) {
    for (const std::string role : {"leader", "follower"}) {
      const auto add = [&](const std::string& name, NemesisSpec what) -> Scenario& {
        what.target = role;
        Scenario& cell =
            cells.add(std::string(prefix).append(role).append("-").append(name), {what});
        with(cell, what.kind == "restart");
        return cell;
      };
      add("pause", often("server-pause", 2500ms, 1500ms));
      if (restarts) add("kill", often("restart", 4s, 1s));
      if (topology.has_proxies()) add("partition", often("partition", 2500ms, 1500ms));
      if (topology.can_be_isolated(size)) {
        Scenario& alone = add(kIsolate, often(kIsolate, 6s, 2500ms));
        alone.duration = 24s;
        alone.store.network = true;
      }
    }
  }
  if (size > 1 && topology.has_proxies()) {
    // Each node in turn is unreachable for everybody.
    NemesisSpec node = often("partition", 1500ms, 1200ms);
    node.target = "node any";
    with(cells.add(prefix + "partition-node", {node}), false);
  }
  if (!topology.server->move.empty()) {
    with(cells.add(prefix + "move", {often("move", 1500ms, 700ms)}), false);
    with(cells.add(prefix + "move-kill-pause",
                   {often("move", 1500ms, 700ms), often("kill", 1s, 200ms),
                    often("pause", 1500ms, 1300ms)}),
         false);
  }
  Nemeses all = {often("kill", 1500ms, 200ms),   often("pause", 1s, 1300ms),
                 often("partition", 2s, 1200ms), often("hold", 1500ms, 1s),
                 often("duplicate", 1s, 400ms),  often("drop-replies", 2s, 500ms),
                 often("reset", 1s, 300ms),      often("server-pause", 3s, 700ms)};
  if (!topology.has_proxies()) {
    std::erase_if(all, [](const NemesisSpec& each) {
      return each.kind != "kill" && each.kind != "pause" && each.kind != "server-pause";
    });
  }
  if (restarts) all.push_back(often("restart", 4s, 300ms));
  Scenario& chaos = cells.add(prefix + "chaos", std::move(all));
  chaos.duration = 24s;
  with(chaos, restarts);
}

void add_what_it_can(Cells& cells, const Topology& topology) {
  if (topology.has_proxies()) add_network(cells);
  if (topology.server) {
    const std::vector<std::int64_t>& sizes = topology.server->nodes;
    add_servers(cells, topology, "", 0);
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      const std::string prefix = std::to_string(sizes[i]) + "-nodes-";
      cells.add(prefix + "kill-pause", {often("kill", 1s, 200ms), often("pause", 500ms, 1300ms)})
          .store.nodes = sizes[i];
      if (topology.has_proxies()) {
        cells.add(prefix + "partition", {often("partition", 1s, 1200ms)}).store.nodes = sizes[i];
      }
      add_servers(cells, topology, prefix, sizes[i]);
    }
  }
  if (topology.wall_clock == "clients") add_clocks(cells, topology);
  if (topology.disk) add_disk(cells);
  for (const Cell& own : topology.cells) cells.add(own);
}

std::vector<Scenario> every_cell(const Scenario& on) {
  Cells cells(on);
  add_clients_faults(cells);
  if (on.topology != nullptr) add_what_it_can(cells, *on.topology);
  return std::move(cells).take();
}

// Why this user may not run the cell; empty if it may be run.
std::string denied(const Scenario& cell) {
  if (::geteuid() == 0) return {};
  if (cell.store.network) return "only root may make a network between servers";
  return cell.store.disk_mb > 0 ? "only root may mount a disk for the store" : "";
}

}  // namespace

std::vector<Scenario> matrix_cells(const Scenario& on) {
  std::vector<Scenario> cells = every_cell(on);
  std::erase_if(cells, [](const Scenario& cell) { return !denied(cell).empty(); });
  return cells;
}

std::vector<SkippedCell> skipped_cells(const Scenario& on) {
  std::vector<SkippedCell> skipped;
  const Topology* topology = on.topology.get();
  const bool clocked = topology != nullptr && topology->server && topology->wall_clock == "clients";
  if (clocked && !topology->fixed_clock.empty()) {
    skipped.push_back({topology->name + "-" + kServerClock, topology->fixed_clock});
  }
  for (const Scenario& cell : every_cell(on)) {
    const std::string why = denied(cell);
    if (!why.empty()) skipped.push_back({cell.name, why});
  }
  return skipped;
}

}  // namespace holdfast::lab
