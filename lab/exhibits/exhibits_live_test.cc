// Each mistake is caught as what it is, and Holdfast in the same script is not.
#include <sstream>
#include <string>
#include <vector>

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
  performance.ids.print(out);
  return out.str();
}

class ExhibitsTest : public ::testing::TestWithParam<Exhibit> {
 protected:
  void expect_as_expected(bool beside) {
    HOLDFAST_NEEDS_REDIS();
    if (const auto why = GetParam().why_not()) GTEST_SKIP() << "SKIPPED: " << *why;
    House house;
    Performance last;
    for (int i = 0; i < kPerformances && !last.as_expected; ++i) {
      last = perform(GetParam(), house, beside);
    }
    EXPECT_TRUE(last.as_expected) << told(last);
  }
};

class BesideTest : public ExhibitsTest {};

TEST_P(ExhibitsTest, TheMistakeIsCaught) { expect_as_expected(/*beside=*/false); }
TEST_P(BesideTest, HoldfastKeepsItsPromise) { expect_as_expected(/*beside=*/true); }

std::vector<Exhibit> with_holdfast() {
  std::vector<Exhibit> found = exhibits();
  std::erase_if(found, [](const Exhibit& one) { return !one.beside; });
  return found;
}

std::string name_of_case(const ::testing::TestParamInfo<Exhibit>& one) {
  std::string name(one.param.name);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ExhibitsTest, ::testing::ValuesIn(exhibits()), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, BesideTest, ::testing::ValuesIn(with_holdfast()), name_of_case);

}  // namespace
}  // namespace holdfast::lab
