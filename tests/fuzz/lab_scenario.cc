// Scenario files of the lab.

#include <sstream>

#include "tests/fuzz/target.h"

#include "lab/scenario/files.h"

namespace holdfast::fuzz::lab_scenario {
namespace {

std::string written(const lab::Scenario& scenario) {
  std::ostringstream out;
  lab::write_scenario(scenario, out);
  return out.str();
}

// Nothing outside of the input is read.
Result<lab::TopologyPointer> open_topology(const std::string& path) {
  if (path.size() % 2 == 1) return Error(Errc::kUnavailable, "file.toml is not there");
  return lab::shipped_topology("redis");
}

Result<lab::Scenario> read(const std::string& text) {
  return lab::read_scenario(text, "file.toml", open_topology);
}

}  // namespace

void run(std::string_view input) {
  const auto scenario = read(std::string(input));
  if (!scenario) {
    demand(scenario.error().code() == Errc::kInvalidArgument, "a scenario is refused as invalid");
    demand(scenario.error().message().find("file.toml") != std::string::npos, "it names the file");
    return;
  }
  demand(!scenario->name.empty(), "a scenario has a name");
  demand(scenario->duration.count() > 0 && scenario->duration > scenario->calm,
         "there is time for harm before the calm");
  demand(scenario->clients.processes >= 1 && scenario->clients.processes <= 64, "somebody works");
  const std::string text = written(*scenario);
  const auto again = read(text);
  demand(again.has_value(), "what was written is read");
  demand(written(*again) == text, "and is the same");
}

}  // namespace holdfast::fuzz::lab_scenario

HOLDFAST_FUZZ_TARGET(lab_scenario)
