// One line between a test and its actor: "kind word key=value key=value ... text=the rest".
//
// Kinds: `=` answers a command, one each, in order; `!` tells of an event, at any time.
// Instants are nanoseconds of the host's boot time, whatever time namespace the actor lives in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace holdfast::faults {

struct Line {
  char kind = '=';
  std::string word;
  std::map<std::string, std::string> fields;

  static Line parse(std::string_view text);

  // Empty where there is no such field.
  std::string get(const std::string& key) const;
  std::int64_t number(const std::string& key) const;
};

// CLOCK_BOOTTIME without the offset of a time namespace, read independently of the library.
std::int64_t host_boot_ns();

}  // namespace holdfast::faults
