#include "lab/testing/legal_run.h"

#include "src/machine/testing/dice.h"

#include "lab/testing/story.h"

namespace holdfast::lab::testing {
namespace {

constexpr std::int64_t kTtl = 1000 * kMs;
constexpr std::int64_t kSafe = 980 * kMs;

class Run {
 public:
  explicit Run(std::uint64_t seed) : dice_(seed), story_({"jobs", "tables", "seats"}) {}

  History tell() {
    for (int round = 0; round < 12; ++round) job(round);
    for (int round = 0; round < 6; ++round) table();
    for (int round = 0; round < 6; ++round) seats();
    return story_.history();
  }

 private:
  std::int64_t some(std::uint64_t most) { return static_cast<std::int64_t>(dice_.below(most)) + 1; }
  std::uint64_t next_token() { return token_ += 1 + dice_.below(3); }

  // One hold of the exclusive lock, which is free after jobs_.
  void job(int round) {
    const std::uint32_t owner = ++process_;
    const bool waits = round > 0 && round != 9 && dice_.one_in(2);
    const std::int64_t invoked = waits ? jobs_ - some(20 * kMs) : jobs_ + some(kMs);
    const std::int64_t returned = jobs_ + 2 * kMs + some(kMs);
    Asked asked{.token = next_token(), .ttl = kTtl, .lock = kJobs};
    asked.wait = waits ? 60 * kTtl : 0;
    asked.deadline = waits ? returned - 5 * kMs + kSafe : invoked + kSafe;
    story_.acquire(owner, invoked, returned, asked);
    asked.wait = 0;
    const std::int64_t renewed = returned + 300 * kMs + some(kMs);
    asked.deadline = renewed + kSafe;
    story_.call(Kind::kRenew, owner, renewed, renewed + some(kMs), Outcome::kRenewed, asked);
    story_.call(Kind::kHeld, owner, returned + 310 * kMs, returned + 311 * kMs, Outcome::kHeld,
                asked);
    story_.write(owner, returned + 320 * kMs, ++writes_, asked);
    if (round % 4 == 1) re_enter(owner, returned + 330 * kMs, asked);
    if (stale_ != 0) {
      story_.write(stale_, returned + 322 * kMs, ++writes_, stale_asked_, Outcome::kRefused);
      stale_ = 0;
    }
    const Asked busy{.outcome = Outcome::kBusy, .ttl = kTtl, .lock = kJobs};
    story_.acquire(++process_, returned + 350 * kMs, returned + 351 * kMs, busy);
    end_job(round, owner, returned + 400 * kMs + some(kMs), asked);
  }

  void re_enter(std::uint32_t owner, std::int64_t at, const Asked& asked) {
    story_.acquire(owner, at, at + some(kMs), asked);
    story_.call(Kind::kRelease, owner, at + 5 * kMs, at + 6 * kMs, Outcome::kReleased, asked);
  }

  void end_job(int round, std::uint32_t owner, std::int64_t at, const Asked& asked) {
    if (round == 3) {
      story_.lost(owner, asked.deadline, asked);
      stale_ = owner;
      stale_asked_ = asked;
    } else if (round == 6) {
      story_.death(owner, at);
    } else {
      story_.call(Kind::kRelease, owner, at, at + some(kMs), Outcome::kReleased, asked);
      jobs_ = at + 2 * kMs;
      if (round == 8) {
        story_.fault(FaultKind::kRestartEmpty, jobs_, jobs_ + 5 * kMs);
        story_.incarnation(jobs_, jobs_ + 5 * kMs);
        jobs_ += 6 * kMs;
      }
      return;
    }
    jobs_ = asked.deadline + kTtl / 10;
  }

  void hold(std::uint32_t lock, std::int64_t from, std::int64_t to, Asked asked) {
    const std::uint32_t owner = ++process_;
    asked.lock = lock;
    asked.ttl = kTtl;
    asked.deadline = from - kMs + kSafe;
    asked.token = next_token();
    story_.acquire(owner, from - kMs, from + some(kMs / 2), asked);
    if (asked.mode != ModeKind::kPermits) story_.write(owner, from + 10 * kMs, ++writes_, asked);
    story_.call(Kind::kRelease, owner, to, to + some(kMs / 2), Outcome::kReleased, asked);
  }

  // A writer, then two readers.
  void table() {
    const Asked shared{.mode = ModeKind::kShared};
    tables_ += 100 * kMs;
    hold(kTables, tables_, tables_ + 20 * kMs, {});
    hold(kTables, tables_ + 25 * kMs, tables_ + 60 * kMs, shared);
    hold(kTables, tables_ + 30 * kMs, tables_ + 80 * kMs, shared);
  }

  // Two of three, and the third in turns.
  void seats() {
    const Asked two{.mode = ModeKind::kPermits, .count = 2, .capacity = 3};
    const Asked one{.mode = ModeKind::kPermits, .count = 1, .capacity = 3};
    seats_ += 110 * kMs;
    hold(kSeats, seats_, seats_ + 100 * kMs, two);
    hold(kSeats, seats_ + 10 * kMs, seats_ + 50 * kMs, one);
    hold(kSeats, seats_ + 55 * kMs, seats_ + 90 * kMs, one);
  }

  machine::testing::Dice dice_;
  Story story_;
  std::int64_t jobs_ = 100 * kMs;
  std::int64_t tables_ = 0;
  std::int64_t seats_ = 0;
  std::uint32_t process_ = 0;
  std::uint64_t token_ = 100;
  std::uint64_t writes_ = 0;
  std::uint32_t stale_ = 0;
  Asked stale_asked_{};
};

}  // namespace

History legal_run(std::uint64_t seed) { return Run(seed).tell(); }

}  // namespace holdfast::lab::testing
