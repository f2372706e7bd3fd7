// The only writer of times in UTC of the library and the program. Thread-safety: pure functions.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "holdfast/export.h"

namespace holdfast::detail {

// "2026-11-21T05:00:03.123Z" of a time since 1970, also of one that no time_point holds.
inline std::string utc_text(std::chrono::milliseconds unix_time) {
  const auto day = std::chrono::floor<std::chrono::days>(unix_time);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const std::chrono::hh_mm_ss time(unix_time - day);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return text;
}

inline std::string utc_text(std::chrono::system_clock::time_point at) {
  return utc_text(std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()));
}

}  // namespace holdfast::detail
