#include "holdfast/ids/host_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <unordered_set>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/base/fnv.h"
#include "src/base/random.h"
#include "src/ids/fake_clock.h"
#include "src/ids/worker_row.h"
#include "tests/support/temp_folder.h"

namespace holdfast::ids {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

milliseconds wall() {
  return std::chrono::duration_cast<milliseconds>(base::wall_now().time_since_epoch());
}

class HostWorkersTest : public testing::Test {
 protected:
  HostWorkersSpec spec(std::uint64_t first, std::uint64_t last, ClockPolicy policy = {}) const {
    return {.layout = *Layout::parse("leaf"), .policy = policy, .first = first, .last = last};
  }
  HostWorkers made(const HostWorkersSpec& spec) const {
    const auto created = HostWorkers::create(path_, spec);
    EXPECT_TRUE(created) << created.error();
    return *HostWorkers::open(path_);
  }
  // Overwrites a row of the file, as a fault or another day would have left it.
  void put(std::uint64_t at, const std::string& bytes) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at * kRowBytes));
    file << bytes;
  }

  support::TempFolder folder_;
  const std::string path_ = folder_.path() + "/orders.ids";
};

TEST_F(HostWorkersTest, EachTakerHasANumberOfItsOwnUntilItEnds) {
  const HostWorkers workers = made(spec(3, 4));
  auto first = *workers.take();
  auto second = *workers.take();
  EXPECT_EQ(first->worker(), 3u);
  EXPECT_EQ(second->worker(), 4u);
  const auto none = workers.take();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::kQueueFull);
  const auto seen = *workers.workers();
  EXPECT_TRUE(seen[0].held && seen[1].held);
  EXPECT_EQ(seen[0].pid, ::getpid());
  EXPECT_GT(seen[0].reserved_until, wall() + seconds(15));
  first.reset();
  EXPECT_FALSE(workers.workers()->at(0).held);
  EXPECT_EQ((*workers.take())->worker(), 3u);
}

TEST_F(HostWorkersTest, ACleanEndGivesTheReservedTimeBack) {
  const HostWorkers workers = made(spec(0, 0));
  auto ids = *workers.take();
  const Id last = *ids->next();
  ids.reset();
  EXPECT_LE(workers.workers()->at(0).reserved_until, wall() + milliseconds(1));
  EXPECT_LT(last, *(*workers.take())->next());
}

