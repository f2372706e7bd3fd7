#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "holdfast/errc.h"
#include "holdfast/format.h"
#include "holdfast/mode.h"
#include "holdfast/owner.h"
#include "holdfast/result.h"
#include "holdfast/token.h"
#include "src/base/chrony.h"
#include "src/base/clock.h"
#include "src/base/empty_buffer.h"
#include "src/base/exit_gate.h"
#include "src/base/fork_guard.h"
#include "src/base/random.h"
#include "src/base/thread.h"

namespace holdfast {
namespace {

TEST(TokenTest, TextKeepsTheOrderOfTheNumbers) {
  const Token small{0, 9};
  const Token large{0, 10};
  const Token later{1, 0};
  EXPECT_LT(small, large);
  EXPECT_LT(large, later);
  EXPECT_LT(small.to_string(), large.to_string());
  EXPECT_LT(Token({0, UINT64_MAX}).to_string(), later.to_string());
}

TEST(TokenTest, ParseReadsWhatToStringWrites) {
  for (const Token& token : {Token{0, 0}, Token{7, 1ULL << 53U}, Token{UINT32_MAX, UINT64_MAX}}) {
    EXPECT_EQ(Token::parse(token.to_string()), token);
  }
  EXPECT_EQ(Token::parse("42"), (Token{0, 42}));
}

TEST(TokenTest, ParseRefusesWhatIsNoToken) {
  for (const char* text : {"", ".", "1.", ".1", "-1", "+1", "1.2.3", "1e3", " 1", "4294967296.0",
                           "0.18446744073709551616"}) {
    EXPECT_FALSE(Token::parse(text)) << text;
  }
}

TEST(ErrcTest, EveryCodeHasANameASentenceAndItsStableNumber) {
  std::set<std::string> sentences;
  for (int code = 1; code <= 15; ++code) {
    EXPECT_EQ(errc_name(static_cast<Errc>(code)).substr(0, 1), "k") << code;
    sentences.insert(holdfast_category().message(code));
  }
  EXPECT_EQ(sentences.size(), 15U);
  EXPECT_EQ(static_cast<int>(Errc::kTimedOut), 1);
  EXPECT_EQ(static_cast<int>(Errc::kOutcomeUnknown), 5);
  EXPECT_EQ(static_cast<int>(Errc::kClosed), 15);
  const std::error_code code = Errc::kLost;
  EXPECT_EQ(code, make_error_code(Errc::kLost));
}

TEST(ResultTest, ReadingTheWrongSideAborts) {
  Result<int> good = 3;
  Result<int> bad = Error(Errc::kLost, "gone");
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(bad.error().code(), Errc::kLost);
  EXPECT_DEATH(static_cast<void>(good.error()), "wrong side");
  EXPECT_DEATH(static_cast<void>(*bad), "wrong side");
}

TEST(ResultTest, ValueThrowsTheErrorItHas) {
  const auto thrown = [](auto result) {
    try {
      static_cast<void>(std::move(result).value());
    } catch (const std::exception& failure) {
      const auto& bad = dynamic_cast<const BadResultAccess&>(failure);
      EXPECT_STREQ(failure.what(), bad.error().message().c_str());
      return bad.error();
    }
    return Error(Errc::kClosed, "nothing was thrown");
  };
  const Error gone(Errc::kLost, "gone");
  EXPECT_EQ(thrown(Result<int>(gone)), gone);
  EXPECT_EQ(thrown(Result<std::unique_ptr<int>>(gone)), gone);
  EXPECT_EQ(thrown(Result<void>(gone)), gone);
  const Result<int> bad = gone;
  EXPECT_THROW(static_cast<void>(bad.value()), BadResultAccess);
  EXPECT_EQ(bad.error(), gone);
  EXPECT_EQ(Result<int>(3).value(), 3);
  EXPECT_NO_THROW(Result<void>().value());
}

TEST(ResultTest, IsCopiedMovedAndAssignedWithWhatIsThere) {
  // Too long to be kept within the string: a sanitizer sees what is freed twice or never.
  const std::string text(100, 'x');
  const Result<std::string> good = text;
  const Result<std::string> bad = Error(Errc::kLost, text + "y");

  Result<std::string> result = good;
  EXPECT_EQ(*result, text);
  result = bad;
  EXPECT_EQ(result.error(), bad.error());
  Result<std::string> moved = std::move(result);
  EXPECT_EQ(moved.error(), bad.error());
  moved = good;
  EXPECT_EQ(*moved, text);
  moved = text + "z";
  EXPECT_EQ(*std::move(moved), text + "z");
}

TEST(ResultTest, CanBeCopiedIfItsValueCan) {
  static_assert(std::is_copy_constructible_v<Result<int>>);
  static_assert(std::is_copy_assignable_v<Result<int>>);
  using Owned = Result<std::unique_ptr<int>>;
  static_assert(!std::is_copy_constructible_v<Owned>);
  static_assert(!std::is_copy_assignable_v<Owned>);

  Owned owned = std::make_unique<int>(3);
  Owned other = Error(Errc::kLost, "gone");
  other = std::move(owned);
  EXPECT_EQ(**other, 3);
}

TEST(ResultTest, AndThenStopsAtTheFirstError) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return Error(Errc::kInvalidArgument, "odd");
    return n / 2;
  };
  EXPECT_EQ(Result<int>(8).and_then(half).and_then(half).value(), 2);
  EXPECT_EQ(Result<int>(6).and_then(half).and_then(half).error().message(), "odd");
  const Result<int> six = 6;
  EXPECT_EQ(*six.and_then(half), 3);
  EXPECT_EQ(*Result<void>().and_then([] { return Result<int>(5); }), 5);
}

