// HOLDFAST_EXPORT marks what libholdfast.so shows to programs.
//
// Everything else is hidden: a class or function without it links inside the library and in its
// own tests only. Put it on public classes whose functions live in .cc files and on free functions;
// templates and inline types need none.
#pragma once

#define HOLDFAST_EXPORT __attribute__((visibility("default")))
