// The service and its journals on real files, threads and clocks.
#include "src/server/service.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/server/compactor.h"
#include "src/server/journal/sqlite_journal.h"
#include "src/server/recovery.h"
#include "src/server/testing/sim_journal.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_folder.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using support::TempFolder;

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

machine::Acquire acquire(std::string_view name, std::uint64_t id,
                         machine::Duration ttl = seconds(600)) {
  machine::Acquire made{name, {1, id}};
  made.ttl = made.waiter_ttl = ttl;
  return made;
}

// A service on a loop that the test turns.
class Node final : private ServiceListener {
 public:
  explicit Node(const std::string& url) : Node(*make_journal(url)) {}
  explicit Node(std::unique_ptr<Journal> journal, ServiceOptions options = {})
      : service(io, std::move(journal), *this, std::move(options)), started(service.start()) {}
  ~Node() override = default;

  // Turns the loop until it is so.
  void until(const std::function<bool()>& reached) {
    const auto patience = std::chrono::steady_clock::now() + seconds(60);
    while (!reached()) {
      io.restart();
      io.run_for(milliseconds(20));
      ASSERT_LT(std::chrono::steady_clock::now(), patience) << "it never came";
    }
  }

  Result<Answer> ask(machine::Action action) {
    std::optional<Result<Answer>> got;
    service.submit({"c", 0, std::move(action)},
                   [&](Result<Answer> answer) { got = std::move(answer); });
    until([&] { return got.has_value(); });
    return *std::move(got);
  }
  Outcome outcome(machine::Action action) { return ask(std::move(action))->reply.outcome; }

  asio::io_context io;
  std::vector<port::Push> pushes;
  std::optional<Error> stopped;
  Service service;
  Result<void> started;

 private:
  void on_push(const ClientName&, const port::Push& push) override { pushes.push_back(push); }
  void on_effect(Position, const machine::Effect&, machine::Instant) override {}
  void on_stopped(const Error& reason) override { stopped = reason; }
};

TEST(ServiceTest, AMemoryJournalServesAndForgets) {
  Node node("memory:");
  ASSERT_TRUE(node.started);
  EXPECT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  EXPECT_EQ(node.outcome(machine::Renew{"a", {1, 1}, 1, seconds(600), seconds(600)}),
            Outcome::kHeld);
  EXPECT_EQ(node.outcome(acquire("a", 2)), Outcome::kWaiting);
  EXPECT_EQ(node.outcome(machine::Release{"a", {1, 1}, {}}), Outcome::kReleased);
  node.until([&] { return !node.pushes.empty(); });
  EXPECT_EQ(node.pushes[0].id, (machine::AcquisitionId{1, 2}));
}

TEST(ServiceTest, AReleaseIsCommittedThoughNobodyWaitsForIt) {
  TempFolder folder("service");
  Node node("sqlite:" + folder.path());
  ASSERT_TRUE(node.started);
  EXPECT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  const auto before = node.service.state().commits;
  EXPECT_EQ(node.outcome(machine::Release{"a", {1, 1}, {}}), Outcome::kReleased);
  node.until([&] { return node.service.state().commits > before; });
  EXPECT_EQ(node.service.state().uncommitted, 0U);
}

TEST(ServiceTest, AWaiterIsGrantedWhenTheHoldersLeaseEnds) {
  Node node("memory:");
  EXPECT_EQ(node.outcome(acquire("a", 1, milliseconds(300))), Outcome::kHeld);
  EXPECT_EQ(node.outcome(acquire("a", 2)), Outcome::kWaiting);
  node.until([&] { return !node.pushes.empty() && node.pushes.back().id.low == 2; });
  EXPECT_EQ(node.pushes.back().kind, port::Push::Kind::kGranted);
}

