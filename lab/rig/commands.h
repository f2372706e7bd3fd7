// The programs that a topology names.
//
// A program is looked up in PATH, unless the environment variable of its name says otherwise: for
// some-server that is HOLDFAST_SOME_SERVER, a path or a command line.
// Errors: std::runtime_error, with what is missing or what the program said.
#pragma once

#include <string>

#include "lab/scenario/topology.h"

namespace holdfast::lab {

// The command with its program found.
Words found_command(const Topology& topology, const Words& command);
// Finds each program of the topology, so that what is missing is known before anything runs.
void find_programs(const Topology& topology);
// "7.0.15"; empty: it says none.
std::string version_of(const Topology& topology);

}  // namespace holdfast::lab
