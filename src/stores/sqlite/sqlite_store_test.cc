#include <atomic>

#include "src/stores/sqlite/file/test_database_hog.h"
#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

TEST(SqliteStoreTest, AFreshFileInAMissingFolderGrantsAndReleases) {
  const TempFolder folder;
  auto client = open_client(folder / "a/b/locks.db");
  ASSERT_TRUE(client);
  const auto request = request_for("orders/42");
  const auto held = client->acquire(request);
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(held->status, AcquisitionStatus::kHeld);
  EXPECT_GT(held->token.counter, 0U);
  EXPECT_EQ(held->lease, machine::Duration(30s));
  const auto ended = client->release("orders/42", request.id);
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, EndStatus::kReleased);
  EXPECT_EQ(*client->release("orders/42", request.id), EndStatus::kGone);
}

TEST(SqliteStoreTest, TheSameAcquisitionGetsTheSameGrant) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto first = client->acquire(request);
  const auto second = client->acquire(request);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(first->token, second->token);
}

TEST(SqliteStoreTest, AnAcquireAfterItsOwnReleaseIsRefused) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  ASSERT_TRUE(client->acquire(request));
  ASSERT_TRUE(client->release("a", request.id));
  EXPECT_EQ(client->acquire(request)->status, AcquisitionStatus::kGone);
  const auto overtaken = request_for("a");
  ASSERT_EQ(*client->cancel("a", overtaken.id), EndStatus::kGone);
  EXPECT_EQ(client->acquire(overtaken)->status, AcquisitionStatus::kGone);
}

TEST(SqliteStoreTest, TokensGrowOverReleaseAndReopening) {
  const TempFolder folder;
  std::uint64_t last = 0;
  for (int opening = 0; opening < 3; ++opening) {
    auto client = open_client(folder / "locks.db");
    ASSERT_TRUE(client);
    for (int i = 0; i < 20; ++i) {
      const auto request = request_for("a");
      const auto held = client->acquire(request);
      ASSERT_TRUE(held);
      EXPECT_GT(held->token.counter, last);
      last = held->token.counter;
      ASSERT_TRUE(client->release("a", request.id));
    }
  }
}

TEST(SqliteStoreTest, AReleaseHandsOnAndWakesTheWaiterOfAnotherClient) {
  const TempFolder folder;
  auto one = open_client(folder / "locks.db");
  auto two = open_client(folder / "locks.db");
  const auto holder = request_for("a");
  const auto waiter = request_for("a");
  const auto held = one->acquire(holder);
  ASSERT_TRUE(held);
  const auto queued = two->acquire(waiter);
  ASSERT_TRUE(queued);
  EXPECT_EQ(queued->status, AcquisitionStatus::kWaiting);
  ASSERT_TRUE(queued->next_expiry);
  ASSERT_TRUE(one->release("a", holder.id));
  const auto push = two->pushes.wait_for(waiter.id);
  ASSERT_TRUE(push) << "nobody woke the waiter";
  EXPECT_EQ(push->kind, port::Push::Kind::kGranted);
  EXPECT_GT(push->state.token.counter, held->token.counter);
  EXPECT_EQ(push->state.seq, 0U);
  EXPECT_EQ(push->state.lease, machine::Duration(5s)) << "the waiter's lease is inherited";
}

TEST(SqliteStoreTest, AHeartbeatNamesTheRequestThatTheGrantCountsFrom) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto holder = request_for("a");
  const auto waiter = request_for("a");
  ASSERT_TRUE(client->acquire(holder));
  ASSERT_EQ(client->acquire(waiter)->status, AcquisitionStatus::kWaiting);
  const auto beaten = client->renew("a", waiter.id, 7);
  ASSERT_TRUE(beaten);
  EXPECT_EQ(beaten->status, AcquisitionStatus::kWaiting);
  EXPECT_EQ(beaten->ahead, 0U);
  EXPECT_EQ(beaten->seq, 7U);
  ASSERT_TRUE(client->release("a", holder.id));
  const auto push = client->pushes.wait_for(waiter.id);
  ASSERT_TRUE(push);
  EXPECT_EQ(push->state.seq, 7U);
}

