// A database guard's verdict on the recorded token that its statement has answered.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/fence/fence.h"

namespace holdfast::fence {

// For an exclusive token, `text` is the record *after* the statement that raised it: the own token,
// or a higher one. For a shared token it is the unchanged record.
inline Result<void> judge(std::string_view text, const std::string& resource, const Token& token,
                          const Mode& mode) {
  const auto recorded = read_token(text);
  if (!recorded) {
    return Error(Errc::kCorruptState, "the row of " + resource +
                                          " in holdfast_fence holds no token: nobody is admitted. "
                                          "Look at what wrote it");
  }
  if (const auto admitted = admit(*recorded, token, mode); !admitted) return admitted.error();
  if (mode.kind() == Mode::Kind::kExclusive && *recorded != token) {
    return Error(Errc::kCorruptState, "holdfast_fence did not record the token of " + resource +
                                          ": is it another table than create_table() makes?");
  }
  return {};
}

// The requests that are refused before the database is asked.
inline Result<void> check_call(const std::string& resource, const Token& token, const Mode& mode) {
  if (auto named = check_resource(resource); !named) return named;
  if (auto sound = admit(Token{}, token, mode); !sound) return sound.error();
  return {};
}

inline Error no_transaction(const char* how) {
  return {
      Errc::kInvalidArgument,
      std::string("there is no open transaction, so the check and the write could be separated: ") +
          how + " first, and commit after the write"};
}

}  // namespace holdfast::fence
