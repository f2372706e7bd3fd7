// HOLDFAST_EXPORT marks what libholdfast.so shows to programs.
//
// Everything else is hidden: a class or function without it links inside the library and in its
// own tests only. Put it on public classes whose functions live in .cc files and on free functions;
// templates and inline types need none.
#pragma once

// Every public header includes this one before it declares anything, so that a compiler in an older
// mode says this first.
#if __cplusplus < 202002L
#error "Holdfast needs C++20: compile with -std=c++20"
#endif

#define HOLDFAST_EXPORT __attribute__((visibility("default")))