// Rule 34: the host may have been a virtual machine that was paused, so its leases may be over.
TEST(ServiceTest, AfterTheWallClockMovedAgainstBootTimeNothingIsAnsweredFromMemoryUntilAWrite) {
  std::chrono::nanoseconds ahead = seconds(1'000);
  testing::SimDisk disk;
  Node node(std::make_unique<testing::SimJournal>(disk),
            {.wall_minus_boot = [&] { return ahead; }});
  ASSERT_TRUE(node.started);
  ASSERT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  ASSERT_EQ(node.outcome(acquire("b", 2)), Outcome::kHeld);
  std::uint64_t seq = 0;
  std::optional<Result<Answer>> got;
  // Whether it is answered at once, and so from memory.
  const auto asks = [&](machine::Action action) {
    got.reset();
    node.service.submit({"c", 0, std::move(action)},
                        [&](Result<Answer> answer) { got = std::move(answer); });
    return got.has_value();
  };
  const auto renews = [&] {
    return asks(machine::Renew{"a", {1, 1}, ++seq, seconds(600), seconds(600)});
  };
  EXPECT_TRUE(renews());
  ahead += milliseconds(49);  // Clocks are slewed, too.
  EXPECT_TRUE(renews());
  for (const auto leap : {milliseconds(1), milliseconds(-50)}) {
    ahead += leap;  // By 50 ms since it was last noticed, forward or back.
    const std::uint64_t commits = node.service.state().commits;
    EXPECT_FALSE(renews());
    node.until([&] { return got.has_value(); });
    EXPECT_GT(node.service.state().commits, commits);
    EXPECT_TRUE(renews()) << "the write has shown that this server still leads";
  }
  ahead += seconds(60);
  EXPECT_FALSE(asks(machine::Release{"b", {1, 2}, {}})) << "no release either";
  node.until([&] { return got.has_value(); });
  EXPECT_EQ((*got)->reply.outcome, Outcome::kReleased);
}

// A copy of the batch that was refused for want of room may still come to the journal.
TEST(ServiceTest, WhatFoundNoRoomIsOfUnknownOutcomeWhenTheJournalIsLost) {
  for (const bool stops : {false, true}) {
    testing::SimDisk disk;
    auto made = std::make_unique<testing::SimJournal>(disk);
    testing::SimJournal& journal = *made;
    Node node(std::move(made));
    ASSERT_TRUE(node.started);
    journal.answer(Commit::kLater);
    std::optional<Result<Answer>> got;
    node.service.submit({"c", 0, acquire("a", 1)},
                        [&](Result<Answer> answer) { got = std::move(answer); });
    node.until([&] { return node.service.state().full; });
    if (stops) {
      node.service.stop();
    } else {
      journal.answer(Commit::kRefused);
    }
    node.until([&] { return got.has_value(); });
    ASSERT_FALSE(*got);
    EXPECT_EQ(got->error().code(), Errc::kOutcomeUnknown) << got->error().message();
  }
}

// A connection's answers are in its requests' order, so the answer that such a renewal belongs to
// holds up those behind it: they took 100 ms each.
TEST(ServiceTest, AHurriedRenewalDoesNotWaitForOthersToShareItsProof) {
  testing::SimDisk disk;
  auto made = std::make_unique<testing::SimJournal>(disk);
  made->confirm_renewals();
  Node node(std::move(made));
  ASSERT_TRUE(node.started);
  ASSERT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  std::uint64_t seq = 0;
  const auto time_of_twenty = [&](bool hurried) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) {
      Request renewal{"c", 0, machine::Renew{"a", {1, 1}, ++seq, seconds(600), seconds(600)}};
      renewal.hurried = hurried;
      std::optional<Result<Answer>> got;
      node.service.submit(renewal, [&](Result<Answer> answer) { got = std::move(answer); });
      EXPECT_FALSE(got) << "the lead must be proven";
      while (!got) node.io.run_one();
    }
    return std::chrono::steady_clock::now() - begin;
  };
  const auto patient = time_of_twenty(false);
  EXPECT_LT(time_of_twenty(true), patient / 2);
}

// Rule 34: while nothing can be written, another server may have come to lead.
TEST(ServiceTest, WithoutRoomAReadWaitsForAProofOfTheLead) {
  testing::SimDisk disk;
  auto made = std::make_unique<testing::SimJournal>(disk);
  testing::SimJournal& journal = *made;
  journal.confirm_renewals();
  Node node(std::move(made));
  ASSERT_TRUE(node.started);
  ASSERT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  journal.answer(Commit::kLater);
  node.service.submit({"c", 0, acquire("b", 2)}, [](const Result<Answer>&) {});
  node.until([&] { return node.service.state().full; });
  const auto look = [&] {
    std::optional<Result<LockSight>> seen;
    node.service.inspect("a", [&](Result<LockSight> sight) { seen = std::move(sight); });
    EXPECT_FALSE(seen) << "not from memory alone";
    node.until([&] { return seen.has_value(); });
    return *std::move(seen);
  };
  for (int reads = 0; reads < 3; ++reads) {
    const int before = journal.confirmed;
    const auto seen = look();
    ASSERT_TRUE(seen) << seen.error().message();
    EXPECT_TRUE(seen->lock);
    EXPECT_GT(journal.confirmed, before);
  }
  journal.answer(Commit::kRefused);  // Another server leads.
  EXPECT_FALSE(look());
  node.until([&] { return node.stopped.has_value(); });
}