TEST_F(HostWorkersTest, AClockThatIsSetBackOverARestartRepeatsNothing) {
  const HostWorkers workers = made(spec(0, 0));
  FakeClock clock(kNow);
  std::set<std::uint64_t> seen;
  for (const milliseconds back : {milliseconds(5), milliseconds(9), milliseconds(60'000)}) {
    const auto ids = *workers.take(&clock);
    for (int i = 0; i < 10; ++i, clock.pass(milliseconds(1))) {
      const auto id = ids->next();
      ASSERT_TRUE(id) << id.error();
      EXPECT_TRUE(seen.insert(id->number()).second) << *id;
    }
    clock.step(-back);
  }
  EXPECT_EQ(spec(0, 0).layout.decode(Id::of(*seen.begin()))->unix_time, kNow);
}

// A process that is killed leaves its bound on the disk, and its number free.
TEST_F(HostWorkersTest, TheNextProcessBeginsAboveAKilledOnesIds) {
  const HostWorkers workers = made(spec(0, 0));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto ids = HostWorkers::open(path_)->take();
    for (;;) {
      const std::uint64_t id = (*ids)->next()->number();
      if (::write(ends[1], &id, sizeof id) != sizeof id) ::_exit(1);
    }
  }
  ::close(ends[1]);
  std::uint64_t last = 0;
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(::read(ends[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (std::uint64_t id = 0; ::read(ends[0], &id, sizeof id) == sizeof id;) last = id;
  ::close(ends[0]);
  const auto next = workers.take();
  ASSERT_TRUE(next) << next.error();
  EXPECT_EQ((*next)->worker(), 0u);
  EXPECT_GT((*next)->next()->number(), last);
}

TEST_F(HostWorkersTest, ManyProcessesThatAreKilledRepeatNothing) {
  made(spec(0, 3));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  constexpr int kProcesses = 32;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const HostWorkers workers = *HostWorkers::open(path_);
      for (int given = 0; given < 200;) {
        auto ids = workers.take();
        if (!ids) {
          ::usleep(500);
          continue;
        }
        std::uint64_t some[20];
        const auto count = (*ids)->next_batch(some);
        if (!count || ::write(ends[1], some, *count * sizeof some[0]) < 0) ::_exit(1);
        given += static_cast<int>(*count);
        if (i % 4 == 0 && given >= 100) ::kill(::getpid(), SIGKILL);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  ::close(ends[1]);
  std::unordered_set<std::uint64_t> seen;
  std::size_t given = 0;
  for (std::uint64_t id = 0; ::read(ends[0], &id, sizeof id) == sizeof id; ++given) seen.insert(id);
  ::close(ends[0]);
  int killed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) ++killed;
  }
  EXPECT_EQ(killed, kProcesses / 4);
  EXPECT_EQ(given, static_cast<std::size_t>(kProcesses / 4 * (100 + 3 * 200)));
  EXPECT_EQ(seen.size(), given);
}

// The bound stands ahead of the clock, as after a clock that was set back across a restart.
TEST_F(HostWorkersTest, AClockSetBackAcrossARestartRepeatsNothing) {
  const HostWorkers workers = made(spec(0, 0));
  const std::int64_t bound = workers.spec().layout.unit_of(wall() + seconds(15));
  const WorkerRow row{.incarnation = workers.incarnation(), .worker = 0, .reserved_until = bound};
  put(1, row.text());
  const auto ids = *workers.take();
  EXPECT_GE(static_cast<std::int64_t>(workers.spec().layout.decode(*ids->next())->time), bound);
  EXPECT_GT(ids->ahead(), seconds(10));
}

TEST_F(HostWorkersTest, ABoundFarAheadIsLeftOutAndNamed) {
  const HostWorkers workers = made(spec(0, 1));
  const std::int64_t bound = workers.spec().layout.unit_of(wall() + std::chrono::hours(24));
  const WorkerRow far{.incarnation = workers.incarnation(), .worker = 0, .reserved_until = bound};
  put(1, far.text());
  const auto ids = *workers.take();
  EXPECT_EQ(ids->worker(), 1u);
  const auto none = workers.take();
  EXPECT_NE(none.error().message().find("too far ahead"), std::string::npos) << none.error();
  EXPECT_EQ(workers.workers()->at(0).reserved_until / seconds(1),
            (wall() + std::chrono::hours(24)) / seconds(1))
      << "nobody lowers it";
}

TEST_F(HostWorkersTest, RoundsAreKeptAcrossARestart) {
  const HostWorkers workers = made(spec(0, 0, ClockPolicy::step_sequence(1'024)));
  const Layout& layout = workers.spec().layout;
  const std::int64_t now = layout.unit_of(wall());
  // Round 0 was used up to half an hour from now, and round 1 until just now.
  put(1, WorkerRow{.incarnation = workers.incarnation(),
                   .worker = 0,
                   .reserved_until = now - 5'000,
                   .rounds = {1, {now + 1'800'000, now - 5'000, -1, -1}}}
             .text());
  const auto ids = *workers.take();
  EXPECT_EQ(layout.decode(*ids->next())->sequence, 1'024u);
}

TEST_F(HostWorkersTest, ACopyIsRefusedAndSoIsWhatIsDamaged) {
  const HostWorkers workers = made(spec(0, 0));
  fs::copy_file(path_, folder_.path() + "/copy.ids");
  const auto copy = HostWorkers::open(folder_.path() + "/copy.ids");
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code(), Errc::kCorruptState);
  EXPECT_NE(copy.error().message().find("copied"), std::string::npos) << copy.error();

  put(1, std::string(kRowBytes, '\0'));
  const auto lost = workers.take();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Errc::kCorruptState) << "never 'start at now'";
  EXPECT_NE(workers.workers()->front().trouble.find("worker 0"), std::string::npos);
  put(0, "holdfast-ids 2\n");
  EXPECT_EQ(HostWorkers::open(path_).error().code(), Errc::kCorruptState);
  fs::resize_file(path_, 0);
  EXPECT_EQ(HostWorkers::open(path_).error().code(), Errc::kCorruptState);
  fs::remove(path_);
  EXPECT_EQ(HostWorkers::open(path_).error().code(), Errc::kInvalidArgument);
}

TEST_F(HostWorkersTest, AFileOfALaterVersionIsNamed) {
  made(spec(0, 0));
  std::string later = "holdfast-ids 2\nsomething new\n";
  later += "sum " + base::to_hex(0, base::fnv1a(later)) + "\n";
  later.resize(kRowBytes, '\0');
  put(0, later);
  const auto open = HostWorkers::open(path_);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code(), Errc::kVersionMismatch) << open.error();
}

TEST_F(HostWorkersTest, AFileIsMadeOnceAndForGood) {
  made(spec(0, 3));
  EXPECT_EQ(HostWorkers::create(path_, spec(0, 7)).error().code(), Errc::kStoreInUse);
  EXPECT_EQ(HostWorkers::open(path_)->spec().last, 3u);
  const std::string other = folder_.path() + "/other.ids";
  EXPECT_EQ(HostWorkers::create(other, spec(1'000, 1'024)).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(HostWorkers::create(other, spec(4, 3)).error().code(), Errc::kInvalidArgument);
  const ClockPolicy many = ClockPolicy::step_sequence(16);
  EXPECT_EQ(HostWorkers::create(other, spec(0, 3, many)).error().code(), Errc::kInvalidArgument);
  HostWorkersSpec ended = spec(0, 3);
  ended.layout = *Layout::parse("time:10 worker:4 sequence:4");
  EXPECT_EQ(HostWorkers::create(other, ended).error().code(), Errc::kInvalidArgument);
  HostWorkersSpec wordy = spec(0, 3);
  wordy.layout = *Layout::parse("time:41 " + std::string(kRowBytes, 'x') + ":4 sequence:4");
  EXPECT_EQ(HostWorkers::create(other, wordy).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(HostWorkers::create("", spec(0, 3)).error().code(), Errc::kInvalidArgument);
  const auto nowhere = HostWorkers::create(folder_.path() + "/no/where.ids", spec(0, 3));
  EXPECT_EQ(nowhere.error().code(), Errc::kUnavailable);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1)
      << "nothing is left behind";
}

TEST_F(HostWorkersTest, APolicysBoundsAreKeptInTheFile) {
  ClockPolicy strict = ClockPolicy::refuse();
  strict.forward_at_most = milliseconds(1'000);
  EXPECT_EQ(made(spec(0, 0, strict)).spec().policy, strict);
}

TEST_F(HostWorkersTest, AnEpochInTheFutureIsRefused) {
  HostWorkersSpec later = spec(0, 0);
  later.layout = *Layout::parse("time:41 worker:4 sequence:4 epoch:2100-01-01");
  const auto refused = HostWorkers::create(path_, later);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("future"), std::string::npos);
}

// Processes that begin with the new file know nothing of the ids of the old one.
TEST_F(HostWorkersTest, WhoseFileIsReplacedGivesNothingMore) {
  const HostWorkers workers = made(spec(0, 0));
  const auto ids = *workers.take();
  ASSERT_TRUE(ids->next());
  fs::remove(path_);
  EXPECT_NE(workers.take().error().message().find("other worker numbers"), std::string::npos);
  ASSERT_TRUE(HostWorkers::create(path_, spec(0, 0)));
  Result<Id> id = ids->next();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (id && std::chrono::steady_clock::now() < until) id = ids->next();
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code(), Errc::kCorruptState) << id.error();
}

TEST_F(HostWorkersTest, OfManyWhoMakeTheFileOneDoes) {
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(HostWorkers::create(path_, spec(i, i)) ? static_cast<int>(i) : 99);
    children.push_back(child);
  }
  std::vector<int> makers;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 99) makers.push_back(WEXITSTATUS(status));
  }
  ASSERT_EQ(makers.size(), 1u);
  EXPECT_EQ(HostWorkers::open(path_)->spec().first, static_cast<std::uint64_t>(makers.front()));
}

TEST_F(HostWorkersTest, AForkedChildGivesNothingAndLeavesTheNumberAlone) {
  const HostWorkers workers = made(spec(0, 0));
  auto ids = *workers.take();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool closed = !ids->next();
    ids.reset();
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(workers.workers()->at(0).held);
  EXPECT_TRUE(ids->next());
}

TEST(ClockPolicyTest, TextsAreReadBack) {
  for (const char* text :
       {"logical", "refuse", "wait:5ms", "step:1024", "extension:2:5ms", "logical borrow:10ms",
        "wait:5ms borrow:1ms", "refuse forward:1000ms", "logical borrow:10ms forward:1ms"}) {
    const auto policy = ClockPolicy::parse(text);
    ASSERT_TRUE(policy) << policy.error();
    EXPECT_EQ(policy->to_string(), text);
  }
  for (const char* text :
       {"", "logical:1", "wait", "wait:-1ms", "step:0", "extension:17:1ms", "logical lend:1ms",
        "logical borrow:x", "logical ", "logical forward:0ms", "logical forward"}) {
    EXPECT_FALSE(ClockPolicy::parse(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast::ids
