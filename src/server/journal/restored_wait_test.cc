// The 24 hours of a restored copy, which count from when a server found it, across its restarts
// (rule 49).
#include <chrono>
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/server/journal/folder_identity.h"
#include "src/server/journal/sqlite_journal.h"
#include "src/server/recovery.h"
#include "src/server/service.h"
#include "tests/support/temp_folder.h"

namespace holdfast::server {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;

class NoListener final : public ServiceListener {
  void on_push(const ClientName&, const port::Push&) override {}
  void on_effect(Position, const machine::Effect&, machine::Instant) override {}
  void on_stopped(const Error&) override {}
};

class RestoredWaitTest : public ::testing::Test {
 protected:
  RestoredWaitTest() {
    open();
    put_back();
  }
  // A server comes and goes.
  JournalAtOpen open() const {
    SqliteJournal journal({data_});
    const auto opened = journal.open();
    EXPECT_TRUE(opened) << opened.error().message();
    return journal.opening();
  }
  FolderIdentity identity() const {
    auto read = FolderIdentity::read(data_);
    EXPECT_TRUE(read && *read);
    return read && *read ? **read : FolderIdentity();
  }
  void change(const std::function<void(FolderIdentity&)>& how) const {
    FolderIdentity found = identity();
    how(found);
    ASSERT_TRUE(found.write(data_));
  }
  // The database is another file than the last server had.
  void put_back() const {
    change([](FolderIdentity& found) { ++found.birth; });
  }
  // No server runs for so long, while the host does.
  void pass(microseconds time) const {
    change([time](FolderIdentity& found) { found.noted -= time; });
  }
  void reboot() const {
    change([](FolderIdentity& found) {
      found.boot = "another boot";
      found.noted += hours(1'000);
    });
  }

  const support::TempFolder folder_;
  const std::string data_ = folder_.file("journal");
};

TEST_F(RestoredWaitTest, ItGoesOnWhereTheLastServerLeftIt) {
  const JournalAtOpen first = open();
  EXPECT_NE(first.restored.find("another file"), std::string::npos);
  EXPECT_EQ(first.waited, microseconds(0));
  pass(hours(5));
  EXPECT_GE(open().waited, hours(5));
  pass(hours(2));
  const JournalAtOpen third = open();
  EXPECT_NE(third.restored.find("has not ended"), std::string::npos);
  EXPECT_GE(third.waited, hours(7));
  EXPECT_LT(third.waited, hours(8));
}

TEST_F(RestoredWaitTest, TheTimeOfARebootDoesNotCount) {
  open();
  pass(hours(5));
  open();
  reboot();
  EXPECT_GE(open().waited, hours(5));
  EXPECT_LT(open().waited, hours(6));
}

TEST_F(RestoredWaitTest, ACopyThatIsPutBackMeanwhileBeginsItAnew) {
  open();
  pass(hours(5));
  put_back();
  EXPECT_EQ(open().waited, microseconds(0));
  EXPECT_LT(open().waited, minutes(10)) << "nor does the time before count";
}

// A virtual machine that was put back as it was during an earlier wait.
TEST_F(RestoredWaitTest, ANoteThatIsTooOldBeginsItAnew) {
  open();
  for (const std::int64_t seconds : {-25 * 3'600, 2 * 3'600}) {
    pass(hours(5));
    change([seconds](FolderIdentity& found) { found.wait.since += seconds; });
    EXPECT_LT(open().waited, minutes(10)) << seconds;
    EXPECT_LT(open().waited, minutes(10)) << seconds;
  }
}

TEST_F(RestoredWaitTest, ANoteOfAnEarlierVersionBeginsItAnew) {
  open();
  pass(hours(5));
  change([](FolderIdentity& found) { found.boot = "a\nline too many"; });
  EXPECT_LT(open().waited, minutes(10));
}

TEST_F(RestoredWaitTest, AServerThatIsKilledHasNotedIt) {
  SqliteJournal journal({.folder = data_, .between_notes = {}});
  ASSERT_TRUE(journal.open());
  change([](FolderIdentity& found) { found.noted = found.wait.waited = {}; });
  ASSERT_EQ(journal.look(), Commit::kCommitted);
  EXPECT_NE(identity().noted, microseconds(0)) << "it is written while the server runs";
  ASSERT_TRUE(journal.settle());
  EXPECT_FALSE(identity().restored);
}

// Rule 49: also if the wall clock was set back. A restart does not raise them once more.
TEST_F(RestoredWaitTest, TokensAreFarAboveThoseOfTheCopy) {
  const auto floor_at = [&](std::uint64_t wall) {
    SqliteJournal journal({data_});
    EXPECT_TRUE(journal.open());
    auto recovered = recover(journal, {}, wall);
    EXPECT_TRUE(recovered);
    return recovered ? recovered->machine.floor().counter : 0;
  };
  const std::uint64_t first = floor_at(1'000);
  EXPECT_GE(first, kRestoreLeap);
  EXPECT_EQ(floor_at(1'000), first) << "the first start ended before it wrote that down";
  for (int restart = 0; restart < 3; ++restart) {
    asio::io_context io;
    NoListener listener;
    Service service(io, std::make_unique<SqliteJournal>(SqliteJournalOptions{data_}), listener);
    ASSERT_TRUE(service.start());
  }
  const auto wall = static_cast<std::uint64_t>(
      std::chrono::duration_cast<microseconds>(base::wall_now().time_since_epoch()).count());
  EXPECT_GT(floor_at(wall), wall + kRestoreLeap / 2);
  EXPECT_LT(floor_at(wall), wall + kRestoreLeap + kRestoreLeap / 2);
}

TEST_F(RestoredWaitTest, TheServerGrantsNothingForWhatIsLeft) {
  for (const auto& [passes, most] : {std::pair(hours(0), hours(24)), std::pair(hours(23), hours(1)),
                                     std::pair(hours(2), hours(0))}) {
    pass(passes);
    asio::io_context io;
    NoListener listener;
    Service service(io, std::make_unique<SqliteJournal>(SqliteJournalOptions{data_}), listener);
    ASSERT_TRUE(service.start());
    EXPECT_NE(service.found().restored, "");
    EXPECT_LE(service.found().quiet, most);
    EXPECT_GE(service.found().quiet + hours(1), most);
  }
  EXPECT_EQ(open().restored, "") << "the wait is over";
}

}  // namespace
}  // namespace holdfast::server
