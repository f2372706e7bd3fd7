// The client's log as data, for logs that machines read.
//
//   holdfast::ClientOptions options;
//   options.log_event = [](const holdfast::LogEvent& event) {
//     std::fprintf(stderr, "%s\n", holdfast::json_line(event).c_str());
//   };
//
// Guarantee: `event` is one of the words below, and stays so. The text line of an event is one
// line, whatever its texts contain. No text contains credentials.
// Not guaranteed: the wording of `text`, which is for people. That a loss is logged in time to act
// on it: use Lease::lost() for that.
//
//   event           severity   when
//   lock_lost       error      a lease of this client ended against its owner's will
//   renewal_failed  warning    a renewal failed or was not answered; says if it is retried
//   watch_blind     warning    a watch sees nothing at present
//   watch_sees      info       the watch works again
//   store           warning    news of the store: away, back, a clock that was set ...
//
// Thread-safety: plain data; the functions are pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/errc.h"
#include "holdfast/export.h"
#include "holdfast/token.h"

namespace holdfast {

enum class LogSeverity { kInfo, kWarning, kError };

struct LogEvent {
  std::chrono::system_clock::time_point time{};
  LogSeverity severity = LogSeverity::kInfo;
  std::string event;
  std::string text;           // A sentence for people: what ClientOptions::log gets.
  std::string store;          // The URL, without credentials.
  std::string lock;           // Empty, like the next two, when the event is about no lock.
  Token token;                // The grant's.
  std::string trace_id;       // AcquireOptions::trace_id.
  std::optional<Errc> error;  // The cause, where there is a code for it.
};

// {"time":"2026-11-21T05:00:03.123Z","severity":"error","event":"lock_lost","lock":"orders/42",...}
// Empty fields are left out. Bytes that are not UTF-8 become U+FFFD.
HOLDFAST_EXPORT std::string json_line(const LogEvent& event);

// time=2026-11-21T05:00:03.123Z severity=error event=lock_lost lock=orders/42 text="lock ..."
HOLDFAST_EXPORT std::string logfmt_line(const LogEvent& event);

}  // namespace holdfast
