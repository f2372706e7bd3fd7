// With ?recipe= a real client of another library and Holdfast exclude each other.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

constexpr auto kLong = 60s;  // A machine may stand still for a while.

support::ZookeeperServer& server() {
  static support::ZookeeperServer the_server;
  return the_server;
}

class RecipeSite final : public Site {
 public:
  explicit RecipeSite(std::string rest) : rest_(std::move(rest)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_zookeeper_store(*port::StoreUrl::parse(server().url(rest_)), context);
  }
  void pass(Duration) override {}

 private:
  const std::string rest_;
};

// A process that takes the lock, says so, and holds it until it is told to let go.
class Peer {
 public:
  explicit Peer(std::vector<std::string> command, const std::string& path,
                const std::vector<std::string>& more = {}) {
    command.insert(command.end(), {server().servers(), path, folder_.file("let-go")});
    command.insert(command.end(), more.begin(), more.end());
    process_ = std::make_unique<support::ChildProcess>(
        support::Command{.arguments = command, .environment = {}, .output = folder_.file("out")});
  }
  bool says(const std::string& word, std::chrono::milliseconds within = kLong) {
    const auto until = std::chrono::steady_clock::now() + within;
    while (said().find(word) == std::string::npos) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
  std::string said() const {
    std::ifstream file(folder_.file("out"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void let_go() { std::ofstream(folder_.file("let-go")) << "now"; }

 private:
  support::TempFolder folder_{"peer"};
  std::unique_ptr<support::ChildProcess> process_;
};

std::size_t waiters(Client& client, const std::string& name) {
  const auto info = client.inspect(name);
  return info && *info ? (*info)->waiters.size() : 0;
}

// Theirs first, then ours, then theirs again.
void exclude_each_other(const std::string& rest, const std::vector<std::string>& command,
                        const std::vector<std::string>& more, Mode ours) {
  RecipeSite site(rest);
  Client client(site, "alice");
  const std::string name = "locks/orders";
  Peer first(command, "/" + name, more);
  ASSERT_TRUE(first.says("held")) << first.said();
  Request tried(name, {1, 1}, ours);
  const auto busy = client.acquire(tried.no_wait());
  ASSERT_TRUE(busy) << busy.error().message();
  EXPECT_EQ(busy->status, AcquisitionStatus::kBusy);
  const AcquisitionId id{1, 2};
  const auto asked = client.acquire(Request(name, id, ours));
  ASSERT_TRUE(asked) << asked.error().message();
  EXPECT_EQ(asked->status, AcquisitionStatus::kWaiting);
  first.let_go();
  ASSERT_TRUE(client.inbox().next(id, kLong)) << first.said();

  Peer second(command, "/" + name, more);
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (waiters(client, name) == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(waiters(client, name), 1U) << second.said();
  EXPECT_EQ(second.said().find("held"), std::string::npos);
  ASSERT_TRUE(client.release(name, id));
  EXPECT_TRUE(second.says("held")) << second.said();
  second.let_go();
  EXPECT_TRUE(second.says("released")) << second.said();
}

// Its holder, who does not look after its node, gives back what it has no more, and harms nobody.
void break_takes_the_lock(const std::string& rest, const std::vector<std::string>& command,
                          const std::vector<std::string>& more) {
  RecipeSite site(rest);
  Client client(site, "alice");
  const std::string name = "locks/orders";
  Peer first(command, "/" + name, more);
  ASSERT_TRUE(first.says("held")) << first.said();
  const AcquisitionId id{1, 1};
  const auto asked = client.acquire(Request(name, id));
  ASSERT_TRUE(asked) << asked.error().message();
  EXPECT_EQ(asked->status, AcquisitionStatus::kWaiting);
  const auto shown = client.inspect(name);
  ASSERT_TRUE(shown && *shown);
  const machine::Token token{0, (*shown)->holders.at(0).token.counter};
  const auto another = client.break_lock(name, {0, token.counter + 1});
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().code(), Errc::kLost) << another.error().message();
  const auto broken = client.break_lock(name, token);
  ASSERT_TRUE(broken) << broken.error().message();
  ASSERT_TRUE(client.inbox().next(id, kLong)) << first.said();
  first.let_go();
  EXPECT_TRUE(first.says("released")) << first.said();
  const auto after = client.inspect(name);
  ASSERT_TRUE(after && *after);
  EXPECT_EQ((*after)->holders.size(), 1U);
  ASSERT_TRUE(client.release(name, id));
}

class ZookeeperRecipe : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_ZOOKEEPER(); }
};

// Compiled once: each start of the source would compile it anew.
std::vector<std::string> curator() {
  static const support::TempFolder compiled;
  std::string classes = compiled.path() + ":";
  for (const char* const jar :
       {"curator-client", "curator-framework", "curator-recipes", "zookeeper", "zookeeper-jute",
        "guava", "failureaccess", "slf4j-api", "netty-all"}) {
    classes += std::string("/usr/share/java/") + jar + ".jar:";
  }
  if (!std::filesystem::exists(compiled.path() + "/CuratorPeer.class")) {
    support::run(
        {"javac", "-cp", classes, "-d", compiled.path(), HOLDFAST_PEERS "/CuratorPeer.java"});
  }
  return {"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "CuratorPeer"};
}

std::string no_curator() {
  if (!support::find_program("javac")) return "no program 'javac' (package default-jdk-headless)";
  if (!std::filesystem::exists("/usr/share/java/curator-recipes.jar")) {
    return "no Curator (package libcurator-recipes-java)";
  }
  return {};
}

// Debian's own: the package's modules are not those of another python3 in PATH.
constexpr char kPython[] = "/usr/bin/python3";

std::string no_kazoo() {
  try {
    support::run({kPython, "-c", "import kazoo"});
    return {};
  } catch (const std::exception&) {
    return "no kazoo (package python3-kazoo)";
  }
}

TEST_F(ZookeeperRecipe, KazoosLock) {
  if (const std::string why = no_kazoo(); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
  const std::vector<std::string> kazoo{kPython, HOLDFAST_PEERS "/kazoo_peer.py"};
  exclude_each_other("?session=10s&recipe=kazoo", kazoo, {}, Mode::exclusive());
  break_takes_the_lock("?session=10s&recipe=kazoo", kazoo, {});
}

TEST_F(ZookeeperRecipe, CuratorsMutex) {
  if (const std::string why = no_curator(); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
  exclude_each_other("?session=10s&recipe=curator", curator(), {"mutex"}, Mode::exclusive());
  break_takes_the_lock("?session=10s&recipe=curator", curator(), {"mutex"});
}

TEST_F(ZookeeperRecipe, CuratorsReadWriteLock) {
  if (const std::string why = no_curator(); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
  exclude_each_other("?session=10s&recipe=curator-rw", curator(), {"write"}, Mode::shared());
  exclude_each_other("?session=10s&recipe=curator-rw", curator(), {"read"}, Mode::exclusive());
  break_takes_the_lock("?session=10s&recipe=curator-rw", curator(), {"read"});
}

// A holder by kazoo would not exclude Curator's mutex, nor the reverse.
TEST_F(ZookeeperRecipe, AContenderOfAThirdKindIsRefused) {
  if (const std::string why = no_kazoo(); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
  RecipeSite site("?session=10s&recipe=curator");
  Client client(site, "alice");
  const std::string name = "locks/mixed";
  const AcquisitionId waiting{1, 1};
  ASSERT_TRUE(client.acquire(Request(name, {1, 9})));
  const auto queued = client.acquire(Request(name, waiting));
  ASSERT_TRUE(queued) << queued.error().message();
  EXPECT_EQ(queued->status, AcquisitionStatus::kWaiting);
  Peer kazoo({kPython, HOLDFAST_PEERS "/kazoo_peer.py"}, "/" + name);
  ASSERT_TRUE(kazoo.says("held")) << kazoo.said();
  // The waiter is let in by nobody now, and one who comes is not let in at all.
  ASSERT_TRUE(client.release(name, {1, 9}));
  const auto until = std::chrono::steady_clock::now() + kLong;
  auto told = client.acquire(Request(name, waiting));
  while (told && told->status == AcquisitionStatus::kWaiting &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(10ms);  // It looks when it hears of a change.
    told = client.acquire(Request(name, waiting));
  }
  // Whoever asks in time is told why; the place is gone in any case.
  EXPECT_TRUE(told ? told->status == AcquisitionStatus::kGone
                   : told.error().code() == Errc::kUnsupported);
  const auto tried = client.acquire(Request(name, {1, 2}).no_wait());
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code(), Errc::kUnsupported) << tried.error().message();
  EXPECT_NE(tried.error().message().find("__lock__"), std::string::npos) << tried.error().message();
  kazoo.let_go();
  ASSERT_TRUE(kazoo.says("released")) << kazoo.said();
  // None of those who were refused has left a contender.
  const AcquisitionId after{1, 3};
  const auto held = client.acquire(Request(name, after));
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(held->status, AcquisitionStatus::kHeld);
  ASSERT_TRUE(client.release(name, after));
}

TEST_F(ZookeeperRecipe, WhatTheOtherLibraryDoesNotKnowIsRefused) {
  RecipeSite site("?session=10s&recipe=kazoo");
  Client client(site, "alice");
  const auto shared = client.acquire(Request("locks/a", {1, 1}, Mode::shared()));
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code(), Errc::kUnsupported);
  const auto listed = client.list("locks/");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), Errc::kUnsupported);
  EXPECT_NE(listed.error().message().find("'holdfast inspect NAME'"), std::string::npos);
  std::uint64_t last = 1;
  for (const char* name : {"/a", ".", "a/./b", "a//b", "a/.."}) {
    const auto bad = client.acquire(Request(name, {1, ++last}));
    ASSERT_FALSE(bad) << name;
    EXPECT_EQ(bad.error().code(), Errc::kInvalidArgument) << bad.error().message();
    const auto shown = client.inspect(name);
    ASSERT_FALSE(shown) << name;
    EXPECT_EQ(shown.error().code(), Errc::kInvalidArgument) << shown.error().message();
  }
}

}  // namespace
}  // namespace holdfast::testing
