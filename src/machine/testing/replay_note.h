// Says how to replay a simulated run that dies, as it does of a broken invariant, instead of
// failing. One at a time, in one thread.
#pragma once

#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

// There in a sanitized program only: a sanitizer ends it without a signal.
// NOLINTNEXTLINE(bugprone-reserved-identifier): it is theirs.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace holdfast::machine::testing {

class ReplayNote {
 public:
  explicit ReplayNote(std::string line) : line_(std::move(line) + "\n") {
    current_ = line_.c_str();
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, &ReplayNote::on_signal);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(&tell);
  }
  ~ReplayNote() { current_ = nullptr; }
  ReplayNote(const ReplayNote&) = delete;
  ReplayNote& operator=(const ReplayNote&) = delete;

 private:
  static void tell() {
    if (const char* line = std::exchange(current_, nullptr)) std::fputs(line, stderr);
  }
  static void on_signal(int signal) {
    tell();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  inline static const char* current_ = nullptr;
  std::string line_;
};

}  // namespace holdfast::machine::testing
