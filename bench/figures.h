// Statistics of the benchmarks' samples, and figures of their own process.
#pragma once

#include <malloc.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline double micros_since(Clock::time_point begin) { return seconds_since(begin) * 1e6; }

inline double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = std::lround(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

// (highest - lowest) / median of the rounds.
inline double spread(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / median(values);
}

// User and system, of this process so far.
inline double cpu_of_this_process() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Bytes that it has got from the heap and not given back.
inline double heap_of_this_process() {
  const auto told = ::mallinfo2();
  return static_cast<double>(told.uordblks + told.hblkhd);
}

// The CPU time of another process of this machine; 0: it cannot be seen.
inline double cpu_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // Behind the name, which may hold anything, come the state and the numbers 4 to 52.
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int i = 3; i < 14; ++i) words >> skipped;
  double user = 0, system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Bytes that another process has in memory; 0: it cannot be seen.
inline double memory_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace holdfast::bench
