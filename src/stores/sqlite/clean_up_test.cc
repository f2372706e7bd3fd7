// Unused data is forgotten in small steps.
#include <sqlite3.h>

#include <string>

#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

int count(const std::string& path, const std::string& table) {
  sqlite3* db = nullptr;
  sqlite3_stmt* rows = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const std::string text = "SELECT count(*) FROM " + table;
  EXPECT_EQ(sqlite3_prepare_v2(db, text.c_str(), -1, &rows, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_step(rows), SQLITE_ROW);
  const int found = sqlite3_column_int(rows, 0);
  sqlite3_finalize(rows);
  sqlite3_close(db);
  return found;
}

// As a finished Once leaves it, but that its lease is over.
std::uint64_t finish(TestClient& client, const std::string& name) {
  const auto request = request_for(name);
  const auto held = client.acquire(request);
  EXPECT_TRUE(held);
  const auto set = client.wait<bool>([&](auto done) {
    client.store->set_value({name, request.id, soon()}, "outcome", done);
  });
  EXPECT_TRUE(set);
  EXPECT_TRUE(client.release(name, request.id));
  return held ? held->token.counter : 0;
}

SqliteTuning forgetful() {
  SqliteTuning tuning;
  tuning.idle_kept = 0s;
  return tuning;
}

// One step at its end.
void use_once(const std::string& path, SqliteTuning tuning) {
  open_client(path, std::move(tuning))->store->close(soon());
}

std::string key(int number) { return "key" + std::to_string(1000 + number); }

TEST(CleanUpTest, RowsOfFinishedKeysGoInSmallStepsAndTokensDoNotGoBack) {
  const TempFolder folder;
  const std::string path = folder / "locks.db";
  constexpr int kKeys = 300;
  std::uint64_t highest = 0;
  {
    auto client = open_client(path);
    for (int i = 0; i < kKeys; ++i) highest = std::max(highest, finish(*client, key(i)));
  }
  ASSERT_EQ(count(path, "extras"), kKeys);
  int left = kKeys;
  int steps = 0;
  for (; left > 16 && steps < 20; ++steps) {
    use_once(path, forgetful());
    const int now = count(path, "locks");
    EXPECT_GE(now, left - 64) << "a step is no longer than that";
    left = now;
  }
  EXPECT_LE(left, 16) << "what FILE.use notes stays";
  EXPECT_LE(steps, 6);
  EXPECT_EQ(count(path, "extras"), left);
  auto client = open_client(path);
  for (int i = 0; i < kKeys; i += 50) {
    EXPECT_GT(client->acquire(request_for(key(i)))->token.counter, highest);
  }
}

TEST(CleanUpTest, WhatWasForgottenWhileAnotherUsesTheFileGoesOnAboveItsToken) {
  const TempFolder folder;
  const std::string path = folder / "locks.db";
  auto user = open_client(path);  // Keeps what it knows of tokens.
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) last = finish(*user, "a");
  finish(*user, "b");
  use_once(path, forgetful());
  EXPECT_EQ(count(path, "extras WHERE name = CAST('a' AS BLOB)"), 0);
  EXPECT_GT(user->acquire(request_for("a"))->token.counter, last);
  EXPECT_GT(open_client(path)->acquire(request_for("new"))->token.counter, last);
}

TEST(CleanUpTest, WhatIsHeldOrWaitedForOrYoungStays) {
  const TempFolder folder;
  const std::string path = folder / "locks.db";
  auto user = open_client(path);
  finish(*user, "held");
  finish(*user, "queued");
  const auto held = request_for("held");
  ASSERT_TRUE(user->acquire(held));
  ASSERT_TRUE(user->acquire(request_for("queued")));
  ASSERT_EQ(user->acquire(request_for("queued"))->status, AcquisitionStatus::kWaiting);
  finish(*user, "z");
  use_once(path, forgetful());
  EXPECT_EQ(count(path, "extras WHERE name <> CAST('z' AS BLOB)"), 2);
  EXPECT_EQ(*user->release("held", held.id), EndStatus::kReleased);
  use_once(path, {});
  EXPECT_EQ(count(path, "extras"), 3) << "a week is not over";
}

// After a reboot the locks are gone, and what stands beside them ages all the same.
TEST(CleanUpTest, ValuesOfAnEarlierBootAreForgottenToo) {
  const TempFolder folder;
  const std::string path = folder / "locks.db";
  SqliteTuning before;
  before.boot_id = "boot-1";
  {
    auto client = open_client(path, before);
    for (int i = 0; i < 40; ++i) finish(*client, key(i));
  }
  SqliteTuning after;
  after.boot_id = "boot-2";
  use_once(path, after);
  EXPECT_EQ(count(path, "extras"), 40) << "a latch outlives a reboot";
  after.idle_kept = 0s;
  use_once(path, after);
  EXPECT_EQ(count(path, "extras"), 0);
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
