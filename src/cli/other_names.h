// Other programs' names for the commands of this one: a hint for those who guess.
//
// Thread-safety: a pure function.
#pragma once

#include <string_view>
#include <utility>

namespace holdfast::cli {

// Our command; empty: no other program has one of that name.
inline std::string_view meant_by(std::string_view command) {
  constexpr std::pair<std::string_view, std::string_view> kMeant[] = {{"state", "status"},
                                                                      {"held", "status"},
                                                                      {"start", "serve"},
                                                                      {"init", "store init"},
                                                                      {"lock", "run' or 'acquire"},
                                                                      {"flock", "run"},
                                                                      {"exec", "run"},
                                                                      {"with", "run"},
                                                                      {"unlock", "release"},
                                                                      {"free", "release"},
                                                                      {"list", "ls"},
                                                                      {"locks", "ls"},
                                                                      {"show", "inspect"},
                                                                      {"info", "inspect"},
                                                                      {"get", "inspect"},
                                                                      {"who", "inspect"},
                                                                      {"refresh", "renew"},
                                                                      {"extend", "renew"},
                                                                      {"kill", "break"},
                                                                      {"rm", "break"},
                                                                      {"delete", "break"},
                                                                      {"force", "break"},
                                                                      {"lead", "elect"},
                                                                      {"leader", "elect"},
                                                                      {"check", "doctor"},
                                                                      {"monitor", "watch"},
                                                                      {"take", "acquire"}};
  for (const auto& [word, ours] : kMeant) {
    if (word == command) return ours;
  }
  return {};
}

}  // namespace holdfast::cli
