// Each mistake is caught as what it is, and Holdfast in the same script is not.
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/exhibits/exhibits.h"
#include "lab/history/text.h"

namespace holdfast::lab {
namespace {

// A stalled machine makes another history of a script that is about milliseconds.
constexpr int kPerformances = 3;

std::string told(const Performance& performance) {
  std::ostringstream out;
  print(performance.verdict, out);
  write(performance.history, out);
  return out.str();
}

class ExhibitsTest : public ::testing::TestWithParam<Exhibit> {
 protected:
  void expect_as_expected(bool beside) {
    HOLDFAST_NEEDS_REDIS();
    House house;
    Performance last;
    for (int i = 0; i < kPerformances && !last.as_expected; ++i) {
      last = perform(GetParam(), house, beside);
    }
    EXPECT_TRUE(last.as_expected) << told(last);
  }
};

TEST_P(ExhibitsTest, TheMistakeIsCaught) { expect_as_expected(/*beside=*/false); }

TEST_P(ExhibitsTest, HoldfastKeepsItsPromiseInTheSameScript) {
  if (!GetParam().beside) return;
  expect_as_expected(/*beside=*/true);
}

INSTANTIATE_TEST_SUITE_P(All, ExhibitsTest, ::testing::ValuesIn(exhibits()), [](const auto& one) {
  std::string name(one.param.name);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace holdfast::lab
