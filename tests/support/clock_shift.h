// The wall clock of another process, shifted while it runs.
//
// Give path() to RedisOptions::clock_shift_file, or to whatever preloads the clock shim
// (environment variable HOLDFAST_TEST_CLOCK_FILE).
//
// Guarantee: a shift is seen by the next reading of CLOCK_REALTIME in every such process, by
// gettimeofday() and time() too. Other clocks are left alone.
// Thread-safety: safe.
#pragma once

#include <chrono>
#include <string>

#include "tests/support/temp_folder.h"

namespace holdfast::support {

class ClockShift {
 public:
  ClockShift();
  ~ClockShift();
  ClockShift(const ClockShift&) = delete;
  ClockShift& operator=(const ClockShift&) = delete;

  const std::string& path() const { return path_; }
  // From the true time, not from the shift before.
  void set(std::chrono::nanoseconds shift);

 private:
  TempFolder folder_{"clock"};
  std::string path_;
  void* page_ = nullptr;
};

// The environment of a process that is to follow the file.
std::string clock_shim_library();
std::string clock_shim_variable(const std::string& clock_shift_file);

}  // namespace holdfast::support
