// A test program's notes about its cases, so that CTest's next try runs those alone that failed,
// and scripts/test can count the cases and say which needed how many tries, and why.
//
// Two files per CTest entry in the folder HOLDFAST_TEST_TRIES, with tabs between the fields:
// ENTRY.ran: result, case, reason; ENTRY.failed: case, seconds, load, message. tests/cli/harness.py
// keeps the same notes.
#pragma once

namespace holdfast::support {

// RUN_ALL_TESTS(), and 77 (SKIP_RETURN_CODE) when every case was skipped, which must not count as
// passed. Call after InitGoogleMock(). Without the two variables it notes nothing.
int run_all_cases();

}  // namespace holdfast::support
