// The programs that a topology names.
//
// A program is looked up in PATH, unless the environment variable of its name says otherwise: for
// some-server that is HOLDFAST_SOME_SERVER, a path or a command line.
// Errors: std::runtime_error, with what is missing; CommandFailed, with the end of what it said.
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

// Runs it to its end, which must be 0 and within `limit`. `waiting` is called meanwhile; it may
// throw. Its children are ended with it.
std::string run_command(const Words& command, milliseconds limit,
                        const std::function<void()>& waiting = {});
// The end of a file, and how much of it is shown.
inline constexpr std::size_t kOfWhatWasSaid = 4000;
std::string tail_of(const std::string& file, std::size_t most = kOfWhatWasSaid);

// The command with its program found.
Words found_command(const Topology& topology, const Words& command);
// Finds each program of the topology, so that what is missing is known before anything runs.
void find_programs(const Topology& topology);
// "7.0.15"; empty: it says none.
std::string version_of(const Topology& topology);

}  // namespace holdfast::lab
