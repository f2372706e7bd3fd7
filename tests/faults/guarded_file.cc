#include "tests/faults/guarded_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace holdfast::faults {
namespace {

constexpr std::size_t kTokenWidth = 31;

}  // namespace

// Returns what stands there if the token is refused. One pwrite of fixed width changes the file, so
// that a kill leaves either the old or the new content.
std::optional<Guarded> GuardedFile::visit(const std::string& token, const std::int64_t* value,
                                          Guarded& before) const {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || ::flock(fd, LOCK_EX) != 0) std::abort();
  char text[128] = {};
  if (::pread(fd, text, sizeof text - 1, 0) > 0) {
    before.highest.assign(text, kTokenWidth);
    before.value = std::atoll(text + kTokenWidth);
  }
  std::optional<Guarded> refused;
  if (token < before.highest) {
    refused = before;
  } else {
    const long long next = value != nullptr ? *value : before.value;
    const int size = std::snprintf(text, sizeof text, "%s %019lld\n", token.c_str(), next);
    if (::pwrite(fd, text, static_cast<std::size_t>(size), 0) != size) std::abort();
  }
  ::close(fd);
  return refused;
}

std::optional<Guarded> GuardedFile::read(const std::string& token) const {
  Guarded before;
  if (visit(token, nullptr, before)) return std::nullopt;
  return before;
}

std::optional<Guarded> GuardedFile::write(const std::string& token, std::int64_t value) const {
  Guarded before;
  return visit(token, &value, before);
}

}  // namespace holdfast::faults
