// The content of a timeline as data: rows of owners with bars and marks, and the boxes and bands
// over them.
//
// Guarantee: every violation that touches the window is in `boxes`. `notes` names everything that
// is left out. Complexity: O(n log n) for n events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/history/history.h"

namespace holdfast::lab {

struct PictureLimits {
  std::size_t bars = 150;
  std::size_t rows = 30;
};

enum class BarKind : std::uint8_t { kExclusive, kShared, kPermits, kWaiting };
enum class MarkKind : std::uint8_t { kDeath, kLost, kBusy, kAccepted, kRefused };

struct Bar {
  BarKind kind = BarKind::kWaiting;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string label{};  // Short text inside the bar, if it fits.
  std::string title{};  // The full text.
};

struct Mark {
  MarkKind kind = MarkKind::kDeath;
  std::int64_t at = 0;
  std::string title{};
};

struct Row {
  std::uint32_t lock = 0;
  std::uint64_t owner = 0;
  std::string label{};
  std::vector<Bar> bars{};
  std::vector<Mark> marks{};
};

// A fault, or a change of incarnation, over all rows.
struct Band {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool incarnation = false;
  std::string label{};
};

struct Box {
  std::size_t number = 0;  // The violation's number in the verdict, from 1.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<std::size_t> rows{};  // Ascending; empty if it concerns no drawn row.
  std::string title{};
};

struct Picture {
  std::vector<std::string> locks;
  std::vector<Row> rows;  // By lock, then by owner.
  std::vector<Band> bands;
  std::vector<Box> boxes;
  std::vector<std::string> notes;
  std::int64_t zero = 0;  // Stamp of the first event, at which the axis begins.
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// `names` are those of processes; a process without a name has its number.
Picture make_picture(const History& history, const Verdict& verdict,
                     const std::map<std::uint32_t, std::string>& names,
                     const PictureLimits& limits = {});

}  // namespace holdfast::lab
