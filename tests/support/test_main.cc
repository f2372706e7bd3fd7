// main() of the tests that CTest runs as whole programs: one in which every case was skipped counts
// as skipped, and not as passed. (Of the others CTest knows each case.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const auto& all = *::testing::UnitTest::GetInstance();
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE.
  const bool nothing_else = all.successful_test_count() == 0 && all.skipped_test_count() > 0;
  return result == 0 && nothing_else ? kSkipped : result;
}
