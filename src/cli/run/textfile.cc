#include "src/cli/run/textfile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "src/cli/options/values.h"
#include "src/cli/process/fd.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kSuccessTime = "holdfast_run_success_timestamp_seconds";

constexpr std::pair<RunOutcome, std::string_view> kOutcomes[] = {
    {RunOutcome::kSuccess, "success"},  {RunOutcome::kFailed, "failed"},
    {RunOutcome::kMaxHold, "max_hold"}, {RunOutcome::kLost, "lost"},
    {RunOutcome::kTimeout, "timeout"},  {RunOutcome::kCancelled, "cancelled"},
    {RunOutcome::kError, "error"}};

std::string label(std::string_view name, const std::string& value) {
  std::string out = std::string(name) + "=\"";
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string labels_of(const RunFigures& figures) {
  return label("lock", figures.lock) + "," + label("command", figures.command) + "," +
         label("mode", mode_word(figures.mode)) + "," + label("store", figures.store);
}

std::string seconds(Nanos time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double>(time).count());
  return text;
}

std::string head(std::string_view name, std::string_view help) {
  return "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) +
         " gauge\n";
}

std::string sample(std::string_view name, const std::string& labels, const std::string& value) {
  return std::string(name) + "{" + labels + "} " + value + "\n";
}

// The value of the same series in the file of the run before.
std::optional<std::string> last_success(const std::string& file, const std::string& labels) {
  const std::string begin = sample(kSuccessTime, labels, "");
  const std::string_view series(begin.data(), begin.size() - 1);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(series)) continue;
    std::string value = line.substr(series.size());
    if (value.find_first_not_of("0123456789.") == value.npos && !value.empty()) return value;
  }
  return std::nullopt;
}

std::string text_of(const RunFigures& figures, const std::optional<std::string>& success,
                    const std::string& now) {
  const std::string labels = labels_of(figures);
  std::string out;
  const auto add = [&](std::string_view name, std::string_view help, const std::string& value) {
    out += head(name, help) + sample(name, labels, value);
  };
  constexpr std::string_view kOutcome = "holdfast_run_outcome";
  out += head(kOutcome, "How the last run ended: 1 for that, 0 for the others.");
  for (const auto& [outcome, word] : kOutcomes) {
    out += sample(kOutcome, labels + "," + label("outcome", std::string(word)),
                  outcome == figures.outcome ? "1" : "0");
  }
  add("holdfast_run_exit_status", "Exit status of the last run.",
      std::to_string(figures.exit_status));
  add("holdfast_run_end_timestamp_seconds", "When the last run ended.", now);
  if (success) add(kSuccessTime, "When the last run ended that was a success.", *success);
  add("holdfast_run_wait_seconds", "From the start of the last run to the grant, or its end.",
      seconds(figures.wait));
  if (figures.hold) {
    add("holdfast_run_hold_seconds", "From the grant to the end of the last run.",
        seconds(*figures.hold));
  }
  if (figures.token) {
    add("holdfast_run_token_epoch", "First part of the fencing token of the last run.",
        std::to_string(figures.token->epoch));
    add("holdfast_run_token_counter", "Second part of the fencing token of the last run.",
        std::to_string(figures.token->counter));
  }
  return out;
}

Error cannot_write(const std::string& file, const std::string& why) {
  return {Errc::kUnavailable, "cannot write the metrics to " + in_quotes(file) + ": " + why};
}

// node_exporter, another user, reads it; a name that does not end with .prom it leaves alone.
Result<void> replace_file(const std::string& file, const std::string& text) {
  std::string draft = file + ".XXXXXX";
  Fd out(::mkostemp(draft.data(), O_CLOEXEC));
  if (!out) return cannot_write(file, std::strerror(errno));
  const ssize_t written = ::write(out.get(), text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (whole && ::fchmod(out.get(), 0644) == 0 && ::rename(draft.c_str(), file.c_str()) == 0) {
    return {};
  }
  const std::string why = written >= 0 && !whole ? "the disk is full" : std::strerror(errno);
  ::unlink(draft.c_str());
  return cannot_write(file, why);
}

}  // namespace

Result<void> write_textfile(const std::string& file, const RunFigures& figures) {
  struct stat found {};
  if (::stat(file.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return cannot_write(file, "it is no regular file");
  }
  const std::string now = seconds(std::chrono::system_clock::now().time_since_epoch());
  const auto success = figures.outcome == RunOutcome::kSuccess
                           ? std::optional(now)
                           : last_success(file, labels_of(figures));
  return replace_file(file, text_of(figures, success, now));
}

}  // namespace holdfast::cli
