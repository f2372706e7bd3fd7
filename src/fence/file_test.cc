#include "holdfast/fence/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace holdfast::fence {
namespace {

using namespace std::chrono_literals;

class FenceFileTest : public ::testing::Test {
 protected:
  Result<FileGuard> enter(std::uint64_t counter, const Mode& mode = Mode::exclusive(),
                          const std::string& resource = "stock") {
    return FileGuard::enter(path_, resource, Token{0, counter}, mode, 0ms);
  }
  Errc error(std::uint64_t counter, const Mode& mode = Mode::exclusive(),
             const std::string& resource = "stock") {
    return enter(counter, mode, resource).error().code();
  }
  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& text) const { std::ofstream(path_, std::ios::trunc) << text; }
  void remember(std::uint64_t counter) { ASSERT_TRUE(enter(counter).has_value()); }

  support::TempFolder folder_{"fence"};
  std::string path_ = folder_.file("stock.fence");
};

TEST_F(FenceFileTest, RemembersTheHighestExclusiveToken) {
  EXPECT_EQ(*FileGuard::recorded(path_, "stock"), std::nullopt);
  remember(5);
  remember(7);
  EXPECT_EQ(error(6), Errc::kLost);
  remember(7);
  EXPECT_EQ(*FileGuard::recorded(path_, "stock"), (Token{0, 7}));
}

TEST_F(FenceFileTest, SharedTokensAreCheckedAndNotRemembered) {
  EXPECT_TRUE(enter(9, Mode::shared()).has_value());
  remember(5);
  EXPECT_TRUE(enter(9, Mode::shared()).has_value());
  EXPECT_EQ(error(5, Mode::shared()), Errc::kLost);
  EXPECT_EQ(*FileGuard::recorded(path_, "stock"), (Token{0, 5}));
}

