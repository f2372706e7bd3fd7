// A history as text: one event a line, readable by people and by line tools.
//
//   holdfast-history 1
//   limits 3000000000 5000000000 yes 0  wake and grace in ns, busy, lingers; perhaps "extends",
//                                       and perhaps "unfenced"
//   lock orders/42                      the locks in the order of their numbers, then the targets
//   target redis-1
//   1000 acquire invoke p=1 call=7 ttl=30000000000
//   2500 acquire return p=1 call=7 outcome=granted id=0000...2a token=0.17 deadline=29000000000
//   end 2                               how many events there were
//
// A line has a stamp, a kind, a phase, and the fields that differ from their default. A name takes
// the rest of its line, including spaces. Empty lines and lines that begin with # are ignored.
//
// Guarantee: read() gives back what write() has written. read() refuses truncated histories and
// everything that it does not understand entirely; the error names the line.
// Not guaranteed: that the events fit together; the checker judges that. Complexity: linear.
// TextWriter and TextReader hold one line at a time.
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
  // The history, if it was complete.
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

// The longest accepted line and the longest accepted text.
inline constexpr std::size_t kLongestLine = std::size_t{64} << 10U;
inline constexpr std::uint64_t kLongestText = std::uint64_t{2} << 30U;
Result<History> read(std::istream& in);

}  // namespace holdfast::lab
