// The memory store's own tests; those that all stores share are in tests/conformance.
#include "src/stores/memory/memory_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::stores {
namespace {

using namespace std::chrono_literals;
using port::AcquisitionStatus;

// Runs when the test says so.
class HandLoop final : public port::Loop {
 public:
  void post(port::Task task) override { tasks_.push_back(std::move(task)); }
  std::size_t run() {
    std::size_t ran = 0;
    for (; !tasks_.empty(); ++ran) {
      port::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return ran;
  }
  std::size_t waiting() const { return tasks_.size(); }

 private:
  std::deque<port::Task> tasks_;
};

class CountingListener final : public port::Listener {
 public:
  void on_push(const port::Push&) override { ++pushes; }
  int pushes = 0;
};

class MemoryStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<port::Store> open(const std::string& text) {
    auto url = port::StoreUrl::parse(text);
    EXPECT_TRUE(url) << text;
    auto store = make_memory_store(*url, {&loop_, &listener_, "me"});
    EXPECT_TRUE(store) << text;
    return *std::move(store);
  }
  Result<std::unique_ptr<port::Store>> try_open(const std::string& text) {
    return make_memory_store(*port::StoreUrl::parse(text), {&loop_, &listener_, "me"});
  }
  port::AcquireRequest ask(const std::string& name, bool may_wait = false) {
    port::AcquireRequest request;
    request.name = name;
    request.id = {77, ++last_id_};
    request.may_wait = may_wait;
    request.ttl = request.waiter_ttl = 30s;
    return request;
  }
  static Result<port::AcquisitionState> take(port::Store& store,
                                             const port::AcquireRequest& request) {
    return store.acquire_inline(request).value();
  }

