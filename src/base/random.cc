#include "src/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace holdfast::base {
namespace {

void fill(void* out, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(out);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::getrandom(bytes + have, size - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      std::fprintf(stderr, "holdfast: getrandom failed: %s\n", std::strerror(errno));
      std::abort();
    }
  }
}

}  // namespace

Random128 random_128() {
  Random128 out;
  do {
    fill(&out, sizeof out);
  } while ((out.high | out.low) == 0);
  return out;
}

std::string to_hex(std::uint64_t high, std::uint64_t low) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

}  // namespace holdfast::base
