// The end of a process whose lock state cannot be trusted.
//
// A lock server that goes on after a broken invariant hands out locks twice; one that stops is
// restarted from its last good state. So these checks stay on in release builds.
#pragma once

namespace holdfast::machine {

// Writes the message to standard error and aborts.
[[noreturn]] void broken_invariant(const char* message, const char* file, int line);

}  // namespace holdfast::machine

#define HOLDFAST_REQUIRE(condition, message) \
  (static_cast<bool>(condition)              \
       ? static_cast<void>(0)                \
       : ::holdfast::machine::broken_invariant((message), __FILE__, __LINE__))
