// Every step of SQLite to the disk fails once, the first, the second, ... until the work gets
// through: whatever is answered must be so, and nothing may be left behind that hurts.
#include <sqlite3.h>

#include "src/stores/sqlite/store_test_support.h"
#include "tests/faults/faulty_vfs.h"

namespace holdfast::stores::sqlite::testing {
namespace {

using holdfast::testing::arm;
using holdfast::testing::disarm;
using holdfast::testing::Fault;

constexpr int kMostSteps = 400;

SqliteTuning on_faulty_disk() {
  SqliteTuning tuning;
  tuning.vfs = holdfast::testing::faulty_vfs();
  tuning.patience = 50ms;
  return tuning;
}

// In memory where there is such a file system: the syncs are not what is tested.
std::string quick_folder() { return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : ""; }

std::string query(const std::string& path, const char* text) {
  sqlite3* db = nullptr;
  std::string found;
  if (sqlite3_open(path.c_str(), &db) == SQLITE_OK) {
    sqlite3_exec(
        db, text,
        [](void* out, int, char** values, char**) {
          *static_cast<std::string*>(out) = values[0] != nullptr ? values[0] : "NULL";
          return 0;
        },
        &found, nullptr);
  }
  sqlite3_close(db);
  return found;
}

class IoFaultsTest : public ::testing::TestWithParam<std::pair<Fault, bool>> {
 protected:
  // Runs `work` with the fault at step 1, 2, ... until it is not reached.
  template <typename Work>
  void sweep(Work work) {
    int n = 1;
    for (; n < kMostSteps; ++n) {
      SCOPED_TRACE("fault at step " + std::to_string(n));
      if (!work(n) || HasFatalFailure()) break;
    }
    EXPECT_LT(n, kMostSteps) << "the work never got through";
    RecordProperty("steps", n - 1);
  }
  void arm_at(int n) { arm(GetParam().first, n, GetParam().second); }
};

bool holds(TestClient& client, const std::string& name, AcquisitionId id) {
  const auto state = client.renew(name, id, 1'000);
  return state && state->status == AcquisitionStatus::kHeld;
}

TEST_P(IoFaultsTest, WhatIsAnsweredIsSo) {
  sweep([&](int n) {
    const TempFolder folder(quick_folder());
    auto witness = open_client(folder / "locks.db");
    auto client = open_client(folder / "locks.db", on_faulty_disk());
    const auto first = request_for("a");
    auto second = request_for("a");
    arm_at(n);
    const auto held = client->acquire(first);
    const auto queued = client->acquire(second);
    const auto ended = client->release("a", first.id);
    const auto beaten = client->renew("a", second.id, 1);
    const bool struck = disarm();

    if (!held) {
      EXPECT_EQ(held.error().code(), Errc::kUnavailable) << held.error().message();
    }
    // Refused means not there; answered means there.
    const bool first_holds = held && held->status == AcquisitionStatus::kHeld && !ended;
    EXPECT_EQ(holds(*witness, "a", first.id), first_holds);
    const auto now = witness->renew("a", second.id, 2'000);
    EXPECT_TRUE(now);
    if (now) {
      EXPECT_EQ(now->status != AcquisitionStatus::kGone, queued.has_value());
    }
    if (beaten && beaten->status == AcquisitionStatus::kHeld) {
      EXPECT_TRUE(holds(*witness, "a", second.id));
    }
    // And it goes on.
    EXPECT_TRUE(client->release("a", first.id));
    EXPECT_TRUE(client->cancel("a", second.id));
    const auto after = client->acquire(request_for("a"));
    EXPECT_TRUE(after) << after.error().message();
    if (after && held) {
      EXPECT_GT(after->token.counter, held->token.counter);
    }
    EXPECT_EQ(query(folder / "locks.db", "PRAGMA quick_check"), "ok");
    return struck;
  });
}

TEST_P(IoFaultsTest, NoTokenAboveTheCeilingThatWasCommitted) {
  sweep([&](int n) {
    const TempFolder folder(quick_folder());
    SqliteTuning tuning = on_faulty_disk();
    tuning.token_block = 300;
    auto client = open_client(folder / "locks.db", tuning);
    std::uint64_t last = 0;
    bool struck = false;
    for (int i = 0; i < 120; ++i) {
      if (i == 40) arm_at(n);
      if (i == 60) struck = disarm();
      const auto request = request_for("a");
      const auto held = client->acquire(request);
      if (!held || held->status != AcquisitionStatus::kHeld) continue;
      EXPECT_GT(held->token.counter, last);
      last = held->token.counter;
      while (!client->release("a", request.id)) struck = disarm() || struck;
    }
    const std::string ceiling = query(folder / "locks.db", "SELECT ceiling FROM meta");
    EXPECT_LE(last, std::stoull(ceiling));
    return struck;
  });
}

TEST_P(IoFaultsTest, AnOpeningThatFailedCanBeRepeated) {
  sweep([&](int n) {
    const TempFolder folder(quick_folder());
    arm_at(n);
    auto opened = TestClient::open(folder / "locks.db", on_faulty_disk());
    const bool struck = disarm();
    if (!opened) {
      EXPECT_EQ(opened.error().code(), Errc::kUnavailable) << opened.error().message();
    }
    auto client = open_client(folder / "locks.db");
    EXPECT_TRUE(client);
    if (client) {
      const auto held = client->acquire(request_for("a"));
      EXPECT_TRUE(held) << held.error().message();
    }
    return struck;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Faults, IoFaultsTest,
    ::testing::Values(std::pair(Fault::kWriteFails, false), std::pair(Fault::kWriteFails, true),
                      std::pair(Fault::kDiskFull, true), std::pair(Fault::kTornWrite, false),
                      std::pair(Fault::kSyncFails, false), std::pair(Fault::kLockFails, false)));

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