TEST(ResultTest, TransformKeepsWhatIsMadeOfTheValue) {
  const Result<int> good = 4;
  const Result<int> bad = Error(Errc::kLost, "gone");
  EXPECT_EQ(good.transform([](int n) { return std::to_string(n); }).value(), "4");
  EXPECT_EQ(bad.transform([](int n) { return std::to_string(n); }).error(), bad.error());
  int seen = 0;
  const Result<void> done = good.transform([&](int n) { seen = n; });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(seen, 4);
  EXPECT_EQ(*done.transform([] { return 7; }), 7);
  // A value that can only be moved goes through.
  auto owned = Result<std::unique_ptr<int>>(std::make_unique<int>(3));
  EXPECT_EQ(*std::move(owned).transform([](std::unique_ptr<int> n) { return *n; }), 3);
}

TEST(ResultTest, OrElseIsAskedOnlyAfterAnError) {
  const auto zero = [](const Error&) -> Result<int> { return 0; };
  const Result<int> bad = Error(Errc::kLost, "gone");
  EXPECT_EQ(*Result<int>(4).or_else(zero), 4);
  EXPECT_EQ(*bad.or_else(zero), 0);
  const auto closed = [](const Error& why) { return Error(Errc::kClosed, why.message() + "!"); };
  EXPECT_EQ(bad.transform_error(closed).error(), Error(Errc::kClosed, "gone!"));
  EXPECT_EQ(*Result<int>(4).transform_error(closed), 4);
  EXPECT_TRUE(Result<void>().transform_error(closed).has_value());
  EXPECT_EQ(
      Result<void>(bad.error()).or_else([](Error why) -> Result<void> { return why; }).error(),
      bad.error());
}

