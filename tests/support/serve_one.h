// The main function of a program that serves one store to a test in another language.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>

namespace holdfast::support {

struct ServedKind {
  std::function<std::optional<std::string>()> unavailable;  // Why there is no such server here.
  std::function<int()> serve;
};

// Serves the kind that the only argument names. Returns 2 for wrong arguments, and 77, which tests
// take for skipped, where there is no such server.
inline int serve_one(int argc, char** argv, const std::map<std::string, ServedKind>& kinds) try {
  const auto kind = kinds.find(argc == 2 ? argv[1] : "");
  if (kind == kinds.end()) {
    std::string names;
    for (const auto& [name, unused] : kinds) names += (names.empty() ? "" : "|") + name;
    std::fprintf(stderr, "usage: %s %s\n", argv[0], names.c_str());
    return 2;
  }
  if (const auto why = kind->second.unavailable()) {
    std::cout << *why << std::endl;
    constexpr int kSkipped = 77;
    return kSkipped;
  }
  return kind->second.serve();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

}  // namespace holdfast::support
