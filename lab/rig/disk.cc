#include "lab/rig/disk.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace holdfast::lab {

Disk::Disk(std::string folder, std::int64_t megabytes) : folder_(std::move(folder)) {
  const std::string size = "size=" + std::to_string(megabytes) + "m";
  if (::mount("holdfast-lab", folder_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) != 0) {
    throw std::runtime_error(
        std::string("disk_mb needs a file system of its own, which only root may mount: ") +
        std::strerror(errno));
  }
}

Disk::~Disk() { ::umount2(folder_.c_str(), MNT_DETACH); }

void Disk::fill() {
  const int fd = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (fd >= 0 && ::write(fd, block.data(), block.size()) > 0) {
  }
  if (fd >= 0) ::close(fd);
}

void Disk::make_room() { ::unlink(ballast().c_str()); }

}  // namespace holdfast::lab
