// Topology files of the lab.

#include "tests/fuzz/target.h"

#include "lab/scenario/placeholders.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::fuzz::lab_topology {

void run(std::string_view input) {
  const auto read = lab::read_topology(std::string(input), "file.toml");
  if (!read) {
    demand(read.error().code() == Errc::kInvalidArgument, "a topology is refused as invalid");
    demand(read.error().message().find("file.toml") != std::string::npos, "it names the file");
    return;
  }
  const lab::Topology& topology = **read;
  demand(!topology.name.empty() && !topology.url.empty(), "a store has a name and an address");
  demand(topology.text == input, "the file is kept as it was");
  const lab::Values values = {{"port", "1"}, {"hosts", "h:1"}, {"folder", "/f"}};
  demand(lab::placeholders(lab::filled(topology.url, values)).empty(),
         "clients are told nothing that is not known");
  for (const lab::Cell& cell : topology.cells) {
    demand(!cell.what.name.empty() && cell.what.duration > cell.what.calm, "a cell can be run");
    demand(cell.what.store.nodes == 0 || topology.server, "nodes are nodes of a server");
  }
  if (!topology.server) return;
  demand(!topology.server->command.empty(), "a server is started somehow");
  demand(topology.usual_nodes() >= 1 && topology.usual_nodes() <= 9, "there are some nodes");
}

}  // namespace holdfast::fuzz::lab_topology

HOLDFAST_FUZZ_TARGET(lab_topology)