TEST(SqliteStoreTest, ARenewalExtendsNeverCreates) {
  const TempFolder folder;
  std::atomic<std::int64_t> now = 1'000'000;  // The store cleans up on a thread of its own.
  SqliteTuning tuning;
  tuning.now = [&now] { return Instant(machine::Duration(now)); };
  auto client = open_client(folder / "locks.db", tuning);
  auto request = request_for("a");
  request.ttl = 1s;
  ASSERT_TRUE(client->acquire(request));
  now += 900'000;
  EXPECT_EQ(client->renew("a", request.id, 1, 1s)->status, AcquisitionStatus::kHeld);
  now += 900'000;
  EXPECT_EQ(client->inspect("a")->value().holders.size(), 1U);
  now += 100'000;
  EXPECT_EQ(client->renew("a", request.id, 2, 1s)->status, AcquisitionStatus::kGone);
  EXPECT_TRUE(client->inspect("a")->value().holders.empty());
  EXPECT_EQ(client->renew("b", request.id, 2, 1s)->status, AcquisitionStatus::kGone);
}

TEST(SqliteStoreTest, ADeadWaiterCostsNoMoreThanItsOwnLease) {
  const TempFolder folder;
  std::atomic<std::int64_t> now = 1'000'000;  // The store cleans up on a thread of its own.
  SqliteTuning tuning;
  tuning.now = [&now] { return Instant(machine::Duration(now)); };
  auto client = open_client(folder / "locks.db", tuning);
  const auto holder = request_for("a");
  const auto dead = request_for("a");
  const auto alive = request_for("a");
  ASSERT_TRUE(client->acquire(holder));
  ASSERT_TRUE(client->acquire(dead));
  ASSERT_TRUE(client->acquire(alive));
  now += 4'000'000;
  ASSERT_EQ(client->renew("a", alive.id, 1)->status, AcquisitionStatus::kWaiting);
  now += 1'000'001;
  ASSERT_TRUE(client->release("a", holder.id));
  EXPECT_EQ(client->renew("a", alive.id, 2)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(client->renew("a", dead.id, 1)->status, AcquisitionStatus::kGone);
}

TEST(SqliteStoreTest, ABatchSurvivesABadItem) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  std::vector<port::RenewItem> items;
  for (int i = 0; i < 300; ++i) {
    const auto request = request_for("lock" + std::to_string(i));
    ASSERT_TRUE(client->acquire(request));
    items.push_back({request.name, i % 7 == 0 ? new_id() : request.id, 1, 30s, 5s, {}});
  }
  items[3].ttl = machine::Duration(0);
  const auto results = client->renew(items);
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(results->at(i).error().code(), Errc::kInvalidArgument);
    } else {
      EXPECT_EQ(results->at(i)->status,
                i % 7 == 0 ? AcquisitionStatus::kGone : AcquisitionStatus::kHeld);
    }
  }
}

