// Every step of the lock service's journal to the disk fails once, the first, the second, ... until
// the commits get through: no batch that was answered is lost, and a journal that met an error it
// cannot undo is never written again (safety rule 42).
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/server/journal/sqlite_journal.h"
#include "tests/faults/faulty_vfs.h"
#include "tests/support/temp_folder.h"

namespace holdfast::server {
namespace {

using holdfast::testing::arm;
using holdfast::testing::disarm;
using holdfast::testing::Fault;
using holdfast::testing::faulty_vfs;
using support::TempFolder;

constexpr int kMostSteps = 200;
constexpr std::uint64_t kBatches = 4;

std::string bytes_of(std::uint64_t number) {
  return "batch " + std::to_string(number) + ' ' + std::string(5'000, 'x');
}

class ServiceIoFaultsTest : public ::testing::TestWithParam<Fault> {
 protected:
  // Commits until one is not answered as committed. The number of the last that was.
  static std::uint64_t commit_all(SqliteJournal& journal, Commit& answer) {
    answer = Commit::kCommitted;
    std::uint64_t number = 0;
    while (number < kBatches) {
      answer = journal.commit(number + 1, bytes_of(number + 1));
      if (answer != Commit::kCommitted) return number;
      ++number;
    }
    return number;
  }

  // The disk is well again, and the journal is not used in spite of that.
  static void expect_dead(SqliteJournal& journal, std::uint64_t number) {
    EXPECT_EQ(journal.commit(number, bytes_of(number)), Commit::kUnknown);
    EXPECT_EQ(journal.look(), Commit::kUnknown);
  }

  // All that was answered is there. One batch more may be.
  static void expect_kept(const std::string& folder, std::uint64_t committed) {
    SqliteJournal next({folder});
    ASSERT_TRUE(next.open());
    EXPECT_EQ(next.opening().restored, "");
    const auto last = next.last();
    ASSERT_TRUE(last) << last.error().message();
    EXPECT_GE(*last, committed);
    EXPECT_LE(*last, committed + 1);
    for (std::uint64_t number = 1; number <= *last; ++number) {
      const auto kept = next.batch(number);
      ASSERT_TRUE(kept) << kept.error().message();
      EXPECT_TRUE(*kept == bytes_of(number)) << number;
    }
  }

  // False: the fault was not reached.
  bool run(Fault fault, int step) {
    const TempFolder folder;
    const std::string data = folder.file("data");
    std::uint64_t committed = 0;
    bool struck = false;
    {
      SqliteJournal journal({.folder = data, .vfs = faulty_vfs()});
      const auto opened = journal.open();
      EXPECT_TRUE(opened) << opened.error().message();
      if (!opened) return false;
      Commit answer{};
      arm(fault, step, /*for_good=*/false);
      committed = commit_all(journal, answer);
      struck = disarm();
      if (answer == Commit::kLater) {
        EXPECT_EQ(fault, Fault::kDiskFull) << "only a lack of room may be tried again";
        ++committed;
        EXPECT_EQ(journal.commit(committed, bytes_of(committed)), Commit::kCommitted);
      } else if (answer == Commit::kUnknown) {
        expect_dead(journal, committed + 1);
        ++dead_;
      } else {
        EXPECT_EQ(answer, Commit::kCommitted) << journal.reason();
      }
    }
    expect_kept(data, committed);
    return struck;
  }

  int dead_ = 0;  // So many journals died.
};

TEST_P(ServiceIoFaultsTest, NothingAnsweredIsLostAndADeadJournalStaysDead) {
  int step = 1;
  while (step < kMostSteps && !HasFailure()) {
    SCOPED_TRACE("fault at step " + std::to_string(step));
    if (!run(GetParam(), step)) break;
    ++step;
  }
  EXPECT_GT(step, 2) << "no step failed";
  EXPECT_TRUE(dead_ > 0 || GetParam() == Fault::kDiskFull);
  EXPECT_LT(step, kMostSteps) << "the commits never got through";
}

std::string name_of(const ::testing::TestParamInfo<Fault>& fault) {
  switch (fault.param) {
    case Fault::kWriteFails: return "WriteFails";
    case Fault::kDiskFull: return "DiskFull";
    case Fault::kTornWrite: return "TornWrite";
    case Fault::kSyncFails: return "SyncFails";
    case Fault::kLockFails: break;
  }
  return "LockFails";
}

INSTANTIATE_TEST_SUITE_P(Disk, ServiceIoFaultsTest,
                         ::testing::Values(Fault::kWriteFails, Fault::kTornWrite, Fault::kSyncFails,
                                           Fault::kDiskFull, Fault::kLockFails),
                         name_of);

}  // namespace
}  // namespace holdfast::server
