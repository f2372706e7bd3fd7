// A history as text: one event a line, readable by people and by line tools.
//
//   holdfast-history 1
//   limits 3000000000 5000000000 yes 0  wake and grace in ns, busy, lingers; left out: not said
//   lock orders/42                      the locks in the order of their numbers, then the targets
//   target redis-1
//   1000 acquire invoke p=1 call=7 ttl=30000000000
//   2500 acquire return p=1 call=7 outcome=granted id=0000...2a token=0.17 deadline=29000000000
//   end 2                               how many events there were
//
// A line is a stamp, a kind, a phase, and fields that are not at their default. Names are on the
// line whole, spaces included. Empty lines and lines that begin with # mean nothing.
//
// Guarantee: what write() wrote, read() gives back equal. read() takes nothing that it does not
// understand entirely, nor what was cut off: the error names the line.
// Not guaranteed: that the events make sense together; that is the checker's to say.
// Complexity: linear. TextWriter and TextReader hold one line at a time.
// Errors: kInvalidArgument (malformed), kVersionMismatch (another version).
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>

#include "holdfast/result.h"

#include "lab/history/history.h"

namespace holdfast::lab {

inline constexpr int kTextVersion = 1;

// One event as a line without its end.
std::string to_line(const Event& event);

void write(const History& history, std::ostream& out);

// Takes a history line by line.
class TextReader {
 public:
  Result<void> take(std::string_view line);
  // The history, when it was whole.
  Result<History> finish() &&;

 private:
  Result<void> take_limits(std::string_view line);
  Result<void> take_name(std::string_view line);
  Result<void> take_event(std::string_view line);
  Result<void> take_end(std::string_view line);
  Error malformed(const std::string& why) const;

  History history_;
  std::size_t line_ = 0;
  bool headed_ = false;
  bool ended_ = false;
};

// Takes no longer line, and no longer text in all.
inline constexpr std::size_t kLongestLine = std::size_t{64} << 10U;
inline constexpr std::uint64_t kLongestText = std::uint64_t{2} << 30U;
Result<History> read(std::istream& in);

}  // namespace holdfast::lab
