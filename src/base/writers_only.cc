#include "src/base/writers_only.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace holdfast::base {

// umask(2) tells only by setting it, for all threads.
mode_t new_file_for_writers() {
  unsigned mask = 0077;
  if (std::FILE* status = std::fopen("/proc/self/status", "re")) {
    char line[256];
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::sscanf(line, "Umask: %o", &mask) == 1) break;
    }
    std::fclose(status);
  }
  return writers_only(0666U & ~mask);
}

int open_for_writers(const char* path, bool exclusive) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  if (!exclusive) {
    const int there = ::open(path, flags);
    if (there >= 0 || errno != ENOENT) return there;
  }
  const int made = ::open(path, flags | O_CREAT | O_EXCL, 0600);
  if (made < 0) return errno == EEXIST && !exclusive ? open_for_writers(path, exclusive) : made;
  [[maybe_unused]] const int ignored = ::fchmod(made, new_file_for_writers());
  return made;
}

}  // namespace holdfast::base
