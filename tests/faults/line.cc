#include "tests/faults/line.h"

#include <time.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace holdfast::faults {
namespace {

std::int64_t namespace_offset_ns() {
  std::ifstream offsets("/proc/self/timens_offsets");
  std::string clock;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  while (offsets >> clock >> seconds >> nanoseconds) {
    if (clock == "boottime") return seconds * 1'000'000'000 + nanoseconds;
  }
  return 0;
}

}  // namespace

Line Line::parse(std::string_view text) {
  Line line;
  std::istringstream words{std::string(text)};
  words >> line.kind >> line.word;
  std::string field;
  while (words >> field) {
    const auto equals = field.find('=');
    const std::string key = field.substr(0, equals);
    std::string value = equals == std::string::npos ? std::string() : field.substr(equals + 1);
    if (key == "text") {
      std::string rest;
      std::getline(words, rest);
      value += rest;
    }
    line.fields[key] = value;
  }
  return line;
}

std::string Line::get(const std::string& key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string() : found->second;
}

std::int64_t Line::number(const std::string& key) const {
  const std::string text = get(key);
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t host_boot_ns() {
  static const std::int64_t offset = namespace_offset_ns();
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - offset;
}

}  // namespace holdfast::faults
