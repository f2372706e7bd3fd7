// Keys where locks are kept that no known lock has: what is said of them.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/faults/listener.h"

namespace holdfast::faults {

// Whoever lists is told, once; so is whoever asks the doctor.
inline void expect_told_of(const std::string& url, const std::string& key) {
  Listener listener(url);
  const auto told = [&] { return listener.told("'" + key + "'"); };
  const Client& client = listener.client();
  for (int i = 0; i < 2; ++i) {
    const auto listed = client.list("");
    ASSERT_TRUE(listed) << listed.error().message();
    EXPECT_TRUE(eventually([&] { return told() > 0; })) << key;
  }
  const auto report = client.doctor();
  ASSERT_TRUE(report) << report.error().message();
  const bool found =
      std::any_of(report->findings.begin(), report->findings.end(), [&](const Finding& finding) {
        return finding.topic == "keys" && finding.what.find(key) != std::string::npos;
      });
  EXPECT_TRUE(found) << key;
  EXPECT_EQ(told(), 1) << ::testing::PrintToString(listener.lines());
}

}  // namespace holdfast::faults
