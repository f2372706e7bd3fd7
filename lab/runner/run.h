// One run: the store and the clients are started, harm is done, the history is collected and
// judged against what the scenario expects.
//
// Guarantee: when run() returns or throws, all that it started is gone: processes, servers, files.
// Blocking: for the scenario's duration, and some seconds for starting and ending.
// Errors: std::runtime_error: the run itself failed, there is no verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/history/history.h"
#include "lab/scenario/scenario.h"
#include "lab/subject/subject.h"

namespace holdfast::lab {

struct Progress {
  milliseconds now{};
  milliseconds whole{};
  std::uint64_t events = 0;  // Recorded so far.
  std::size_t faults = 0;    // Begun so far.
  std::string active;        // The present fault.
};

struct RunOptions {
  std::string program;                              // holdfast-lab, to start the clients.
  std::function<void(const Progress&)> progress{};  // About once a second.
  std::function<bool()> interrupted{};              // Asked all the time; true ends the run.
};

// The run was ended before its time: there is no verdict.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

struct RunResult {
  Scenario scenario;
  std::string store;          // "redis".
  std::string store_version;  // "7.0.15".
  History history;
  Verdict verdict;
  std::uint32_t processes = 0;  // Client processes, restarts counted.
  std::size_t faults = 0;
  std::vector<std::size_t> idle{};  // Indexes in Scenario::nemeses of those that did nothing.
  std::size_t stalls = 0;           // Times that the host itself stood still.
  std::size_t torn = 0;
  std::size_t stuck_processes = 0;  // Had to be killed at the end.
  // A server that ended by itself, or did not come back, ended the run: why, and what it had said.
  std::string failed_server{};
  std::string server_log_name{};
  std::string server_log{};

  // A process that did not come to its end, and a server that did, are nothing that a run may show;
  // nor is a point that a nemesis waits for and nobody passes.
  bool as_expected() const;
  bool missed_a_point() const;
};

RunResult run(const Scenario& scenario, const RunOptions& options);

}  // namespace holdfast::lab
