// Parses the scripts' answers into those that the lock machine would give.
//
// Thread-safety: pure functions.
// Errors: kCorruptState: the text is no answer of these scripts.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/machine/command.h"
#include "src/port/store.h"

namespace holdfast::stores::redis {

// "held <token> <seq> <lease>", "waiting <seq> <lease> <ahead> <next>", "busy <next>", "gone" ...
// Instants in it count from the answer itself.
Result<machine::Reply> parse_answer(std::string_view text);

Result<port::AcquisitionState> acquire_answer(std::string_view text,
                                              const port::AcquireRequest& request);
// Also "broken <trace>" (of the last broken grant) and "error <message>".
Result<port::AcquisitionState> renew_answer(std::string_view text, const port::RenewItem& item);
Result<port::AcquisitionState> downgrade_answer(std::string_view text, const std::string& name);
Result<port::EndStatus> end_answer(std::string_view text, const std::string& name);
Result<bool> done_answer(std::string_view text, const std::string& name);

// "error <message>": the failure of one lock of several.
Error failed_answer(std::string_view text, const std::string& name);
// The error of an answer that none of our scripts gives.
Error no_answer(std::string_view text);

// An error raised by a script: kVersionMismatch or kCorruptState, by its own words; nullopt for any
// other.
std::optional<Error> script_error(std::string_view message, std::string_view what);

// "granted <id> <token> <seq> <lease>" and "hint <id>".
std::optional<port::Push> parse_push(std::string_view payload);
// "value <key>": the key of the value that was set.
std::optional<std::string_view> told_value(std::string_view payload);

// 32 hexadecimal digits.
std::string id_text(const port::AcquisitionId& id);
std::optional<port::AcquisitionId> parse_id(std::string_view text);

// 16 digits, because scripts compare numbers as text.
inline constexpr std::size_t kPaddedSize = 16;
std::string padded(std::uint64_t value);

}  // namespace holdfast::stores::redis
