// One run: starts the store and the clients, injects faults, collects the history, and judges it
// against the scenario's expectations.
//
// Guarantee: when run() returns or throws, everything that it started is gone: processes, servers,
// files.
// Blocking: for the scenario's duration, plus some seconds for start and end.
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
  std::function<bool()> interrupted{};              // Called again and again; true ends the run.
};

// The run ended early, so there is no verdict.
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
  std::uint32_t processes = 0;  // Client processes, including restarted ones.
  std::size_t faults = 0;
  std::vector<std::size_t> idle{};  // Indexes in Scenario::nemeses of those that never struck.
  std::size_t stalls = 0;           // Times that the host itself stood still.
  std::size_t torn = 0;
  std::size_t stuck_processes = 0;  // Processes that had to be killed at the end.
  // Set if a server ended by itself or did not come back, which ended the run: the reason, and its
  // output.
  std::string failed_server{};
  std::string server_log_name{};
  std::string server_log{};

  // False also if a process did not end, if a server ended by itself, or if nobody passed the point
  // of a nemesis.
  bool as_expected() const;
  bool missed_a_point() const;
};

RunResult run(const Scenario& scenario, const RunOptions& options);

}  // namespace holdfast::lab