TEST(ServiceTest, OperatorsAreWarnedWhenTheDiskIsNearlyFullAndWhenItHasRoomAgain) {
  testing::SimDisk disk;
  auto made = std::make_unique<testing::SimJournal>(disk);
  testing::SimJournal& journal = *made;
  std::vector<std::string> warnings;
  Node node(std::move(made), {.warn = [&](const std::string& what) { warnings.push_back(what); }});
  ASSERT_TRUE(node.started);
  // The warnings so far, once the service has seen that so much is in use.
  const auto warned_at = [&](std::uint64_t percent) {
    journal.use_percent(percent);
    node.until([&] {
      const DiskSpace& seen = node.service.state().disk;
      return seen.size - seen.free == percent * (seen.size / 100);
    });
    return warnings.size();
  };
  EXPECT_EQ(warned_at(79), 0U);
  ASSERT_EQ(warned_at(80), 1U);
  EXPECT_EQ(warnings[0],
            "the disk of the journal sim is 80 % full. When it is full, no lock is granted: make "
            "room");
  EXPECT_EQ(warned_at(95), 1U) << "once";
  EXPECT_EQ(warned_at(75), 1U) << "not back and forth at the bound";
  ASSERT_EQ(warned_at(74), 2U);
  EXPECT_EQ(warnings[1], "the journal sim has room again");
  EXPECT_EQ(warned_at(80), 3U);
}

// Rule 54. In this journal trimming makes the room that the batch waits for.
TEST(ServiceTest, TheCompactorGoesOnWhileABatchWaitsForRoom) {
  testing::SimDisk disk;
  disk.chunks[{7, 0}] = "a chunk that a newer snapshot replaced";
  auto made = std::make_unique<testing::SimJournal>(disk);
  testing::SimJournal& journal = *made;
  journal.hold_trimming();
  Node node(std::move(made));
  ASSERT_TRUE(node.started);
  journal.fill();
  std::optional<Result<Answer>> got;
  node.service.submit({"c", 0, acquire("a", 1)},
                      [&](Result<Answer> answer) { got = std::move(answer); });
  node.until([&] { return node.service.state().full; });
  journal.let_trim();
  node.until([&] { return got.has_value(); });
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->reply.outcome, Outcome::kHeld);
}

TEST(ServiceTest, AListIsAnsweredTogether) {
  Node node("memory:");
  std::vector<Request> requests;
  const std::vector<std::string> names{"a", "b", "c"};
  for (std::size_t at = 0; at < names.size(); ++at) {
    requests.push_back({"c", 0, acquire(names[at], at + 1)});
  }
  std::optional<std::vector<Result<Answer>>> answers;
  node.service.submit_list(requests, [&](auto all) { answers = *std::move(all); });
  node.until([&] { return answers.has_value(); });
  ASSERT_EQ(answers->size(), 3U);
  for (const auto& each : *answers) EXPECT_EQ(each->reply.outcome, Outcome::kHeld);
  std::optional<std::vector<LockSight>> seen;
  node.service.list("", "a", 10, [&](auto all) { seen = *std::move(all); });
  node.until([&] { return seen.has_value(); });
  ASSERT_EQ(seen->size(), 2U);
  EXPECT_EQ((*seen)[0].name, "b");
}

TEST(ServiceTest, ARestartKeepsHoldersAndRaisesTheTerm) {
  const TempFolder folder;
  machine::Token token;
  std::string term;
  std::string id;
  {
    Node node("sqlite:" + folder.file("data"));
    ASSERT_TRUE(node.started) << node.started.error().message();
    token = node.ask(acquire("a", 1))->reply.token;
    term = node.service.term();
    id = node.service.journal_id();
  }
  Node node("sqlite:" + folder.file("data"));
  ASSERT_TRUE(node.started) << node.started.error().message();
  EXPECT_EQ(node.service.journal_id(), id);
  EXPECT_GT(std::stoi(node.service.term()), std::stoi(term));
  const auto again = node.ask(acquire("a", 1));
  EXPECT_EQ(again->reply.outcome, Outcome::kHeld);
  EXPECT_EQ(again->reply.token, token);
  EXPECT_EQ(node.outcome(acquire("a", 2)), Outcome::kWaiting);
}

