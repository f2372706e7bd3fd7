#include "src/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

std::string_view next_step(Errc code) {
  switch (code) {
    case Errc::kUnavailable:
      return "Is it up and reachable? 'holdfast doctor' looks closer; retrying is safe.";
    case Errc::kOutcomeUnknown:
      return "The lock may be held for one ttl: 'holdfast inspect NAME' tells.";
    case Errc::kPermissionDenied:
      return "Mend the permissions, or name another store with --store.";
    case Errc::kUnsupported: return "'holdfast doctor' lists what this store can do.";
    case Errc::kQueueFull: return "Try later.";
    case Errc::kStoreInUse: return "Stop those who use it first.";
    case Errc::kCorruptState:
      return "Look at it before you use it further; 'holdfast doctor' may tell more.";
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

}  // namespace

bool write_unless_stuck(int fd, const std::string& line) {
  constexpr int kPatienceMs = 50;
  // A pipe that is ready has room for as much in one piece.
  constexpr std::size_t kPiece = 4096;
  for (std::size_t at = 0; at < line.size();) {
    pollfd ready{fd, POLLOUT, 0};
    if (::poll(&ready, 1, kPatienceMs) == 0) return errno = EAGAIN, false;
    const ssize_t written = ::write(fd, line.data() + at, std::min(kPiece, line.size() - at));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) at += static_cast<std::size_t>(written);
  }
  return true;
}

void complain(const std::string& message) { write_unless_stuck(2, "holdfast: " + message + "\n"); }

std::string explain(const Error& error, const std::string& store) {
  std::string out = printable(error.message());
  if (!store.empty() && out.find(store) == std::string::npos) {
    out += " (store " + printable(store) + ")";
  }
  const std::string_view step = next_step(error.code());
  if (step.empty()) return out;
  if (out.back() != '.') out += '.';
  return out + " " + std::string(step);
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

std::string Table::to_string(bool colour) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    const bool head = colour && &row == &rows_.front();
    if (head) out += "\033[1m";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - columns(row[i]) + 2, ' ');
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += head ? "\033[0m\n" : "\n";
  }
  return out;
}

}  // namespace holdfast::cli
