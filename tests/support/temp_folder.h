// A temporary folder that goes with the object. In memory where the host has that: leases are timed
// in tests, and a disk that is busy with a build can stand still for longer than they last.
//
// Guarantee: nobody else uses the folder; the path is absolute.
// Not guaranteed: that it goes when the process is killed.
// Thread-safety: none needed, it never changes.
#pragma once

#include <string>

namespace holdfast::support {

class TempFolder {
 public:
  // Its path is short enough for a Unix socket in it.
  explicit TempFolder(const std::string& purpose = "test");
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The end of a log, for the message that tells why a server does not start.
std::string tail_of(const std::string& path);

}  // namespace holdfast::support