  HandLoop loop_;
  CountingListener listener_;
  std::uint64_t last_id_ = 0;
};

TEST_F(MemoryStoreTest, ANamedHubIsSharedAndAnUnnamedOneIsNot) {
  const auto first = open("memory:shared");
  const auto second = open("memory:shared");
  const auto other = open("memory:other");
  const auto own = open("memory:");
  const auto alone = open("memory:");
  EXPECT_EQ(take(*first, ask("a"))->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(take(*second, ask("a"))->status, AcquisitionStatus::kBusy);
  EXPECT_EQ(take(*other, ask("a"))->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(take(*own, ask("a"))->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(take(*alone, ask("a"))->status, AcquisitionStatus::kHeld);
}

TEST_F(MemoryStoreTest, AHubEndsWithItsLastClientAndTokensGrowAllTheSame) {
  machine::Token last{};
  for (int i = 0; i < 50; ++i) {
    const auto store = open("memory:comes/and/goes");
    const auto grant = take(*store, ask("a"));  // Never released: it goes with the hub.
    ASSERT_EQ(grant->status, AcquisitionStatus::kHeld);
    EXPECT_GT(grant->token, last);
    last = grant->token;
  }
}

TEST_F(MemoryStoreTest, TokensBeginAtTheWallClock) {
  const auto store = open("memory:");
  const auto grant = take(*store, ask("a"));
  const auto wall = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  EXPECT_GT(grant->token.counter, static_cast<std::uint64_t>((wall - 1h).count()));
}

TEST_F(MemoryStoreTest, UnknownPartsOfTheUrlAreRefused) {
  for (const std::string url :
       {"memory:x?colour=red", "memory://host/x", "memory:?busy_timeout=1s"}) {
    const auto store = try_open(url);
    ASSERT_FALSE(store) << url;
    EXPECT_EQ(store.error().code(), Errc::kInvalidArgument);
  }
  EXPECT_NE(try_open("memory:x?colour=red").error().message().find("colour"), std::string::npos);
}

TEST_F(MemoryStoreTest, NothingIsDeliveredInline) {
  const auto store = open("memory:");
  int answers = 0;
  store->acquire(ask("a"), [&](const auto&) { ++answers; });
  EXPECT_EQ(answers, 0);
  EXPECT_EQ(loop_.waiting(), 1U);
  loop_.run();
  EXPECT_EQ(answers, 1);
}

TEST_F(MemoryStoreTest, AClosedStoreIsNotPushedTo) {
  const auto holder = open("memory:push");
  const auto waiter = open("memory:push");
  const auto held = ask("a");
  ASSERT_EQ(take(*holder, held)->status, AcquisitionStatus::kHeld);
  ASSERT_EQ(take(*waiter, ask("a", /*may_wait=*/true))->status, AcquisitionStatus::kWaiting);
  ASSERT_TRUE(holder->release_inline({"a", held.id, {}}).value());
  waiter->close(base::BootClock::now());  // The push is posted, and not delivered yet.
  loop_.run();
  EXPECT_EQ(listener_.pushes, 0);
}

TEST_F(MemoryStoreTest, ATicketOfAClosedClientStillHoldsUntilItsLeaseEnds) {
  const auto observer = open("memory:lease");
  {
    const auto store = open("memory:lease");
    ASSERT_EQ(take(*store, ask("a"))->status, AcquisitionStatus::kHeld);
  }
  EXPECT_EQ(take(*observer, ask("a"))->status, AcquisitionStatus::kBusy);
}

TEST_F(MemoryStoreTest, CloseGivesUpOnALoopThatIsStuckAtItsDeadline) {
  const auto store = open("memory:");
  int answers = 0;
  store->acquire(ask("a"), [&](const auto&) { ++answers; });
  const auto before = base::BootClock::now();
  store->close(before + 20ms);
  EXPECT_GE(base::BootClock::now(), before + 20ms);
  loop_.run();
  EXPECT_EQ(answers, 1);
}

TEST_F(MemoryStoreTest, ATicketThatWasTakenOverIsToldToWhoRenewsIt) {
  HandLoop other_loop;
  CountingListener other;
  const auto first = open("memory:adopt");
  auto second =
      *make_memory_store(*port::StoreUrl::parse("memory:adopt"), {&other_loop, &other, "them"});
  const auto held = ask("a");
  const auto grant = take(*first, held);
  ASSERT_EQ(grant->status, AcquisitionStatus::kHeld);
  second->renew({{"a", held.id, 1, 30s, 30s}}, {}, [](const auto&) {});
  second->break_lock({"a", grant->token, nullptr, {}}, [](const auto&) {});
  loop_.run();
  other_loop.run();
  EXPECT_EQ(listener_.pushes, 0);
  EXPECT_EQ(other.pushes, 1);
}

TEST_F(MemoryStoreTest, TheTracesOfBreaksAreBounded) {
  const auto store = open("memory:");
  for (int i = 0; i < 1100; ++i) {
    const std::string name = "b/" + std::to_string(i);
    const auto grant = take(*store, ask(name));
    store->break_lock({name, grant->token, nullptr, {}},
                      [](const auto& done) { ASSERT_TRUE(done); });
  }
  loop_.run();
  int known = 0;
  for (const int i : {0, 50, 100, 1099}) {
    store->inspect("b/" + std::to_string(i), {}, [&](const auto& info) {
      if (*info && (*info)->last_break) ++known;
    });
  }
  loop_.run();
  EXPECT_EQ(known, 2);  // The newest 1024: from number 76 on.
}

// The child inherits neither locks nor the parent's hub, which another thread may have locked.
TEST_F(MemoryStoreTest, AForkedChildHasHubsOfItsOwn) {
  const auto store = open("memory:fork");
  const auto held = ask("a");
  ASSERT_EQ(take(*store, held)->status, AcquisitionStatus::kHeld);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    store->abandon_after_fork();
    const auto refused = store->release_inline({"a", held.id, {}});
    const bool closed = refused && !*refused && refused->error().code() == Errc::kClosed;
    const auto own = open("memory:fork");
    const bool fresh = take(*own, ask("a"))->status == AcquisitionStatus::kHeld;
    ::_exit(closed && fresh ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(take(*store, ask("a"))->status, AcquisitionStatus::kBusy);
}

}  // namespace
}  // namespace holdfast::stores
