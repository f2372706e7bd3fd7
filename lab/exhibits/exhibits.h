// The classic mistakes with locks, each played against a real store and caught by the checker, and
// with ids, each caught by a duplicate.
//
// docs/guide/seven-ways-to-get-it-wrong.md is the tour. Each exhibit is a script of a few processes
// (lab/exhibits/player.h); beside the mistake the same script is played with Holdfast's own lock,
// where that store is one of Holdfast's.
//
// Thread-safety: one exhibit at a time. Errors: std::runtime_error (no store, a process died).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/checker/expected.h"
#include "lab/exhibits/given_ids.h"
#include "lab/exhibits/play.h"
#include "lab/history/history.h"

namespace holdfast::lab {

// The count of an exhibit without a violation: failed requests out of all. The mistake is seen if
// more than two thirds fail; with Holdfast at most two thirds may.
struct Tally {
  std::size_t failed = 0;
  std::size_t requests = 0;
};

struct Exhibit {
  std::string_view name;             // Its name on the command line.
  std::string_view store = "redis";  // Or "sqlite", "redis + sqlite".
  std::string_view wrong;            // In a few words.
  std::string_view story;            // A paragraph.
  Expectations mistake{};
  std::string_view rule = "two-beliefs";  // The checker's rule that must catch it.
  std::optional<Expectations> beside{};   // Holdfast's; none if it is not played with Holdfast.
  std::string_view alone{};               // The reason for that.
  std::function<void(Play&)> script{};
  CheckOptions check{};
  std::function<Tally(Play&)> tally{};  // Used instead of a script.
  // Used instead of a script: the mistake must give an id twice, and Holdfast none.
  std::function<GivenIds(Play&)> ids{};
  // Why its server is missing here; not set if Redis and SQLite are enough.
  std::function<std::optional<std::string>()> unavailable{};

  std::optional<std::string> why_not() const { return unavailable ? unavailable() : std::nullopt; }
};

const std::vector<Exhibit>& exhibits();

struct Performance {
  History history;
  Verdict verdict;
  std::map<std::uint32_t, std::string> names;
  Tally tally;
  GivenIds ids;
  bool as_expected = false;
  double seconds = 0;
};

Performance perform(const Exhibit& exhibit, House& house, bool beside);

}  // namespace holdfast::lab
