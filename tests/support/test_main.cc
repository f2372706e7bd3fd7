// main() of the tests.
#include <gmock/gmock.h>

#include "tests/support/tries.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  return holdfast::support::run_all_cases();
}
