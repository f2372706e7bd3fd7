// The programs that a topology names.
//
// A program is looked up in PATH, unless an environment variable names it: for some-server this is
// HOLDFAST_SOME_SERVER, a path or a command line.
// Errors: std::runtime_error names the missing program; CommandFailed has the end of the output.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include "lab/scenario/topology.h"

namespace holdfast::lab {

class CommandFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs the command, which must exit with 0 within `limit`. Calls `waiting` meanwhile, which may
// throw. The command's children end with it.
std::string run_command(const Words& command, milliseconds limit,
                        const std::function<void()>& waiting = {});
// How many bytes of the end of an output are shown.
inline constexpr std::size_t kOfWhatWasSaid = 4000;
std::string tail_of(const std::string& file, std::size_t most = kOfWhatWasSaid);

// The command with the full path of its program.
Words found_command(const Topology& topology, const Words& command);
// Finds every program of the topology, so that a missing one is known before anything runs.
void find_programs(const Topology& topology);
// "7.0.15"; empty if the program prints none.
std::string version_of(const Topology& topology);

}  // namespace holdfast::lab
