#include "src/cli/look/top_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "holdfast/detail/utf8.h"
#include "src/cli/look/who.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/values.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using Instant = std::chrono::system_clock::time_point;

struct Column {
  const char* head;
  std::string TopRow::*cell;
  int worth;  // The columns of the least worth are left out first.
  bool right = false;
};

constexpr std::array<Column, 11> kColumns{{{"NAME", &TopRow::name, 10},
                                           {"STATE", &TopRow::what, 9},
                                           {"MODE", &TopRow::mode, 3},
                                           {"WHO", &TopRow::who, 8},
                                           {"HOST", &TopRow::host, 4},
                                           {"PID", &TopRow::pid, 5, true},
                                           {"FOR", &TopRow::age, 7, true},
                                           {"LEFT", &TopRow::left, 6, true},
                                           {"QUEUE", &TopRow::queue, 2, true},
                                           {"TOKEN", &TopRow::token, 1, true},
                                           {"REASON", &TopRow::why, 0}}};
constexpr std::size_t kGap = 2;
constexpr std::size_t kWidestName = 40;

std::string short_mode(const Mode& mode) {
  if (mode.kind() != Mode::Kind::kPermits) return mode_word(mode);
  return std::to_string(mode.count()) + "/" + std::to_string(mode.capacity());
}

// An owner without a start time sorts behind all others.
milliseconds age_of(const OwnerInfo& who, Instant now) {
  if (!knows_since(who)) return milliseconds(-1);
  return std::max(milliseconds(0), std::chrono::floor<milliseconds>(now - who.since));
}

// Sub-seconds only where they matter: a view that is drawn every second must not flicker.
std::string brief(milliseconds length) {
  if (length >= std::chrono::seconds(10)) length = std::chrono::floor<std::chrono::seconds>(length);
  return format_duration(length);
}

TopRow row_of(const LockInfo& lock, const OwnerInfo& who, const Mode& mode, Instant now) {
  TopRow row;
  row.name = printable(lock.name);
  row.mode = short_mode(mode);
  row.who = who_text(who);
  row.host = host_text(who);
  row.pid = pid_text(who);
  row.age = knows_since(who) ? brief(age_of(who, now)) : "-";
  row.left = "-";
  row.token = "-";
  row.queue = std::to_string(lock.waiters.size());
  row.why = printable(who.reason);
  if (!who.trace_id.empty()) {
    row.why += (row.why.empty() ? "trace " : "  trace ") + printable(who.trace_id);
  }
  return row;
}

milliseconds oldest(const LockInfo& lock, Instant now) {
  milliseconds most{-1};
  for (const HolderInfo& holder : lock.holders) most = std::max(most, age_of(holder.who, now));
  for (const WaiterInfo& waiter : lock.waiters) most = std::max(most, age_of(waiter.who, now));
  return most;
}

milliseconds least_left(const LockInfo& lock) {
  milliseconds least = milliseconds::max();
  for (const HolderInfo& holder : lock.holders) {
    least = std::min(least, left_of(holder.who, holder.time_left).value_or(least));
  }
  return least;
}

void sort_locks(std::vector<LockInfo>& locks, TopSort sort, Instant now) {
  std::stable_sort(locks.begin(), locks.end(), [&](const LockInfo& a, const LockInfo& b) {
    switch (sort) {
      case TopSort::kName: return a.name < b.name;
      case TopSort::kQueue: return a.waiters.size() > b.waiters.size();
      case TopSort::kAge: return oldest(a, now) > oldest(b, now);
      case TopSort::kLeft: return least_left(a) < least_left(b);
    }
    return false;
  });
}

// The columns that are shown, with their widths.
struct Layout {
  std::vector<std::pair<const Column*, std::size_t>> columns;

  std::size_t width() const {
    std::size_t sum = columns.empty() ? 0 : (columns.size() - 1) * kGap;
    for (const auto& column : columns) sum += column.second;
    return sum;
  }
};

