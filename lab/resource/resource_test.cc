#include "lab/resource/resource.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace holdfast::lab {
namespace {

constexpr ModeKind kExclusive = ModeKind::kExclusive;
constexpr ModeKind kShared = ModeKind::kShared;
constexpr ModeKind kPermits = ModeKind::kPermits;

class ResourceTest : public testing::Test {
 protected:
  std::string path() const { return folder_.file("resource"); }

  const support::TempFolder folder_{"resource"};
};

TEST_F(ResourceTest, RefusesWhatIsBelowTheHighestExclusiveToken) {
  Result<Resource> made = Resource::create(path(), 2);
  ASSERT_TRUE(made) << made.error().message();
  Resource& resource = *made;
  EXPECT_EQ(resource.write(0, kExclusive, {0, 5}, {0, 1}).sequence, 1U);
  EXPECT_TRUE(resource.write(0, kExclusive, {0, 5}, {0, 1}).accepted);
  EXPECT_FALSE(resource.write(0, kExclusive, {0, 5}, {0, 2}).accepted);
  EXPECT_FALSE(resource.write(0, kExclusive, {0, 4}, {0, 2}).accepted);
  EXPECT_FALSE(resource.write(0, kShared, {0, 5}, {0, 3}).accepted);
  EXPECT_TRUE(resource.write(0, kShared, {0, 9}, {0, 3}).accepted);
  EXPECT_TRUE(resource.write(0, kExclusive, {0, 6}, {0, 4}).accepted);  // The 9 raised nothing.
  EXPECT_TRUE(resource.write(0, kPermits, {0, 1}, {0, 5}).accepted);
  const WriteAnswer refused = resource.write(0, kExclusive, {0, 1}, {0, 6});
  EXPECT_EQ(refused.seen, (Token{0, 6}));
  EXPECT_EQ(refused.sequence, 0U);
  EXPECT_TRUE(resource.write(0, kExclusive, {1, 0}, {0, 7}).accepted);
  EXPECT_EQ(resource.write(1, kExclusive, {0, 1}, {0, 6}).sequence, 1U);
  EXPECT_EQ(resource.refused(), 4U);
}

TEST_F(ResourceTest, NumbersTheWritesOfAllThreadsOnce) {
  Result<Resource> made = Resource::create(path(), 1);
  ASSERT_TRUE(made) << made.error().message();
  constexpr std::size_t kEach = 5000;
  std::vector<std::vector<std::uint64_t>> numbers(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      threads.emplace_back([&, i] {
        Result<Resource> own = Resource::open(path());
        ASSERT_TRUE(own) << own.error().message();
        for (std::size_t n = 0; n < kEach; ++n) {
          numbers[i].push_back(own->write(0, kExclusive, {}, {0, i + 1}).sequence);
        }
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& each : numbers) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i + 1);
  EXPECT_EQ(all.size(), kEach * numbers.size());
}

TEST_F(ResourceTest, AWriterThatIsKilledHarmsNobody) {
  constexpr std::uint64_t kLeft = 10'000;  // Room that is left for us.
  for (int round = 0; round < 10; ++round) {
    ::unlink(path().c_str());
    Result<Resource> made = Resource::create(path(), 1);
    ASSERT_TRUE(made) << made.error().message();
    const auto write = [&](std::uint64_t id) {
      return made->write(0, kExclusive, {}, {0, id}).sequence;
    };
    const pid_t child = ::fork();
    if (child == 0) {
      while (write(1) < Resource::kRoom - kLeft) {
      }
      for (;;) ::pause();
    }
    // It writes between two of ours.
    for (std::uint64_t before = write(2), now = 0; (now = write(2)) == before + 1; before = now) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const std::uint64_t then = write(2);
    ASSERT_EQ(write(2), then + 1);
  }
}

TEST_F(ResourceTest, AnythingElseIsNoResource) {
  EXPECT_EQ(Resource::open(path()).error().code(), Errc::kUnavailable);
  Result<Resource> made = Resource::create(path(), 1);
  ASSERT_TRUE(made);
  EXPECT_EQ(Resource::create(path(), 1).error().code(), Errc::kUnavailable);
  ASSERT_EQ(::truncate(path().c_str(), 100), 0);
  EXPECT_EQ(Resource::open(path()).error().code(), Errc::kCorruptState);
}

}  // namespace
}  // namespace holdfast::lab
