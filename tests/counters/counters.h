// The tests of counters on real servers share this.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/ids/store_counter.h"
#include "holdfast/result.h"

namespace holdfast::testing {

// Fails the test where there is none.
std::unique_ptr<ids::StoreCounter> open_counter(
    const std::string& url, const std::string& name, std::uint32_t batch,
    std::chrono::milliseconds request_timeout = std::chrono::seconds(20));
// Why it cannot be opened.
Error refusal(const std::string& url, const std::string& name);

// The answer of a server's own client.
inline std::string without_line_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// 0: an error, which fails the test.
std::uint64_t number(ids::StoreCounter& ids);
// The first number after errors, for a while.
std::uint64_t number_in_the_end(ids::StoreCounter& ids);

// Processes take numbers from the counter, are killed at any moment, and others follow.
void killed_processes_repeat_nothing(const std::string& url, const std::string& name);

}  // namespace holdfast::testing
