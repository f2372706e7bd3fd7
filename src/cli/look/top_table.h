// `top`'s table as lines of text. Pure, so that every width and order is tested without a terminal.
//
// Guarantee: all text of other processes is made safe for a terminal; no line is wider than asked.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

// A holder or a waiter. All text is safe to print.
struct TopRow {
  std::string name;
  std::string what;  // "holds", "waits 2"
  std::string mode;
  std::string who;
  std::string host;
  std::string pid;
  std::string age;   // Since it asked, by its own clock.
  std::string left;  // The lease's rest.
  std::string token;
  std::string queue;  // How many wait for the lock.
  std::string why;
};

struct TopSummary {
  std::size_t locks = 0;
  std::size_t holders = 0;
  std::size_t waiters = 0;
};

TopSummary summary_of(const std::vector<LockInfo>& locks);

// The locks in that order; holders of one before its waiters, those in queue order.
std::vector<TopRow> top_rows(std::vector<LockInfo> locks, TopSort sort,
                             std::chrono::system_clock::time_point now);

// The head and one line per row. `width`: columns that do not fit are left out, the least important
// first, and the last one is cut; 0: all of it.
std::vector<std::string> top_lines(const std::vector<TopRow>& rows, std::size_t width);

// Whole code points, as many as fit.
std::string clipped(const std::string& text, std::size_t width);

std::string sort_word(TopSort sort);
TopSort next_sort(TopSort sort);

}  // namespace holdfast::cli
