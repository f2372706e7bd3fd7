// Writers are killed at random instants; what their record() had returned for must be there.
#include "lab/recorder/recorder.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/machine/testing/dice.h"
#include "tests/support/temp_folder.h"

#include "lab/recorder/collector.h"

namespace holdfast::lab {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  Recorder recorder(std::uint32_t process, std::uint64_t capacity) {
    return Recorder::create(folder_, process, capacity).value();
  }

  const support::TempFolder place_{"recorder"};
  const std::string folder_ = place_.path();
};

constexpr std::size_t kWriters = 8;
constexpr std::uint64_t kCapacity = 60'000;

// How far each writer got, seen from outside: the side channel that the events are compared with.
using Progress = std::array<std::atomic<std::uint64_t>, kWriters>;

[[noreturn]] void write_until_killed(const std::string& folder, std::uint32_t process,
                                     std::atomic<std::uint64_t>& progress) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // No writer outlives a test that was ended.
  Result<Recorder> recorder = Recorder::create(folder, process, kCapacity);
  if (!recorder) progress.store(~0ULL, std::memory_order_release);  // Seen as events that lack.
  for (std::uint64_t i = 1; recorder && i <= kCapacity; ++i) {
    Event event;
    event.kind = Kind::kHeld;
    event.phase = Phase::kInvoke;
    event.call = i;
    event.sequence = ~i;  // The far end of the record: a torn one would not agree.
    if (!recorder->record(event)) break;
    progress.store(i, std::memory_order_release);
  }
  for (;;) ::pause();
}

// The number of events of each process; fails where they are not 1, 2, 3 ... whole and in order.
std::map<std::uint32_t, std::uint64_t> count_in_order(const std::vector<Event>& events) {
  std::map<std::uint32_t, std::uint64_t> counts;
  std::int64_t before = 0;
  for (const Event& event : events) {
    EXPECT_EQ(event.call, ++counts[event.process]) << "process " << event.process;
    EXPECT_EQ(event.sequence, ~event.call);
    EXPECT_GE(event.at_ns, before);
    before = event.at_ns;
  }
  return counts;
}

TEST_F(RecorderTest, NothingOfAKilledProcessIsLost) {
  void* shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *new (shared) Progress{};
  std::array<pid_t, kWriters> pids{};
  for (std::size_t i = 0; i < kWriters; ++i) {
    pids[i] = ::fork();
    ASSERT_GE(pids[i], 0);
    if (pids[i] == 0) write_until_killed(folder_, static_cast<std::uint32_t>(i), progress[i]);
  }
  machine::testing::Dice dice(42);
  for (std::size_t i = 0; i < kWriters; ++i) {
    // Killed in mid-work, at a number of events that is different for each.
    const std::uint64_t goal = 100 + dice.below(5000);
    while (progress[i].load(std::memory_order_acquire) < goal) ::sched_yield();
    ::kill(pids[i], SIGKILL);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  Result<Collected> collected = collect(folder_);
  ASSERT_TRUE(collected.has_value()) << collected.error().message();
  EXPECT_EQ(collected->processes, kWriters);
  EXPECT_LE(collected->torn, kWriters);
  std::map<std::uint32_t, std::uint64_t> counts = count_in_order(collected->events);
  for (std::uint32_t i = 0; i < kWriters; ++i) {
    // One more may have been published in the instant before its progress was.
    EXPECT_GE(counts[i], progress[i].load());
    EXPECT_LE(counts[i] - progress[i].load(), 1U);
  }
  ::munmap(shared, sizeof(Progress));
}

TEST_F(RecorderTest, ThreadsShareARegion) {
  Recorder recorder = this->recorder(7, 4000);
  std::vector<std::thread> threads;
  for (std::uint32_t owner = 0; owner < 4; ++owner) {
    threads.emplace_back([&recorder, owner] {
      for (std::uint64_t i = 1; i <= 1000; ++i) {
        Event event;
        event.owner = owner;
        event.call = i;
        ASSERT_TRUE(recorder.record(event));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Result<Collected> collected = collect(folder_);
  ASSERT_TRUE(collected.has_value());
  ASSERT_EQ(collected->events.size(), 4000U);
  std::map<std::uint32_t, std::uint64_t> last;
  for (const Event& event : collected->events) {
    EXPECT_EQ(event.process, 7U);
    EXPECT_EQ(event.call, ++last[event.owner]);
  }
}

// The rest that a process leaves behind when it dies between reserving and publishing.
TEST_F(RecorderTest, ATornRecordIsDroppedAndCounted) {
  Recorder recorder = this->recorder(1, 10);
  ASSERT_TRUE(recorder.record({}));
  ASSERT_TRUE(recorder.record({}));
  ASSERT_TRUE(recorder.record({}));
  std::fstream file(folder_ + "/1.events", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(kRegionHeaderSize + sizeof(RegionSlot)));
  const std::uint64_t unpublished = 0;
  file.write(reinterpret_cast<const char*>(&unpublished), sizeof unpublished);
  file.close();
  Result<Collected> collected = collect(folder_);
  ASSERT_TRUE(collected.has_value());
  EXPECT_EQ(collected->events.size(), 2U);
  EXPECT_EQ(collected->torn, 1U);
}

TEST_F(RecorderTest, AnOverflowedRegionGivesNoHistory) {
  Recorder recorder = this->recorder(1, 2);
  EXPECT_TRUE(recorder.record({}));
  EXPECT_TRUE(recorder.record({}));
  EXPECT_FALSE(recorder.record({}));
  EXPECT_EQ(collect(folder_).error().code(), Errc::kQueueFull);
}

TEST_F(RecorderTest, ForeignAndCutFilesAreRefused) {
  { const Recorder recorder = this->recorder(1, 100); }
  std::filesystem::resize_file(folder_ + "/1.events", 5000);
  EXPECT_EQ(collect(folder_).error().code(), Errc::kCorruptState);
  std::filesystem::resize_file(folder_ + "/1.events", 50);
  EXPECT_EQ(collect(folder_).error().code(), Errc::kCorruptState);
  std::ofstream(folder_ + "/1.events") << std::string(5000, 'x');
  EXPECT_EQ(collect(folder_).error().code(), Errc::kCorruptState);
  EXPECT_EQ(collect(folder_ + "/absent").error().code(), Errc::kUnavailable);
}

TEST_F(RecorderTest, WhatADeadProcessDidNotUseIsGivenBack) {
  {
    Recorder first = recorder(1, 100'000);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(first.record(Event{}));
    Recorder full = recorder(2, 1);
    for (int i = 0; i < 2; ++i) full.record(Event{});
    const Recorder none = recorder(3, 100'000);
  }
  EXPECT_EQ(trim_region(folder_, 1), 3U);
  EXPECT_EQ(trim_region(folder_, 3), 0U);
  EXPECT_EQ(trim_region(folder_, 4), 0U);
  EXPECT_LT(std::filesystem::file_size(folder_ + "/1.events"), 10'000U);
  EXPECT_LT(std::filesystem::file_size(folder_ + "/3.events"), 10'000U);
  // A hole is a hole all the same.
  trim_region(folder_, 2);
  EXPECT_EQ(collect(folder_).error().code(), Errc::kQueueFull);
  std::filesystem::remove(folder_ + "/2.events");
  EXPECT_EQ(collect(folder_).value().events.size(), 3U);
}

TEST_F(RecorderTest, AProcessNumberIsNotUsedTwice) {
  const Recorder first = recorder(1, 10);
  EXPECT_EQ(Recorder::create(folder_, 1, 10).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(Recorder::create(folder_, 2, 0).error().code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::lab
