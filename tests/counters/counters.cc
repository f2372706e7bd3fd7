#include "tests/counters/counters.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"

namespace holdfast::testing {

using ids::StoreCounter;

std::unique_ptr<StoreCounter> open_counter(const std::string& url, const std::string& name,
                                           std::uint32_t batch,
                                           std::chrono::milliseconds request_timeout) {
  auto ids = StoreCounter::open(url, name, {.batch = batch, .request_timeout = request_timeout});
  EXPECT_TRUE(ids) << ids.error();
  return ids ? *std::move(ids) : nullptr;
}

Error refusal(const std::string& url, const std::string& name) {
  const auto ids = StoreCounter::open(url, name);
  EXPECT_FALSE(ids) << name;
  return ids ? Error(Errc::kOutcomeUnknown, "it was opened") : ids.error();
}

std::uint64_t number(StoreCounter& ids) {
  const auto id = ids.next();
  EXPECT_TRUE(id) << id.error();
  return id ? id->number() : 0;
}

std::uint64_t number_in_the_end(StoreCounter& ids) {
  std::uint64_t found = 0;
  EXPECT_TRUE(support::eventually([&] {
    const auto id = ids.next();
    if (id) found = id->number();
    return id.has_value();
  }));
  return found;
}

namespace {

// One line of a process. 0: it got no number.
struct Given {
  std::uint64_t process = 0;
  std::uint64_t number = 0;
};

[[noreturn]] void give_numbers(const std::string& url, const std::string& name,
                               std::uint64_t process, int to) {
  const auto ids = StoreCounter::open(url, name, {.batch = process % 2 == 0 ? 1U : 10U});
  for (;;) {
    Given given{process, 0};
    if (ids) {
      if (const auto id = (*ids)->next()) given.number = id->number();
    }
    if (::write(to, &given, sizeof given) != sizeof given || given.number == 0) ::_exit(1);
  }
}

}  // namespace

void killed_processes_repeat_nothing(const std::string& url, const std::string& name) {
  constexpr std::size_t kProcesses = 6;
  constexpr std::size_t kNumbers = 3'000;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<pid_t> children;
  const auto begin = [&] {
    const std::uint64_t process = children.size();
    const pid_t child = ::fork();
    if (child == 0) give_numbers(url, name, process, ends[1]);
    children.push_back(child);
  };
  const auto kill = [&children](std::size_t which) {
    ::kill(children[which], SIGKILL);
    ::waitpid(children[which], nullptr, 0);
  };
  for (std::size_t i = 0; i < kProcesses; ++i) begin();

  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> last(100);
  std::size_t ended = 0;
  Given given;
  for (std::size_t count = 0; count < kNumbers && !::testing::Test::HasFailure(); ++count) {
    EXPECT_EQ(::read(ends[0], &given, sizeof given), static_cast<ssize_t>(sizeof given));
    EXPECT_NE(given.number, 0U) << "process " << given.process << " got no number";
    EXPECT_TRUE(seen.insert(given.number).second) << given.number << " came twice";
    EXPECT_GT(given.number, last[given.process]) << "process " << given.process;
    last[given.process] = given.number;
    if (count % 250 == 249) {
      kill(ended++);
      begin();
    }
  }
  for (; ended < children.size(); ++ended) kill(ended);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace holdfast::testing
