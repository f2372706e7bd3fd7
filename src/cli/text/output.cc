#include "src/cli/text/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <system_error>

#include "holdfast/stores.h"
#include "src/cli/exit_codes.h"
#include "src/cli/process/fd.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

LogFormat log_format = LogFormat::kText;

constexpr char kNoMemory[] =
    "out of memory: this process may use no more (ulimit -v, a limit of its container or the "
    "host's memory)";

std::string_view next_step(Errc code) {
  switch (code) {
    case Errc::kUnavailable:
      return "Is it up and reachable? 'holdfast doctor' looks closer; retrying is safe.";
    case Errc::kOutcomeUnknown:
      return "'holdfast doctor' looks closer; 'holdfast inspect NAME' tells who holds it.";
    case Errc::kPermissionDenied: return "Fix that, or name another store with --store.";
    case Errc::kUnsupported: return "'holdfast doctor' lists what this store can do.";
    case Errc::kQueueFull: return "Try later.";
    case Errc::kStoreInUse: return "Stop those who use it first.";
    case Errc::kCorruptState: return "Look at it before you use it further.";
    case Errc::kVersionMismatch: return "Upgrade this holdfast.";
    case Errc::kLost:
    case Errc::kBroken:
      return "Somebody else may hold the lock now: stop touching what it protects.";
    case Errc::kTimedOut:
    case Errc::kCancelled:
    case Errc::kInvalidArgument:
    case Errc::kWouldDeadlock:
    case Errc::kClosed: return "";
  }
  return "";
}

constexpr std::size_t kGap = 2;         // Between the columns of a table.
constexpr std::size_t kNarrowest = 16;  // Narrower columns are not wrapped: little is won.
// A longer word does not widen its column. It stays whole, and moves the rest of its line only.
constexpr std::size_t kLongestWord = 64;

using Lines = std::vector<std::string>;

template <typename Use>
void for_each_part(std::string_view text, char separator, Use use) {
  for (;;) {
    const std::size_t end = text.find(separator);
    use(text.substr(0, end));
    if (end == text.npos) return;
    text.remove_prefix(end + 1);
  }
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Breaks at spaces only: what is copied from a table must stay whole.
Lines wrapped(const std::string& cell, std::size_t width) {
  Lines lines;
  for_each_part(cell, '\n', [&](std::string_view line) {
    lines.emplace_back();
    if (columns(line) <= width) return lines.back().assign(line), void();
    for_each_part(line, ' ', [&](std::string_view word) {
      if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > width) {
        lines.emplace_back();
      }
      if (!lines.back().empty()) lines.back() += ' ';
      lines.back() += word;
    });
  });
  return lines;
}