TEST_F(FenceFileTest, WhatIsNoRegularFileIsRefusedAndNothingIsLeftBesideIt) {
  struct Case {
    const char* is;
    std::function<int(const char*)> make;
  };
  const std::vector<Case> cases{
      {"is a directory", [](const char* path) { return ::mkdir(path, 0700); }},
      {"is not a regular file", [](const char* path) { return ::mkfifo(path, 0600); }},
      {"symbolic link", [](const char* path) { return ::symlink("/dev/null", path); }}};
  for (const Case& each : cases) {
    const support::TempFolder folder("fence");
    const std::string path = folder.file("odd");
    ASSERT_EQ(each.make(path.c_str()), 0);
    const auto guard = FileGuard::enter(path, "stock", Token{0, 5});
    ASSERT_FALSE(guard.has_value()) << each.is;
    EXPECT_EQ(guard.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(guard.error().message().find(each.is), std::string::npos) << guard.error().message();
    EXPECT_NE(::access((path + ".lock").c_str(), F_OK), 0) << each.is;
    EXPECT_EQ(FileGuard::recorded(path, "stock").error().code(), Errc::kInvalidArgument);
  }
}

TEST_F(FenceFileTest, WhatIsRefusedWithoutARecordLeavesNoFile) {
  EXPECT_EQ(error(0), Errc::kInvalidArgument);
  EXPECT_EQ(error(5, Mode::permits(1, 2)), Errc::kUnsupported);
  EXPECT_EQ(error(5, Mode::exclusive(), "a\nb"), Errc::kInvalidArgument);
  EXPECT_NE(::access((path_ + ".lock").c_str(), F_OK), 0);
}

TEST_F(FenceFileTest, OneFileIsForOneResource) {
  remember(5);
  EXPECT_EQ(error(9, Mode::exclusive(), "other"), Errc::kInvalidArgument);
  EXPECT_EQ(FileGuard::recorded(path_, "other").error().code(), Errc::kInvalidArgument);
}

TEST_F(FenceFileTest, NoDamageIsEverTakenForAToken) {
  remember(5);
  const std::string whole = content();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(whole.substr(0, size));
    EXPECT_FALSE(enter(9).has_value()) << "cut to " << size;
    std::string flipped = whole;
    flipped[size] = static_cast<char>(flipped[size] ^ 1);
    overwrite(flipped);
    EXPECT_FALSE(enter(9).has_value()) << "flipped at " << size;
  }
  overwrite(whole + "x");
  EXPECT_EQ(error(9), Errc::kCorruptState);
  overwrite(std::string(100'000, 'x'));
  EXPECT_EQ(error(9), Errc::kCorruptState);
  overwrite("");
  EXPECT_EQ(error(9), Errc::kCorruptState);
  overwrite(whole);
  remember(9);
}

TEST_F(FenceFileTest, ALaterFormIsRefusedByName) {
  overwrite("holdfast-fence 2\nwhatever\n");
  EXPECT_EQ(error(9), Errc::kVersionMismatch);
}

TEST_F(FenceFileTest, OnlyARegularFileIsARecord) {
  ASSERT_EQ(::symlink("/etc/hostname", path_.c_str()), 0);
  EXPECT_EQ(error(9), Errc::kInvalidArgument);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(error(9), Errc::kInvalidArgument);
}

TEST_F(FenceFileTest, AFolderThatIsNotThereIsTheCallersMistake) {
  path_ = folder_.file("no/such/folder");
  EXPECT_EQ(error(9), Errc::kInvalidArgument);
}

TEST_F(FenceFileTest, LitterOfAKilledWriterIsNoObstacle) {
  std::ofstream(path_ + ".new") << "half of a rec";
  remember(5);
  EXPECT_NE(::access((path_ + ".new").c_str(), F_OK), 0);
}

TEST_F(FenceFileTest, NamesOfAnyBytesComeBack) {
  const std::string name = "a b%\xff/\xc3\xa4{}";
  ASSERT_TRUE(enter(5, Mode::exclusive(), name).has_value());
  EXPECT_EQ(*FileGuard::recorded(path_, name), (Token{0, 5}));
}

TEST_F(FenceFileTest, EachResourceHasItsOwnFileInAFolder) {
  const std::string base(255, 'x');
  const std::vector<std::string> names = {"a",   "A", "a/b",  "a%2Fb", "..",       ".",
                                          "a b", "~", "\xff", base,    base + "x", base + "y"};
  std::set<std::string> paths;
  for (const std::string& name : names) {
    const std::string path = FileGuard::path_in(folder_.path(), name);
    paths.insert(path);
    EXPECT_EQ(path.find('/', folder_.path().size() + 1), path.npos) << path;
    EXPECT_TRUE(FileGuard::enter(path, name, Token{0, 5}).has_value()) << path;
  }
  EXPECT_EQ(paths.size(), names.size());
}

TEST_F(FenceFileTest, NobodyEntersWhileAHolderIsInThere) {
  auto inside = enter(5);
  ASSERT_TRUE(inside.has_value());
  EXPECT_EQ(error(6), Errc::kTimedOut);
  EXPECT_EQ(error(6, Mode::shared()), Errc::kTimedOut);
  EXPECT_EQ(*FileGuard::recorded(path_, "stock"), (Token{0, 5})) << "nothing was checked";

  std::atomic<bool> gone = false;
  std::thread next([&] {
    const auto entered = FileGuard::enter(path_, "stock", Token{0, 6});
    EXPECT_TRUE(entered.has_value());
    EXPECT_TRUE(gone) << "waited for the one inside";
  });
  gone = true;
  { const FileGuard leaves = *std::move(inside); }
  next.join();
}

TEST_F(FenceFileTest, SharedHoldersAreInThereTogether) {
  const auto one = enter(5, Mode::shared());
  const auto other = enter(6, Mode::shared());
  EXPECT_TRUE(one.has_value() && other.has_value());
  EXPECT_EQ(error(7), Errc::kTimedOut);
}

}  // namespace
}  // namespace holdfast::fence