TEST(SqliteStoreTest, ReadersShareAndAWriterWaitsForAllOfThem) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  auto one = request_for("a");
  auto two = request_for("a");
  one.mode = two.mode = Mode{machine::ModeKind::kShared, 1, 1};
  const auto writer = request_for("a");
  EXPECT_EQ(client->acquire(one)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(client->acquire(two)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(client->acquire(writer)->status, AcquisitionStatus::kWaiting);
  ASSERT_TRUE(client->release("a", one.id));
  EXPECT_EQ(client->renew("a", writer.id, 1)->status, AcquisitionStatus::kWaiting);
  ASSERT_TRUE(client->release("a", two.id));
  EXPECT_EQ(client->renew("a", writer.id, 2)->status, AcquisitionStatus::kHeld);
}

TEST(SqliteStoreTest, ABreakFreesByTokenAndLeavesItsTrace) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  const auto held = client->acquire(request);
  ASSERT_TRUE(held);
  const auto break_it = [&](std::uint64_t token) {
    return client->wait<bool>([&](auto done) {
      client->store->break_lock({"a", {0, token}, owner_named("ops"), soon()}, done);
    });
  };
  EXPECT_EQ(break_it(held->token.counter + 1).error().code(), Errc::kLost);
  EXPECT_EQ(client->inspect("a")->value().holders.size(), 1U);
  ASSERT_TRUE(break_it(held->token.counter));
  EXPECT_EQ(client->renew("a", request.id, 1)->status, AcquisitionStatus::kGone);
  port::RenewItem item{"a", request.id, 2, 30s, 5s, {}};
  item.token = held->token;
  const auto told = client->renew(std::vector<port::RenewItem>{item});
  ASSERT_TRUE(told);
  ASSERT_FALSE(told->at(0));
  EXPECT_EQ(told->at(0).error().code(), Errc::kBroken);
  EXPECT_NE(told->at(0).error().message().find("ops"), std::string::npos);
  const auto info = client->inspect("a");
  ASSERT_TRUE(info->value().last_break);
  EXPECT_EQ(info->value().last_break->by.owner, "ops");
  EXPECT_EQ(info->value().last_break->token.counter, held->token.counter);
  EXPECT_TRUE(client->pushes.wait_for(request.id)) << "the broken holder gets a hint";
}

TEST(SqliteStoreTest, InspectAndListTellWhoHoldsAndWhoWaits) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto holder = request_for("a/1");
  auto waiter = request_for("a/1");
  waiter.owner = owner_named("bob");
  ASSERT_TRUE(client->acquire(holder));
  ASSERT_TRUE(client->acquire(waiter));
  ASSERT_TRUE(client->acquire(request_for("a/2")));
  ASSERT_TRUE(client->acquire(request_for("b")));
  const auto free = request_for("a/3");
  ASSERT_TRUE(client->acquire(free));
  ASSERT_TRUE(client->release("a/3", free.id));

  const auto info = client->inspect("a/1");
  ASSERT_TRUE(info && *info);
  ASSERT_EQ((*info)->holders.size(), 1U);
  EXPECT_EQ((*info)->holders[0].who.owner, "alice");
  EXPECT_EQ((*info)->holders[0].who.reason, "because");
  EXPECT_EQ((*info)->holders[0].who.pid, 42);
  ASSERT_EQ((*info)->waiters.size(), 1U);
  EXPECT_EQ((*info)->waiters[0].who.owner, "bob");
  const auto listed = client->list("a/");
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ(listed->at(0).name, "a/1");
  EXPECT_EQ(listed->at(1).name, "a/2");
  EXPECT_EQ(client->list("", 2)->size(), 2U);
}

TEST(SqliteStoreTest, AValueIsSetByTheHolderOnlyAndStays) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  ASSERT_TRUE(client->acquire(request));
  const auto set = [&](AcquisitionId id, const std::string& value) {
    return client->wait<bool>([&](auto done) {
      client->store->set_value({"a", id, soon()}, value, done);
    });
  };
  EXPECT_EQ(set(new_id(), "x").error().code(), Errc::kLost);
  ASSERT_TRUE(set(request.id, std::string("le\0ader", 7)));
  ASSERT_TRUE(client->release("a", request.id));
  const auto value =
      client->wait<std::string>([&](auto done) { client->store->get_value("a", soon(), done); });
  EXPECT_EQ(*value, std::string("le\0ader", 7));
}

TEST(SqliteStoreTest, ABlockOfTokensThatRunsOutIsRenewedWithoutAGap) {
  const TempFolder folder;
  SqliteTuning tuning;
  tuning.token_block = 600;
  auto client = open_client(folder / "locks.db", tuning);
  auto other = open_client(folder / "locks.db", tuning);
  std::uint64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto request = request_for("a");
    auto& now = i % 3 == 0 ? *other : *client;
    const auto held = now.acquire(request);
    ASSERT_TRUE(held) << held.error().message();
    ASSERT_GT(held->token.counter, last);
    last = held->token.counter;
    ASSERT_TRUE(now.release("a", request.id));
  }
}

