// Values as people write them in an option or in the configuration file. Both have one reader, so
// they accept the same and complain in the same words.
//
// Errors: kInvalidArgument with a sentence that shows what is accepted; the caller puts the name of
// the option or key in front.
#pragma once

#include <chrono>
#include <string>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

// kInvalidArgument with the sentence.
Error invalid(std::string message);

Result<std::string> read_text(const std::string& text);
Result<std::string> read_trace_id(const std::string& text);
Result<Duration> read_duration(const std::string& text);
// A length of time that must not be zero.
Result<Duration> read_period(const std::string& text);
// How often to look: from 100 ms to an hour.
Result<Duration> read_interval(const std::string& text);
// "text", "json" or "logfmt".
Result<LogFormat> read_log_format(const std::string& text);
// "name", "queue", "age" or "left".
Result<TopSort> read_top_sort(const std::string& text);
Result<int> read_number(const std::string& text, int least, int most);
Result<int> read_shards(const std::string& text);
Result<int> read_rate(const std::string& text);
// The range of `exit_...`: 1 to 255.
Result<int> read_exit_code(const std::string& text);
// For `exit_timeout`, 0 too: where another one runs it, there is nothing to do here.
Result<int> read_exit_timeout(const std::string& text);
// "term", "kill" or "ignore".
Result<OnLost> read_on_lost(const std::string& text);
// "end", "wait" or "leave".
Result<Leftover> read_leftover(const std::string& text);
Result<Contain> read_contain(const std::string& text);
// "exclusive" or "shared".
Result<Mode> read_mode(const std::string& text);
std::string mode_word(const Mode& mode);  // Also "permits", which read_mode() refuses.
// "n/N".
Result<Mode> read_permits(const std::string& text);

}  // namespace holdfast::cli