std::string row_text(const std::vector<Lines>& row, const std::vector<std::size_t>& widths) {
  std::size_t height = 0;
  for (const Lines& cell : row) height = std::max(height, cell.size());
  std::string out;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string text = y < row[i].size() ? row[i][y] : "";
      out += text;
      const std::size_t used = columns(text);
      if (i + 1 < row.size()) out.append(std::max(widths[i], used) - used + kGap, ' ');
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

constexpr std::string_view kOwnLimit = "This host, or a limit of it ('ulimit -a'), allows no more";

std::string next_step(const Error& error, const std::string& store) {
  if (is_own_want(error)) return std::string(kOwnLimit) + "; the store was not asked.";
  const StoreKind* const kind = store_of_url(store);
  const bool is_here = kind != nullptr && !kind->over_network;  // Neither up nor away.
  if (error.code() == Errc::kUnavailable && is_here) {
    return "'holdfast doctor' looks closer; retrying is safe.";
  }
  const bool is_service = kind != nullptr && kind->is_service;
  if (error.code() == Errc::kVersionMismatch && is_service) {
    return "'holdfast server status' shows whether its servers are of one service.";
  }
  if (error.code() == Errc::kOutcomeUnknown && is_service) {
    return "'holdfast server status' tells whether its servers and their journal answer; once they "
           "do, 'holdfast inspect NAME' tells who holds it.";
  }
  // The URL of a password with a '/', say: nothing of it is shown.
  if (store.ends_with("(not shown)")) {
    return "If a user or password has one of @ : / ? # %, write %40 %3A %2F %3F %23 %25 for it.";
  }
  return std::string(next_step(error.code()));
}

// Names a store as the library's sentences do, without the user and the options.
std::string place_of(const std::string& store) {
  std::string out = printable(store.substr(0, store.find('?')));
  const std::size_t slashes = out.find("://");
  const std::size_t at = out.find('@');
  if (slashes != out.npos && at < out.find('/', slashes + 3)) {
    out.erase(slashes + 3, at - slashes - 2);
  }
  return out;
}

// The next best, where there are no descriptors or rights for better.
ssize_t write_if_ready(int fd, std::string_view text) {
  pollfd ready{fd, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) return errno = EAGAIN, -1;
  return ::write(fd, text.data(), text.size());
}

// The command floods the same pipe: poll() says that there is room, and the next moment there is
// none. Only splice() heeds a flag of its own; O_NONBLOCK would be set for the command as well.
ssize_t splice_now(int pipe, std::string_view text) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return write_if_ready(pipe, text);
  const Fd out(ends[0]);
  const Fd in(ends[1]);
  // A new pipe has room for this.
  const ssize_t filled = ::write(in.get(), text.data(), text.size());
  if (filled <= 0) return filled;
  return ::splice(out.get(), nullptr, pipe, nullptr, static_cast<std::size_t>(filled),
                  SPLICE_F_NONBLOCK);
}

// A terminal that was stopped (Ctrl-S) blocks its writers. Opened once more, it does not block us.
ssize_t write_terminal_now(int fd, std::string_view text) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const Fd own(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own) return ::write(own.get(), text.data(), text.size());
  return write_if_ready(fd, text);  // It may belong to another user (su).
}

// write() that does not wait, on a descriptor that may wait and that others use as well.
ssize_t write_now(int fd, std::string_view text) {
  struct stat what {};
  if (::fstat(fd, &what) != 0) return -1;
  if (S_ISSOCK(what.st_mode)) {
    return ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (S_ISFIFO(what.st_mode)) return splice_now(fd, text);
  if (S_ISCHR(what.st_mode)) return write_terminal_now(fd, text);
  return ::write(fd, text.data(), text.size());
}

}  // namespace

std::size_t write_until_stuck(int fd, std::string_view text) {
  constexpr int kPatienceMs = 50;
  // A pipe that is ready has room for as much in one piece.
  constexpr std::size_t kPiece = 4096;
  std::size_t at = 0;
  bool waited = false;
  while (at < text.size()) {
    const ssize_t written = write_now(fd, text.substr(at, kPiece));
    if (written > 0) {
      at += static_cast<std::size_t>(written);
      waited = false;
    } else if (written < 0 && errno == EAGAIN) {
      // Another writer may be faster each time: one wait for each piece, not for each attempt.
      pollfd ready{fd, POLLOUT, 0};
      if (waited || ::poll(&ready, 1, kPatienceMs) == 0) return errno = EAGAIN, at;
      waited = true;
    } else if (written == 0 || errno != EINTR) {
      break;
    }
  }
  return at;
}

bool write_unless_stuck(int fd, const std::string& line) {
  return write_until_stuck(fd, line) == line.size();
}

void complain(const std::string& message) {
  LogEvent event;
  event.time = std::chrono::system_clock::now();
  event.severity = LogSeverity::kWarning;
  event.event = "message";
  event.text = message;
  relay(event);
}

void complain_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return complain(kNoMemory);
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const int code = system != nullptr ? system->code().value() : 0;
  if (code == EMFILE || code == ENFILE || code == EAGAIN || code == ENOMEM) {
    return complain(error.what() + std::string(". ").append(kOwnLimit));
  }
  complain(std::string("internal error: ") + error.what());
}

