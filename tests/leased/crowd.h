// Processes that give ids of one namespace (id_giver.cc), and the ids of all that ever were.
//
// Thread-safety: one thread at a time. Blocking: what awaits is bounded by eventually()'s limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {

class Giver {
 public:
  // `clock_file`: that of a support::ClockShift, which its wall clock follows; empty: none.
  Giver(const std::vector<std::string>& arguments, std::string file, std::string log,
        const std::string& clock_file);

  support::ChildProcess& process() { return process_; }
  // The ids given so far, in their order.
  std::vector<std::uint64_t> ids() const;
  std::size_t count() const;
  std::string log() const;
  // The number of times that its log has this.
  std::size_t said(const std::string& part) const;

 private:
  const std::string file_;
  const std::string log_;
  support::ChildProcess process_;
};

using Givers = std::vector<Giver*>;

class Crowd {
 public:
  // `kind` and `lease`: as id_giver's.
  Crowd(std::string kind, std::string url, std::string name, std::chrono::milliseconds lease);

  Giver* start(const std::string& clock_file = {});
  Givers start_all(std::size_t count);

  // The file of each process has no id that it or another one has, and there are some.
  ::testing::AssertionResult all_differ() const;
  // All that still run end in order.
  ::testing::AssertionResult end();

 private:
  const std::string kind_;
  const std::string url_;
  const std::string name_;
  const std::string lease_;
  support::TempFolder folder_{"ids"};
  std::vector<std::unique_ptr<Giver>> givers_;
};

// Stops each where it keeps nobody out of the store: outside of a transaction on a file.
::testing::AssertionResult stop_between_writes(const Givers& givers, const std::string& url);
// Until each has given so many ids more. A failure tells what the slowest one said.
::testing::AssertionResult give(const Givers& givers, std::size_t more);
// Until its log has this so many times.
::testing::AssertionResult says(Giver& giver, const std::string& part, std::size_t times = 1);
// Each id is above the one before it.
::testing::AssertionResult grow(const std::vector<std::uint64_t>& ids);

}  // namespace holdfast::testing
