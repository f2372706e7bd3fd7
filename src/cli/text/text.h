// Small helpers for text that people read.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/detail/utc.h"

namespace holdfast::cli {

// Makes foreign text (names, reasons, owners) safe for a terminal. Control characters, those of C1,
// bidirectional overrides, and bytes that are not UTF-8 become \xNN or \u{N}.
std::string printable(std::string_view text);

// `text` for a message: printable and in single quotes.
std::string in_quotes(std::string_view text);

// `text` as it is, or its first bytes (whole code points) and "..." when it is much longer.
std::string shortened(std::string text, std::size_t most = 200);

// Columns that UTF-8 text takes: two for each Chinese, Japanese or Korean code point, else one.
std::size_t columns(std::string_view text);

// The candidate that a typing error may have meant; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Whether a key of this TOML text has more parts ("a.b.c" has three) than any sensible one: its
// parser would recurse for each. Values are bounded by the parser itself.
bool has_endless_key(std::string_view toml);

using detail::utc_text;

// "05:00:03" today, "Nov 20 05:00" otherwise, in the user's time zone.
std::string local_time(std::chrono::system_clock::time_point at);

}  // namespace holdfast::cli
