#include "tests/support/disk_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>

namespace holdfast::support {
namespace {

// Constant-initialized: libraries write before main() begins.
std::atomic<bool> noting{false};
std::atomic<bool> syncs_fail{false};
std::mutex mutex;

std::vector<std::string>& noted() {
  static std::vector<std::string> lines;
  return lines;
}

void note(const char* what, const std::string& path) {
  const int before = errno;
  {
    const std::lock_guard lock(mutex);
    noted().push_back(std::string(what) + " " + path);
  }
  errno = before;
}

void note(const char* what, int fd) {
  if (!noting) return;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, 4'096> path{};
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  if (length > 0) note(what, std::string(path.data(), static_cast<std::size_t>(length)));
}

ssize_t written(int fd, long done) {
  if (done > 0) note("write", fd);
  return done;
}

int synced(int fd, long number) {
  if (syncs_fail) {
    errno = EIO;
    return -1;
  }
  const long done = ::syscall(number, fd);
  if (done == 0) note("sync", fd);
  return static_cast<int>(done);
}

}  // namespace

DiskLog::DiskLog() {
  clear();
  noting = true;
}

DiskLog::~DiskLog() {
  noting = false;
  syncs_fail = false;
}

std::vector<std::string> DiskLog::lines() const {
  const std::lock_guard lock(mutex);
  return noted();
}

std::vector<std::string> DiskLog::lines_of(const std::string& path) const {
  std::vector<std::string> found;
  for (const std::string& line : lines()) {
    if (line.ends_with(" " + path)) found.push_back(line);
  }
  return found;
}

void DiskLog::clear() {
  const std::lock_guard lock(mutex);
  noted().clear();
}

void DiskLog::fail_syncs(bool fail) { syncs_fail = fail; }

}  // namespace holdfast::support

#pragma GCC visibility push(default)
extern "C" {

ssize_t write(int fd, const void* bytes, std::size_t size) {
  return holdfast::support::written(fd, ::syscall(SYS_write, fd, bytes, size));
}

ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t at) {
  return holdfast::support::written(fd, ::syscall(SYS_pwrite64, fd, bytes, size, at));
}

// The same on 64 bits, under the name that large files once needed.
ssize_t pwrite64(int fd, const void* bytes, std::size_t size, off64_t at) {
  return holdfast::support::written(fd, ::syscall(SYS_pwrite64, fd, bytes, size, at));
}

int fsync(int fd) { return holdfast::support::synced(fd, SYS_fsync); }

int fdatasync(int fd) { return holdfast::support::synced(fd, SYS_fdatasync); }

int link(const char* from, const char* to) noexcept {
  const long done = ::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (done == 0 && holdfast::support::noting) holdfast::support::note("link", std::string(to));
  return static_cast<int>(done);
}

}  // extern "C"
#pragma GCC visibility pop
