// A file system in memory, so small that it can be filled, over a folder. Needs root.
//
// Ownership: unmounted with the object, and with the mounts of the process.
// Errors: std::runtime_error: it cannot be mounted here.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::lab {

class Disk {
 public:
  Disk(std::string folder, std::int64_t megabytes);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void fill();
  void make_room();

 private:
  std::string ballast() const { return folder_ + "/ballast"; }

  const std::string folder_;
};

}  // namespace holdfast::lab
