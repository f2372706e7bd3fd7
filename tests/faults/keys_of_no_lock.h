// Keys where locks are kept that no known lock has: what is said of them.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/faults/client_side.h"

namespace holdfast::faults {

// Whoever lists is told, once; so is whoever asks the doctor.
inline void expect_told_of(const std::string& url, const std::string& key) {
  std::mutex mutex;
  std::vector<std::string> lines;
  ClientOptions options;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  auto client = Client::connect(url, std::move(options));
  ASSERT_TRUE(client) << client.error().message();
  const auto told = [&] {
    const std::lock_guard lock(mutex);
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find("'" + key + "'") != std::string::npos;
    });
  };
  for (int i = 0; i < 2; ++i) {
    const auto listed = client->list("");
    ASSERT_TRUE(listed) << listed.error().message();
    EXPECT_TRUE(eventually([&] { return told() > 0; })) << key;
  }
  const auto report = client->doctor();
  ASSERT_TRUE(report) << report.error().message();
  const bool found =
      std::any_of(report->findings.begin(), report->findings.end(), [&](const Finding& finding) {
        return finding.topic == "keys" && finding.what.find(key) != std::string::npos;
      });
  EXPECT_TRUE(found) << key;
  EXPECT_EQ(told(), 1) << ::testing::PrintToString(lines);
}

}  // namespace holdfast::faults
