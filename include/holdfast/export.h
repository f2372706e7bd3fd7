// Marks what the shared library exports; everything else stays inside it.
#pragma once

#if defined(__GNUC__)
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
#else
#define HOLDFAST_EXPORT
#endif