TEST(SqliteJournalTest, ASecondServerIsRefusedWhileTheFirstLives) {
  const TempFolder folder;
  Node first("sqlite:" + folder.file("data"));
  ASSERT_TRUE(first.started);
  Node second("sqlite:" + folder.file("data"));
  ASSERT_FALSE(second.started);
  EXPECT_EQ(second.started.error().code(), Errc::kStoreInUse);
  EXPECT_NE(second.started.error().message().find(std::to_string(::getpid())), std::string::npos);
}

TEST(SqliteJournalTest, ACommitRefusesWhenItsFilesWereMoved) {
  for (const char* file : {"journal.db", "journal.db-wal"}) {
    const TempFolder folder;
    Node node("sqlite:" + folder.file("data"));
    ASSERT_TRUE(node.started);
    std::filesystem::rename(folder.file("data/") + file, folder.file("away"));
    const auto answer = node.ask(acquire("a", 1));
    ASSERT_FALSE(answer) << file;
    EXPECT_EQ(answer.error().code(), Errc::kUnavailable);
    ASSERT_TRUE(node.stopped);
    EXPECT_FALSE(node.ask(acquire("b", 2)));
  }
}

TEST(SqliteJournalTest, ACommitOfAnEarlierTermIsRefused) {
  const TempFolder folder;
  SqliteJournal journal({folder.file("data")});
  ASSERT_TRUE(journal.open());
  ASSERT_EQ(journal.commit(1, "one"), Commit::kCommitted);
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file("data/journal.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "UPDATE meta SET term = '99-x'", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_EQ(journal.commit(2, "two"), Commit::kRefused);
  sqlite3_close(other);
}

TEST(SqliteJournalTest, DamagedBytesAreAnErrorAndNeverAnAbort) {
  const char* damages[] = {
      "UPDATE ring SET bytes = x'00' WHERE number = 2",
      "UPDATE ring SET bytes = substr(bytes, 1, length(bytes) - 3) WHERE number = 2",
      "DELETE FROM ring WHERE number = 2",
      "UPDATE ring SET number = 1000 WHERE number = 2",
      "UPDATE ring SET number = x'41' WHERE number = 2",
      "UPDATE ring SET number = 1 WHERE number = (SELECT max(number) FROM ring)",
      "UPDATE meta SET head_count = 3, head_batch = 2",
      "DELETE FROM meta",
      "UPDATE meta SET format = 9",
  };
  for (const char* damage : damages) {
    const TempFolder folder;
    {
      Node node("sqlite:" + folder.file("data"));
      EXPECT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
      EXPECT_EQ(node.outcome(acquire("b", 2)), Outcome::kHeld);
    }
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(folder.file("data/journal.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, damage, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);
    Node node("sqlite:" + folder.file("data"));
    ASSERT_FALSE(node.started) << damage;
    const Errc code = node.started.error().code();
    EXPECT_TRUE(code == Errc::kCorruptState || code == Errc::kVersionMismatch) << damage;
  }
}

// The thread sanitizer does not know that a forked child makes the gate of SQLite anew.
#ifndef HOLDFAST_SANITIZED_THREADS
// The child tells each grant by a byte, after it was answered, and is killed at any time.
TEST(SqliteJournalTest, AKilledServerKeepsEveryAnsweredGrant) {
  const TempFolder folder;
  std::vector<std::uint64_t> answered;
  std::uint64_t next = 1;
  for (int round = 0; round < 6; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Node node("sqlite:" + folder.file("data"));
      if (!node.started) ::_exit(9);
      for (std::uint64_t id = next;; ++id) {
        const std::string name = "lock-" + std::to_string(id);
        if (node.ask(acquire(name, id))->reply.outcome != Outcome::kHeld) ::_exit(8);
        if (::write(pipe[1], "x", 1) != 1) ::_exit(7);
      }
    }
    ::close(pipe[1]);
    char byte = 0;
    std::uint64_t told = 0;
    const std::uint64_t enough = 20 + 13 * static_cast<std::uint64_t>(round);
    while (told < enough && ::read(pipe[0], &byte, 1) == 1) ++told;
    ASSERT_EQ(told, enough) << "the child ended by itself";
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    while (::read(pipe[0], &byte, 1) == 1) ++told;
    ::close(pipe[0]);
    for (std::uint64_t id = next; id < next + told; ++id) answered.push_back(id);

    Node node("sqlite:" + folder.file("data"));
    ASSERT_TRUE(node.started) << node.started.error().message();
    machine::Token last;
    for (const std::uint64_t id : answered) {
      const std::string name = "lock-" + std::to_string(id);
      machine::Acquire other = acquire(name, 1'000'000 + id);
      other.may_wait = false;
      ASSERT_EQ(node.outcome(other), Outcome::kBusy) << name;
      const auto held = node.ask(acquire(name, id));
      ASSERT_EQ(held->reply.outcome, Outcome::kHeld) << name;
      last = std::max(last, held->reply.token);
    }
    EXPECT_GT(node.ask(acquire("new-" + std::to_string(round), 7'000'000))->reply.token, last);
    next = answered.back() + 2;  // One more may have been granted and not told.
  }
}
#endif

TEST(SqliteJournalTest, AFullDiskStopsGrantsAndNotRenewals) {
  HOLDFAST_NEEDS_SMALL_DISK();
  const TempFolder folder;
  support::SmallDisk disk(folder.path(), 8);
  Node node("sqlite:" + disk.path() + "/data");
  ASSERT_TRUE(node.started) << node.started.error().message();
  ASSERT_EQ(node.outcome(acquire("a", 1)), Outcome::kHeld);
  disk.fill();
  // Until the log's own room is used up, commits go on.
  std::uint64_t id = 10;
  std::optional<Result<Answer>> stuck;
  bool refused = false;
  while (!refused) {
    const std::string name = "lock-" + std::to_string(id);
    stuck.reset();
    node.service.submit({"c", 0, acquire(name, id++)},
                        [&](Result<Answer> answer) { stuck = std::move(answer); });
    const auto patience = std::chrono::steady_clock::now() + seconds(2);
    while (!stuck && std::chrono::steady_clock::now() < patience) {
      node.io.restart();
      node.io.run_for(milliseconds(5));
    }
    refused = !stuck || !*stuck;
    ASSERT_LT(id, 50'000U);
  }
  EXPECT_FALSE(node.stopped);
  EXPECT_EQ(node.outcome(machine::Renew{"a", {1, 1}, 1, seconds(600), seconds(600)}),
            Outcome::kHeld);
  EXPECT_EQ(node.ask(acquire("z", 5)).error().code(), Errc::kUnavailable);
  disk.make_room();
  if (!stuck) node.until([&] { return stuck.has_value(); });  // It was only late.
  EXPECT_EQ(node.outcome(acquire("z", 6)), Outcome::kHeld);
}

// The log alone would outgrow this disk, unless it is folded into the database in time.
TEST(SqliteJournalTest, ASmallDiskIsEnoughForEver) {
  HOLDFAST_NEEDS_SMALL_DISK();
  const TempFolder folder;
  const support::SmallDisk disk(folder.path(), 16);
  const std::unique_ptr<Journal> journal = *make_journal("sqlite:" + disk.path() + "/data");
  ASSERT_TRUE(journal->open());
  const std::uint64_t last = *journal->last();
  for (std::uint64_t number = 1; number <= 5'000; ++number) {
    ASSERT_EQ(journal->commit(last + number, std::string(500, 'x')), Commit::kCommitted)
        << "batch " << number << ": " << journal->reason();
  }
}

// --- Snapshots.

// A crash after each single step of the compactor leaves a journal that reads to the same state.
TEST(CompactorTest, ACrashAtAnyStepLeavesAWholeJournal) {
  testing::SimDisk disk;
  disk.room = 1'000;
  {
    testing::SimJournal journal(disk);
    ASSERT_TRUE(journal.open());
    machine::LockMachine machine({0, 0});
    for (std::uint64_t number = 1; number <= 60; ++number) {
      const std::string name = "lock-" + std::to_string(number % 25);
      machine::Effects effects;
      machine.apply({machine::Instant(seconds(number)), acquire(name, number)}, effects);
      RecordWriter writer({RecordKind::kBatch, number, 0});
      for (const auto& effect : effects) writer.add_effect(effect);
      journal.commit(number, writer.finish(machine::Instant(seconds(number))));
    }
  }
  const auto state = [](testing::SimDisk& from) {
    testing::SimJournal reader(from);
    auto all = recover(reader, {}, 0);
    std::string text = std::to_string(all->last_batch);
    for (const auto& lock : all->machine.snapshot().locks) {
      text += " " + lock.name + ":" + std::to_string(lock.tickets.size());
    }
    return text;
  };
  const std::string before = state(disk);
  int snapshots = 0;
  for (int steps = 1; steps < 200 && snapshots < 3; ++steps) {
    testing::SimDisk copy = disk;
    testing::SimJournal journal(copy);
    ASSERT_TRUE(journal.open());
    Compactor compactor(journal, {.bytes = 100, .chunk = 400}, copy.head, 60);
    compactor.note_commit(60, 1'000);
    for (int done = 0; done < steps; ++done) ASSERT_EQ(compactor.step(), Commit::kCommitted);
    ASSERT_EQ(state(copy), before) << steps;
    snapshots += copy.head.batch == 60 && !compactor.busy();
  }
  EXPECT_EQ(snapshots, 3);
}

// Ten batches, and a compactor that is due.
struct Compacting {
  Compacting() {
    machine::LockMachine machine({0, 0});
    for (std::uint64_t number = 1; number <= 10; ++number) {
      machine::Effects effects;
      const std::string name = "a" + std::to_string(number);
      machine.apply({machine::Instant(seconds(number)), acquire(name, number)}, effects);
      RecordWriter writer({RecordKind::kBatch, number, 0});
      for (const auto& effect : effects) writer.add_effect(effect);
      journal.commit(number, writer.finish(machine::Instant(seconds(number))));
    }
    compactor.note_commit(10, 1'000);
  }

  testing::SimDisk disk;
  testing::SimJournal journal{disk};
  Compactor compactor{journal, {.bytes = 100, .chunk = 400}, {}, 0};
};

TEST(CompactorTest, AReadThatFailsIsTriedAgain) {
  Compacting it;
  it.journal.fail_reads(Error(Errc::kUnavailable, "no member answers"));
  Commit done = Commit::kCommitted;
  for (int step = 0; step < 10 && done == Commit::kCommitted; ++step) done = it.compactor.step();
  EXPECT_EQ(done, Commit::kLater);
  EXPECT_EQ(it.compactor.step(), Commit::kLater);
  EXPECT_FALSE(it.compactor.broken());
  it.journal.fail_reads(std::nullopt);
  while (it.compactor.busy()) ASSERT_EQ(it.compactor.step(), Commit::kCommitted);
  EXPECT_EQ(it.disk.head.batch, 10U);
}

TEST(CompactorTest, DamagedRecordsAreTheEndAndTold) {
  Compacting it;
  it.disk.batches[4] = "nonsense";
  while (it.compactor.busy()) ASSERT_EQ(it.compactor.step(), Commit::kCommitted);
  ASSERT_TRUE(it.compactor.broken());
  EXPECT_EQ(it.compactor.broken()->code(), Errc::kCorruptState);
  EXPECT_EQ(it.disk.head.batch, 0U);
  EXPECT_FALSE(it.compactor.must_finish());
}

TEST(SqliteJournalTest, TheRingIsReusedAndSnapshotsBoundTheRecovery) {
  const TempFolder folder;
  const auto make = [&] {
    return std::make_unique<SqliteJournal>(SqliteJournalOptions{folder.file("data"), {}, 16});
  };
  std::uint64_t batches = 0;
  {
    Node node(make());
    ASSERT_TRUE(node.started) << node.started.error().message();
    for (std::uint64_t id = 1; id <= 200; ++id) {
      ASSERT_EQ(node.outcome(acquire("lock-" + std::to_string(id), id)), Outcome::kHeld);
    }
  }
  auto journal = make();
  ASSERT_TRUE(journal->open());
  batches = *journal->last();
  EXPECT_GE(batches, 200U);
  EXPECT_LE(batches - journal->head()->batch, 16U);
  const auto all = recover(*journal, {}, 0);
  ASSERT_TRUE(all) << all.error().message();
  journal.reset();
  Node node(make());
  ASSERT_TRUE(node.started) << node.started.error().message();
  for (std::uint64_t id = 1; id <= 200; ++id) {
    machine::Acquire other = acquire("lock-" + std::to_string(id), 1'000 + id);
    const std::string name = "lock-" + std::to_string(id);
    other.name = name;
    other.may_wait = false;
    ASSERT_EQ(node.outcome(other), Outcome::kBusy);
  }
}

}  // namespace
}  // namespace holdfast::server
