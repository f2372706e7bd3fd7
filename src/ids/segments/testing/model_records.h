// A store of records whose answers go astray: for the simulation and the tests of the segments.
//
// Each process has Records of its own over one ModelStore. Requests are refused, applied with a
// lost answer, applied late, or applied twice; while one is under way, others run (`meanwhile`).
// Copies of the data may be put back, and records may disappear.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/machine/testing/dice.h"
#include "src/port/records.h"

namespace holdfast::ids::testing {

struct ModelStore {
  using All = std::map<std::string, port::Record>;
  struct Change {
    int client = 0;
    std::string key{};
    std::optional<std::uint64_t> version{};  // nullopt: create.
    std::string text{};
  };

  explicit ModelStore(std::uint64_t seed) : dice(seed) {}

  machine::testing::Dice dice;
  All records{};
  std::deque<Change> late{};
  std::uint64_t changes = 0;
  bool versions_go_back = false;  // A copy that is put back counts its versions on from there.
  std::uint64_t faults = 0;       // In 100 requests.
  std::optional<std::chrono::milliseconds> wall_time{};
  std::function<void()> meanwhile{};
  // A change that was applied, with the text that it took the place of.
  std::function<void(const Change&, const std::string& before)> applied{};

  // The new version, or nullopt: refused.
  std::optional<std::uint64_t> apply(const Change& change);
  std::unique_ptr<port::Records> client(int number);
};

}  // namespace holdfast::ids::testing
