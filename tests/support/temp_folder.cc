#include "tests/support/temp_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace holdfast::support {
namespace {

constexpr std::size_t kRoomForASocket = 70;  // Part of the 107 bytes of a Unix socket's path.

}  // namespace

TempFolder::TempFolder(const std::string& purpose) {
  const std::string memory = "/dev/shm";
  const char* chosen = std::getenv("TMPDIR");
  std::string base = "/tmp";
  if (::access(memory.c_str(), W_OK | X_OK) == 0) {
    base = memory;
  } else if (chosen != nullptr && chosen[0] == '/' && std::strlen(chosen) < kRoomForASocket) {
    base = chosen;
  }
  std::string path = base + "/holdfast-" + purpose + "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder: " + path);
  path_ = path;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string tail_of(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t kEnough = 3000;
  return text.size() > kEnough ? text.substr(text.size() - kEnough) : text;
}

}  // namespace holdfast::support
