// Pauses and deadlines that the parts of this folder share.
#pragma once

#include <chrono>

namespace holdfast::contend {

// The deadline of a request that no caller waits for; it is repeated.
inline constexpr auto kBackground = std::chrono::milliseconds(5000);
inline constexpr auto kPause = std::chrono::milliseconds(100);
inline constexpr auto kLongPause = std::chrono::milliseconds(1000);

}  // namespace holdfast::contend
