// The program's output: errors on stderr, tables and JSON on stdout.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/errc.h"
#include "holdfast/log_event.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

// Writes the line unless its reader does not read: a reader must never hold up a lock. Waits for a
// twentieth of a second at most, also when others keep the pipe full or Ctrl-S stops the terminal.
// False: it was dropped (errno is EAGAIN), or cannot be written.
bool write_unless_stuck(int fd, const std::string& line);

// As above; how much of it was written.
std::size_t write_until_stuck(int fd, std::string_view text);

// "holdfast: ..." on stderr, made safe for a terminal by the caller where text is foreign.
void complain(const std::string& message);
// The same of what the library tells.
void relay(const LogEvent& event);
// This is for an exception that ended a command.
void complain_of(const std::exception& error);
// From now on, where nobody catches an exception for want of memory, as on a thread, the program
// ends with kExitError and a message.
void end_without_memory_plainly();
// From now on what is said on stderr is said like that. Before any thread is made.
void set_log_format(LogFormat format);

// Whether this host or user ran out of something, threads for instance. The store was not asked
// then.
bool is_own_want(const Error& error);

// The library's sentence, the store it is about, and a next step where the sentence has none.
std::string explain(const Error& error, const std::string& store);

// Standard output, so that a full disk or a closed descriptor is an error and never silence.
void print(std::string_view text);
bool flush_output();

// stdout is a terminal that wants colour (NO_COLOR and TERM=dumb are respected).
bool colour_wanted();

// Columns of the terminal that stdout is; 0: it is none, or does not tell.
std::size_t terminal_width();

// A table with aligned columns. A cell may have several lines.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // `width`: cells are wrapped between words, so that a line has at most so many columns as far as
  // words allow. 0: one line per row; the lines of a cell are joined by spaces.
  std::string to_string(bool colour, std::size_t width) const;

 private:
  std::vector<std::size_t> fit(std::size_t width) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace holdfast::cli