void end_without_memory_plainly() {
  static const std::terminate_handler before = std::set_terminate([] {
    if (const std::exception_ptr error = std::current_exception()) {
      try {
        std::rethrow_exception(error);
      } catch (const std::bad_alloc&) {
        // Nothing here may ask for memory.
        for (const std::string_view text : {"holdfast: ", kNoMemory, "\n"}) {
          if (::write(STDERR_FILENO, text.data(), text.size()) < 0) break;
        }
        ::_exit(kExitError);
      } catch (...) {
      }
    }
    before();
  });
}

void relay(const LogEvent& event) {
  switch (log_format) {
    case LogFormat::kText: write_unless_stuck(2, "holdfast: " + event.text + "\n"); return;
    case LogFormat::kJson: write_unless_stuck(2, json_line(event) + "\n"); return;
    case LogFormat::kLogfmt: write_unless_stuck(2, logfmt_line(event) + "\n"); return;
  }
}

void set_log_format(LogFormat format) { log_format = format; }

bool is_own_want(const Error& error) {
  return error.code() == Errc::kUnavailable && error.message().starts_with("cannot start ");
}

std::string explain(const Error& error, const std::string& store) {
  std::string out = printable(error.message());
  if (!store.empty() && !is_own_want(error) && out.find(place_of(store)) == std::string::npos) {
    out += " (store " + printable(shortened(store)) + ")";
  }
  const std::string step = next_step(error, store);
  if (step.empty()) return out;
  if (out.back() != '.') out += '.';
  return out + " " + step;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

bool flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  complain(std::string("cannot write to standard output: ") + std::strerror(errno));
  return false;
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return false;
  return ::isatty(STDOUT_FILENO) != 0;
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::vector<std::size_t> Table::fit(std::size_t width) const {
  std::vector<std::size_t> widths(rows_.front().size());
  std::vector<std::size_t> least(widths.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for_each_part(row[i], '\n', [&](std::string_view line) {
        widths[i] = std::max(widths[i], columns(line));
        for_each_part(line, ' ', [&](std::string_view word) {
          if (columns(word) <= kLongestWord) least[i] = std::max(least[i], columns(word));
        });
      });
    }
  }
  for (std::size_t i = 0; i < least.size(); ++i) {
    least[i] = std::max(least[i], std::min(widths[i], kNarrowest));
  }
  const std::size_t gaps = (widths.size() - 1) * kGap;
  while (std::accumulate(widths.begin(), widths.end(), gaps) > width) {
    auto widest = widths.end();
    for (auto at = widths.begin(); at != widths.end(); ++at) {
      if (*at <= least[static_cast<std::size_t>(at - widths.begin())]) continue;
      if (widest == widths.end() || *at > *widest) widest = at;
    }
    if (widest == widths.end()) break;
    --*widest;
  }
  return widths;
}

std::string Table::to_string(bool colour, std::size_t width) const {
  std::vector<std::vector<Lines>> cells;
  for (const auto& row : rows_) {
    cells.emplace_back();
    for (const std::string& cell : row) {
      cells.back().push_back(width > 0 ? Lines{cell} : Lines{one_line(cell)});
    }
  }
  std::vector<std::size_t> widths(rows_.front().size());
  if (width > 0) widths = fit(width);
  for (auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (width > 0) row[i] = wrapped(row[i].front(), widths[i]);
      const std::string& text = row[i].front();
      const bool widens = columns(text) <= kLongestWord || text.find(' ') != text.npos;
      if (width == 0 && widens) widths[i] = std::max(widths[i], columns(text));
    }
  }
  std::string out;
  for (const auto& row : cells) {
    const bool head = colour && &row == &cells.front();
    if (head) out += "\033[1m";
    out += row_text(row, widths);
    if (head) out.insert(out.size() - 1, "\033[0m");
  }
  return out;
}

}  // namespace holdfast::cli