TEST(SqliteStoreTest, AnInlineCallDoesWhatThePostedOneDoes) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  const auto request = request_for("a");
  auto held = client->store->acquire_inline(request);
  ASSERT_TRUE(held && *held);
  EXPECT_EQ((*held)->status, AcquisitionStatus::kHeld);
  auto busy = request_for("a");
  busy.may_wait = false;
  EXPECT_EQ((*client->store->acquire_inline(busy))->status, AcquisitionStatus::kBusy);
  const auto ended = client->store->release_inline({"a", request.id, soon()});
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ(**ended, EndStatus::kReleased);
}

TEST(SqliteStoreTest, AfterCloseEverythingAnswersClosed) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  client->store->close(soon());
  EXPECT_EQ(client->acquire(request_for("a")).error().code(), Errc::kClosed);
  EXPECT_FALSE(client->store->acquire_inline(request_for("a")));
}

TEST(SqliteStoreTest, CloseEndsInTimeThoughAnotherProcessKeepsTheDatabaseLocked) {
  const TempFolder folder;
  const Hog hog(folder / "locks.db");
  std::atomic<int> looked{0};
  SqliteTuning tuning;
  tuning.now = [&] {
    ++looked;
    return machine::Instant(
        std::chrono::duration_cast<machine::Duration>(base::host_boot_now().time_since_epoch()));
  };
  auto client = open_client(folder / "locks.db", tuning);
  ASSERT_NE(client, nullptr);
  const auto request = request_for("a");
  ASSERT_TRUE(client->acquire(request));
  ASSERT_TRUE(client->renew("a", request.id, 1));
  hog.lock();
  looked = 0;
  const auto begun = base::BootClock::now();
  std::thread renewing([&] { EXPECT_FALSE(client->renew("a", request.id, 2)); });
  std::thread releasing([&] { EXPECT_FALSE(client->release("a", request.id)); });
  while (looked == 0) std::this_thread::yield();  // The release goes to the database now.
  client->store->close(soon(300ms));
  releasing.join();
  renewing.join();
  // Their own deadlines lie five seconds ahead.
  EXPECT_LT(base::BootClock::now() - begun, 3s);
  hog.let_go();
}

TEST(SqliteStoreTest, AnInlineCallThatFindsNoMemoryLeavesTheStoreToOthers) {
  const TempFolder folder;
  std::atomic<bool> no_memory{false};
  SqliteTuning tuning;
  tuning.now = [&] {
    if (no_memory.exchange(false)) throw std::bad_alloc();
    return machine::Instant(
        std::chrono::duration_cast<machine::Duration>(base::host_boot_now().time_since_epoch()));
  };
  auto client = open_client(folder / "locks.db", tuning);
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->acquire(request_for("a")));
  no_memory = true;
  EXPECT_THROW(static_cast<void>(client->store->acquire_inline(request_for("b"))), std::bad_alloc);
  EXPECT_FALSE(no_memory);
  EXPECT_TRUE(client->acquire(request_for("c")));
}

TEST(SqliteStoreTest, ARequestWhoseDeadlineHasPassedIsNotApplied) {
  const TempFolder folder;
  auto client = open_client(folder / "locks.db");
  auto request = request_for("a");
  request.deadline = base::BootClock::now();
  EXPECT_EQ(client->acquire(request).error().code(), Errc::kUnavailable);
  EXPECT_FALSE(client->inspect("a")->has_value());
}

TEST(SqliteStoreTest, UnknownOptionsAndRelativePathsAreRefusedByName) {
  const auto open = [](const char* text) {
    auto url = port::StoreUrl::parse(text);
    TestLoop loop;
    auto store = make_sqlite_store(*url, {&loop, nullptr, "o"});
    return store ? std::string() : store.error().message();
  };
  EXPECT_NE(open("sqlite:///tmp/x.db?colour=blue").find("colour"), std::string::npos);
  EXPECT_NE(open("sqlite:x.db").find("absolute"), std::string::npos);
  EXPECT_NE(open("sqlite://host/x.db").find("three slashes"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