std::string printed(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(OutputTest, ErrorsTokensAndModesAreWritten) {
  const Error gone(Errc::kLost, "the lease of 'stock' expired");
  const Token token{2, 71};
  EXPECT_EQ(printed(gone), "kLost: the lease of 'stock' expired");
  EXPECT_EQ(printed(token), token.to_string());
  EXPECT_EQ(printed(Mode::exclusive()), "exclusive");
  EXPECT_EQ(printed(Mode::shared()), "shared");
  EXPECT_EQ(printed(Mode::permits(2, 5)), "2 of 5 permits");
}

TEST(OutputTest, TheFormatterWritesTheSame) {
#ifdef __cpp_lib_format
  const Error gone(Errc::kLost, "gone");
  EXPECT_EQ(std::format("{}|{}", gone, Token{2, 71}), printed(gone) + "|" + printed(Token{2, 71}));
  EXPECT_EQ(std::format("{:>10}", Mode::shared()), "    shared");
#else
  GTEST_SKIP() << "this standard library has no <format>";
#endif
}

TEST(ClockTest, HostBootTimeLeavesTheNamespaceOffsetOut) {
  // Outside a time namespace they are the same clock.
  const auto before = base::BootClock::now();
  const auto host = base::host_boot_now();
  EXPECT_GE(host + std::chrono::hours(24 * 365 * 50), before);
  EXPECT_GE(base::host_boot_now(), host);
}

// The wall clock is not set meanwhile: whatever differs is time in which the process was stopped.
TEST(ClockTest, APauseBetweenItsReadingsIsNotTakenForAClockThatWasSet) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr std::chrono::milliseconds kMost{15};
    const auto first = base::wall_minus_boot();
    const auto until = base::BootClock::now() + std::chrono::milliseconds(800);
    while (base::BootClock::now() < until) {
      for (int i = 0; i < 1000; ++i) {
        if (base::wall_minus_boot() - first > kMost) ::_exit(1);
      }
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    ::kill(child, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(child, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(status, 0);
}

TEST(RandomTest, IdsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const base::Random128 id = base::random_128();
    seen.insert(base::to_hex(id.high, id.low));
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(seen.begin()->size(), 32U);
}

// A thread draws ids ahead, and a forked child has a copy of those.
TEST(RandomTest, AForkedChildDrawsOtherIdsThanItsParent) {
  using Ids = std::array<base::Random128, 40>;
  static_cast<void>(base::random_128());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  Ids ids;
  for (base::Random128& id : ids) id = base::random_128();
  if (child == 0) ::_exit(::write(ends[1], &ids, sizeof ids) == sizeof ids ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  Ids childs;
  ASSERT_EQ(::read(ends[0], &childs, sizeof childs), static_cast<ssize_t>(sizeof childs));
  ::close(ends[0]);
  ::close(ends[1]);
  std::set<std::string> seen;
  for (const Ids& both : {ids, childs}) {
    for (const base::Random128& id : both) seen.insert(base::to_hex(id.high, id.low));
  }
  EXPECT_EQ(seen.size(), 2 * ids.size());
}

// The child's answer: 0 when its generation differs from the parent's and from zero.
int generation_differs_in(pid_t child, std::uint64_t parents) {
  if (child == 0) ::_exit(base::process_generation() != parents ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST(ForkGuardTest, AForkedChildHasAnotherGeneration) {
  const std::uint64_t mine = base::process_generation();
  EXPECT_NE(mine, 0U);
  EXPECT_EQ(base::process_generation(), mine);
  EXPECT_EQ(generation_differs_in(::fork(), mine), 0);
  EXPECT_EQ(base::process_generation(), mine);
}

TEST(ForkGuardTest, SoDoesAGrandchild) {
  const std::uint64_t mine = base::process_generation();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t childs = base::process_generation();
    ::_exit(generation_differs_in(::fork(), childs));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(base::process_generation(), mine);
}

// How a child that runs `body` and then ends like a program's main() has exited.
int exit_status_after(void (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    body();
    std::exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// State of a forked child for its handlers at exit, which have no arguments.
std::atomic<bool> passage_begun = false;
std::atomic<bool> program_ends = false;
std::atomic<bool> passage_over = false;
base::BootInstant end_begun;

TEST(ExitGateTest, TheEndOfTheProgramWaitsForAPassage) {
  const int status = exit_status_after([] {
    // Handlers run in the order opposite to this.
    std::atexit([] { ::_exit(passage_over ? 0 : 1); });
    base::arm_exit_gate();
    std::atexit([] { program_ends = true; });
    std::thread([] {
      const base::ExitPassage passage;
      passage_begun = true;
      while (!program_ends) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Time for a wrong end.
      passage_over = true;
    }).detach();
    while (!passage_begun) std::this_thread::yield();
  });
  EXPECT_EQ(status, 0);
}

TEST(ExitGateTest, NoPassageBeginsWhenTheProgramHasBegunToEnd) {
  const int status = exit_status_after([] {
    std::atexit([] { ::_exit(base::ExitPassage() ? 1 : 0); });
    base::arm_exit_gate();
    if (!base::ExitPassage()) ::_exit(2);
  });
  EXPECT_EQ(status, 0);
}

TEST(ExitGateTest, AForkedChildDoesNotWaitForItsParentsPassages) {
  const base::ExitPassage of_the_parent;
  const int status = exit_status_after([] {
    std::atexit(
        [] { ::_exit(base::BootClock::now() - end_begun < std::chrono::seconds(1) ? 0 : 1); });
    base::arm_exit_gate();
    end_begun = base::BootClock::now();
  });
  EXPECT_EQ(status, 0);
}

TEST(ExitGateTest, APassageWithoutAnEndHoldsTheProgramUpForASecondAtMost) {
  const int status = exit_status_after([] {
    base::arm_exit_gate();
    static const auto* const endless = new base::ExitPassage();
    if (!*endless) ::_exit(2);
  });
  EXPECT_EQ(status, 0);
}

TEST(ThreadTest, OursTakeNoSignals) {
  sigset_t blocked;
  sigemptyset(&blocked);
  bool ours = false;
  std::thread thread = base::start_thread("holdfast-test", [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    ours = base::on_library_thread();
  });
  thread.join();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
  EXPECT_TRUE(ours);
  EXPECT_FALSE(base::on_library_thread());
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0);
}

TEST(ThreadTest, AThreadThatCannotBeMadeBlocksNoSignals) {
  pthread_attr_t usual;
  pthread_attr_t endless;
  pthread_getattr_default_np(&usual);
  pthread_getattr_default_np(&endless);
  pthread_attr_setstacksize(&endless, std::size_t{1} << 60);
  ASSERT_EQ(pthread_setattr_default_np(&endless), 0);
  EXPECT_THROW(base::start_thread("holdfast-test", [] {}), std::system_error);
  pthread_setattr_default_np(&usual);
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0);
}

TEST(OwnerTest, EachIsOnlyEqualToItsCopies) {
  const Owner one("order 42");
  const Owner other("order 42");
  Owner copy = one;
  EXPECT_EQ(copy, one);
  EXPECT_FALSE(other == one);
  const Owner moved = std::move(copy);  // NOLINT(performance-move-const-arg): what is asserted.
  EXPECT_EQ(copy, moved);               // NOLINT(bugprone-use-after-move): a move copies.
  EXPECT_EQ(one.id().size(), std::string("order 42#").size() + 32);
  EXPECT_TRUE(one.id().starts_with("order 42#"));
  EXPECT_TRUE(Owner().id().starts_with("owner#"));
}

class ChronyTest : public testing::Test {
 protected:
  ChronyTest() {
    std::string path = testing::TempDir() + "holdfast-chrony-XXXXXX";
    folder_ = ::mkdtemp(path.data());
  }
  ~ChronyTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> slew() const { return base::chrony_max_slew_ppm(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(ChronyTest, WithoutAConfigurationNothingIsSaid) { EXPECT_FALSE(slew()); }

TEST_F(ChronyTest, ChronysDefaultHoldsUntilALineSaysOtherwise) {
  write("chrony.conf", "pool x iburst\n# maxslewrate 1\nmakestep 1 3\n");
  EXPECT_NEAR(slew().value_or(0), 83'333.3, 1);
  write("chrony.conf", "  MaxSlewRate 500.5\n");
  EXPECT_EQ(slew(), 500.5);
}

TEST_F(ChronyTest, AFileOfTheFolderSaysItLast) {
  write("chrony.conf", "maxslewrate 500\n");
  write("conf.d/20-b.conf", "maxslewrate 700\n");
  write("conf.d/10-a.conf", "maxslewrate 600\n");
  write("conf.d/30-c.conf.off", "maxslewrate 800\n");
  EXPECT_EQ(slew(), 700);
}

TEST_F(ChronyTest, WhatMakesNoSenseIsLeftOut) {
  write("chrony.conf", "maxslewrate\nmaxslewrate fast\nmaxslewrate -3\n" + std::string(5000, 'x'));
  EXPECT_NEAR(slew().value_or(0), 83'333.3, 1);
}

TEST(EmptyBufferTest, ALargeBufferIsGivenBack) {
  std::string buffer(100'000, 'x');
  base::empty_buffer(buffer, 1'000);
  EXPECT_TRUE(buffer.empty());
  EXPECT_LE(buffer.capacity(), 1'000U);
  buffer.assign(900, 'x');
  const std::size_t before = buffer.capacity();
  base::empty_buffer(buffer, 1'000);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.capacity(), before) << "it is used again";
}

}  // namespace
}  // namespace holdfast