Layout layout_of(const std::vector<TopRow>& rows, std::size_t width) {
  Layout layout;
  for (const Column& column : kColumns) {
    std::size_t widest = columns(column.head);
    for (const TopRow& row : rows) widest = std::max(widest, columns(row.*column.cell));
    if (width > 0 && column.cell == &TopRow::name) widest = std::min(widest, kWidestName);
    layout.columns.emplace_back(&column, widest);
  }
  if (width == 0) return layout;
  // A reason may be cut; it stays while a little of it can be read.
  constexpr std::size_t kLeastReason = 12;
  layout.columns.back().second = std::min(layout.columns.back().second, kLeastReason);
  while (layout.width() > width && layout.columns.size() > 1) {
    layout.columns.erase(std::min_element(
        layout.columns.begin(), layout.columns.end(),
        [](const auto& a, const auto& b) { return a.first->worth < b.first->worth; }));
  }
  return layout;
}

std::string line_of(const Layout& layout, const TopRow* row, std::size_t width) {
  std::string out;
  for (const auto& [column, wide] : layout.columns) {
    std::string cell = row == nullptr ? column->head : row->*column->cell;
    const bool last = column == layout.columns.back().first;
    if (!out.empty()) out.append(kGap, ' ');
    if (width > 0 && !last && columns(cell) > wide) {
      cell = clipped(cell, wide - 1) + "~";  // Seen to be cut.
    }
    const std::size_t pad = wide > columns(cell) ? wide - columns(cell) : 0;
    if (column->right) out.append(pad, ' ');
    out += cell;
    if (!column->right && !last) out.append(pad, ' ');
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return width > 0 ? clipped(out, width) : out;
}

}  // namespace

TopSummary summary_of(const std::vector<LockInfo>& locks) {
  TopSummary sum;
  sum.locks = locks.size();
  for (const LockInfo& lock : locks) {
    sum.holders += lock.holders.size();
    sum.waiters += lock.waiters.size();
  }
  return sum;
}

std::vector<TopRow> top_rows(std::vector<LockInfo> locks, TopSort sort, Instant now) {
  sort_locks(locks, sort, now);
  std::vector<TopRow> rows;
  for (const LockInfo& lock : locks) {
    for (const HolderInfo& holder : lock.holders) {
      TopRow row = row_of(lock, holder.who, holder.mode, now);
      // Nobody counts on it any more.
      row.what = lock.opens_in() > Duration::zero() ? "lock-delay" : "holds";
      const auto left = left_of(holder.who, holder.time_left);
      if (left) row.left = brief(*left);
      row.token = token_text(holder.token);
      rows.push_back(std::move(row));
    }
    std::size_t place = 0;
    for (const WaiterInfo& waiter : lock.waiters) {
      TopRow row = row_of(lock, waiter.who, waiter.mode, now);
      row.what = "waits " + std::to_string(++place);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<std::string> top_lines(const std::vector<TopRow>& rows, std::size_t width) {
  const Layout layout = layout_of(rows, width);
  std::vector<std::string> lines{line_of(layout, nullptr, width)};
  for (const TopRow& row : rows) lines.push_back(line_of(layout, &row, width));
  return lines;
}

std::string clipped(const std::string& text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size();) {
    const std::string_view rest = std::string_view(text).substr(end);
    const std::size_t length = std::max<std::size_t>(detail::front_code_point(rest).length, 1);
    seen += columns(rest.substr(0, length));
    if (seen > width) break;
    end += length;
  }
  return text.substr(0, end);
}

std::string sort_word(TopSort sort) {
  switch (sort) {
    case TopSort::kName: return "name";
    case TopSort::kQueue: return "queue";
    case TopSort::kAge: return "age";
    case TopSort::kLeft: return "left";
  }
  return "name";
}

TopSort next_sort(TopSort sort) {
  switch (sort) {
    case TopSort::kName: return TopSort::kQueue;
    case TopSort::kQueue: return TopSort::kAge;
    case TopSort::kAge: return TopSort::kLeft;
    case TopSort::kLeft: return TopSort::kName;
  }
  return TopSort::kName;
}

}  // namespace holdfast::cli
