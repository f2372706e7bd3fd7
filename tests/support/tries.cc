#include "tests/support/tries.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::support {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string load() {
  std::string minute;
  std::ifstream("/proc/loadavg") >> minute;
  return minute;
}

// The first failure, or else why it was skipped, on one line: where, and what was waited for.
std::string reason_of(const ::testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    if (result.Failed() ? !part.failed() : !part.skipped()) continue;
    const std::string file = part.file_name() == nullptr ? "" : part.file_name();
    std::string text = std::filesystem::path(file).filename().string() + ":" +
                       std::to_string(part.line_number()) + ": " + part.summary();
    for (char& character : text) {
      if (character == '\n' || character == '\t') character = ' ';
    }
    return text.substr(0, 300);
  }
  return {};
}

class Notes final : public ::testing::EmptyTestEventListener {
 public:
  explicit Notes(const std::string& path)
      : failed_(path + ".failed", std::ios::app), ran_(path + ".ran", std::ios::app) {}

 private:
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const std::string name = std::string(info.test_suite_name()) + "." + info.name();
    const char* result = info.result()->Failed()    ? "failed"
                         : info.result()->Skipped() ? "skipped"
                                                    : "passed";
    const std::string reason = reason_of(*info.result());
    ran_ << result << '\t' << name << '\t' << reason << std::endl;
    if (!info.result()->Failed()) return;
    const double seconds = static_cast<double>(info.result()->elapsed_time()) / 1000;
    failed_ << name << '\t' << seconds << '\t' << load() << '\t' << reason << std::endl;
  }

  std::ofstream failed_;
  std::ofstream ran_;
};

// The cases that an earlier try has noted, as a filter; empty: there was none.
std::string failed_before(const std::string& path) {
  std::ifstream file(path + ".failed");
  std::set<std::string> cases;
  for (std::string line; std::getline(file, line);) cases.insert(line.substr(0, line.find('\t')));
  std::string filter;
  for (const auto& one : cases) filter += (filter.empty() ? "" : ":") + one;
  return filter;
}

}  // namespace

int run_all_cases() {
  auto& all = *::testing::UnitTest::GetInstance();
  const std::string folder = environment("HOLDFAST_TEST_TRIES");
  const std::string entry = environment("HOLDFAST_TEST_ENTRY");
  if (!folder.empty() && !entry.empty()) {
    const std::string path = folder + "/" + entry;
    // Shards are drawn from the cases that the filter leaves, so the names must not be shared out.
    if (const std::string filter = failed_before(path); !filter.empty()) {
      GTEST_FLAG_SET(filter, filter);
      ::unsetenv("GTEST_TOTAL_SHARDS");
      ::unsetenv("GTEST_SHARD_INDEX");
    }
    all.listeners().Append(new Notes(path));  // GoogleTest owns it.
  }
  const int result = RUN_ALL_TESTS();
  constexpr int kSkipped = 77;
  const bool nothing_else = all.successful_test_count() == 0 && all.skipped_test_count() > 0;
  return result == 0 && nothing_else ? kSkipped : result;
}

}  // namespace holdfast::support
