// The lock service's journal on real etcd servers, as one server after the other takes it over.
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/test_clerk.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/temp_folder.h"

namespace holdfast::stores::etcd {
namespace {

namespace fs = std::filesystem;

using port::Commit;
using port::SnapshotHead;
using support::EtcdCluster;
using support::eventually;
using support::Fault;
using support::FaultProxy;

using JournalPtr = std::unique_ptr<port::Journal>;

JournalPtr make(const std::string& url,
                std::chrono::milliseconds between_notes = port::RestoredWait::kNoteEvery,
                std::shared_ptr<SeenRevisions> seen = SeenRevisions::of_process()) {
  auto parsed = port::StoreUrl::parse(url);
  auto settings = parse_journal_url(*parsed);
  if (!settings) throw std::runtime_error(settings.error().message());
  settings->between_notes = between_notes;
  settings->seen = std::move(seen);
  auto made = EtcdJournal::make(*std::move(settings), base::BootInstant::max());
  if (!made) throw std::runtime_error(made.error().message());
  return *std::move(made);
}

class EtcdJournalTest : public ::testing::Test {
 protected:
  explicit EtcdJournalTest(const support::EtcdOptions& options = {}) : etcd_(options) {}

  std::string url(const std::string& query = "?leadership=2s") const {
    return etcd_.url_of({0}) + "/team" + query;
  }
  static std::string through(const FaultProxy& proxy) {
    return "etcd://127.0.0.1:" + std::to_string(proxy.port()) + "/team";
  }
  // Leads, and has opened the journal.
  JournalPtr leader(const std::string& told = "one:1") const { return lead(make(url()), told); }
  static JournalPtr lead(JournalPtr journal, const std::string& told) {
    const auto leads = journal->lead(told, BootClock::now() + kSoon);
    if (!leads || !*leads) {
      throw std::runtime_error(leads ? "another leads" : leads.error().message());
    }
    if (const auto opened = journal->open(); !opened) {
      throw std::runtime_error(opened.error().message());
    }
    return journal;
  }
  static std::string error_of_open(port::Journal& journal) {
    const auto leads = journal.lead("x:1", BootClock::now() + kSoon);
    if (!leads) return leads.error().message();
    const auto opened = journal.open();
    return opened ? "" : opened.error().message();
  }
  // The leader is not told of it.
  void remove(const std::string& key) const {
    const std::string whole = "team/hf1/j/" + key;
    EXPECT_NE(etcd_.etcdctl({"del", whole}).find('1'), std::string::npos) << key;
  }

  EtcdCluster etcd_;
};

TEST_F(EtcdJournalTest, TheNextLeaderReadsWhatWasCommitted) {
  {
    const JournalPtr one = leader();
    EXPECT_TRUE(one->opening().began);
    EXPECT_EQ(one->last().value(), 0U);
    EXPECT_EQ(one->commit(1, "HFJ first"), Commit::kCommitted);
    EXPECT_EQ(one->commit(2, std::string(3'000'000, 'x')), Commit::kCommitted) << one->reason();
    EXPECT_EQ(one->commit(3, "HFJ third"), Commit::kCommitted);
  }
  const JournalPtr two = leader();
  EXPECT_FALSE(two->opening().began);
  EXPECT_EQ(two->opening().old_leader, 2020ms) << "the lease of leadership, and one percent";
  ASSERT_EQ(two->last().value(), 3U);
  EXPECT_EQ(two->batch(1).value(), "HFJ first");
  EXPECT_EQ(two->batch(2).value(), std::string(3'000'000, 'x'));
  EXPECT_EQ(two->batch(3).value(), "HFJ third");
  EXPECT_FALSE(two->batch(4));
}

TEST_F(EtcdJournalTest, OneLeadsAndTheOtherIsToldWhere) {
  const JournalPtr one = leader("one:7420");
  const JournalPtr two = make(url());
  const auto leads = two->lead("two:7420", BootClock::now());
  ASSERT_TRUE(leads);
  EXPECT_FALSE(*leads);
  EXPECT_EQ(two->leader(), "one:7420");
  EXPECT_EQ(two->commit(1, "HFJ"), Commit::kRefused);
}

TEST_F(EtcdJournalTest, AnInterruptEndsTheWait) {
  const JournalPtr one = leader();
  const JournalPtr two = make(url());
  std::thread waiting([&] { EXPECT_FALSE(two->lead("two:1", base::BootInstant::max()).value()); });
  EXPECT_TRUE(eventually([&] { return two->leader() == "one:1"; })) << "it has looked, and waits";
  two->interrupt();
  waiting.join();
}

TEST_F(EtcdJournalTest, AnEarlierLeaderIsRefusedEveryWrite) {
  const JournalPtr old = leader("old:1");
  ASSERT_EQ(old->commit(1, "HFJ 1"), Commit::kCommitted);
  remove("leader");  // As when its lease ends.
  const JournalPtr now = leader("now:1");
  EXPECT_EQ(old->commit(2, "HFJ late"), Commit::kRefused);
  EXPECT_NE(old->reason().find("now:1"), std::string::npos) << old->reason();
  EXPECT_LT(old->leads_until(), BootClock::now());
  EXPECT_EQ(old->put_chunk(1, 0, "HFJ"), Commit::kRefused);
  EXPECT_EQ(old->put_head({1, 1, 0}), Commit::kRefused);
  EXPECT_EQ(old->confirm(), Commit::kRefused);
  EXPECT_EQ(now->last().value(), 1U);
  EXPECT_EQ(now->commit(2, "HFJ 2"), Commit::kCommitted);
}

// As after a snapshot of etcd was put back, when revisions come again (rule 35).
TEST_F(EtcdJournalTest, ALeaderKeyOfTheSameRevisionIsKnownByItsLease) {
  const JournalPtr old = leader("old:1");
  ASSERT_EQ(old->commit(1, "HFJ 1"), Commit::kCommitted);
  const std::string said = etcd_.etcdctl({"lease", "grant", "60"});  // "lease ID granted ..."
  const std::string lease = said.substr(6, said.find(' ', 6) - 6);
  etcd_.etcdctl({"put", "team/hf1/j/leader", "now:1", "--lease=" + lease});
  EXPECT_EQ(old->commit(2, "HFJ late"), Commit::kRefused);
  EXPECT_NE(old->reason().find("now:1"), std::string::npos) << old->reason();
  EXPECT_EQ(etcd_.etcdctl({"get", "--prefix", "team/hf1/j/b/"}).find("HFJ late"),
            std::string::npos);
}

TEST_F(EtcdJournalTest, TheTermsNumberGrows) {
  const auto number = [](const JournalPtr& journal) {
    return std::stoull(journal->term().substr(0, journal->term().find('-')));
  };
  std::uint64_t before = 0;
  std::string id;
  for (int i = 0; i < 3; ++i) {
    const JournalPtr each = leader();
    EXPECT_GT(number(each), before);
    before = number(each);
    EXPECT_TRUE(i == 0 || each->id() == id);
    id = each->id();
  }
}

TEST_F(EtcdJournalTest, ALeaderThatIsNotKeptAliveLosesTheLead) {
  const JournalPtr one = leader();
  const JournalPtr two = make(url());
  // Nobody calls keep_leading() of the first one.
  EXPECT_TRUE(two->lead("two:1", BootClock::now() + kSoon).value());
  EXPECT_LT(one->leads_until(), BootClock::now() + 2020ms)
      << "what it answers by its deadline, the second one has to wait for";
  EXPECT_EQ(one->look(), Commit::kRefused);
}

TEST_F(EtcdJournalTest, ALeaderThatIsKeptAliveStays) {
  const JournalPtr one = lead(make(url("?leadership=4s")), "one:1");
  const JournalPtr two = make(url());
  const auto until = BootClock::now() + 7s;
  while (BootClock::now() < until) {
    one->keep_leading();
    ASSERT_EQ(one->look(), Commit::kCommitted) << one->reason();
    ASSERT_FALSE(two->lead("two:1", BootClock::now() + 100ms).value());
  }
  EXPECT_GT(one->leads_until(), BootClock::now());
}

TEST_F(EtcdJournalTest, ALeaderThatReadsForLongStays) {
  { ASSERT_EQ(leader()->commit(1, "HFJ 1"), Commit::kCommitted); }
  const JournalPtr one = lead(make(url("?leadership=4s")), "one:1");
  ASSERT_EQ(one->last().value(), 1U);
  // As long as a recovery of millions of locks takes.
  const auto until = BootClock::now() + 7s;
  while (BootClock::now() < until) ASSERT_EQ(one->batch(1).value(), "HFJ 1");
  EXPECT_EQ(one->commit(2, "HFJ 2"), Commit::kCommitted) << one->reason();
}

TEST_F(EtcdJournalTest, WithoutAWriteTheLeaseIsNotKeptAlive) {
  const JournalPtr one = leader();
  const JournalPtr two = make(url());
  const auto until = BootClock::now() + kSoon;
  bool leads = false;
  while (!leads && BootClock::now() < until) {
    one->keep_leading();  // But nothing is looked at or committed.
    leads = two->lead("two:1", BootClock::now() + 50ms).value();
  }
  EXPECT_TRUE(leads);
}

TEST_F(EtcdJournalTest, ALeadWhoseAnswerWasLostIsFound) {
  FaultProxy proxy({.server_port = etcd_.port()});
  // The request that makes the leader key is the only one with this address.
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "one:1", .times = 1});
  const JournalPtr one = lead(make(through(proxy)), "one:1");
  EXPECT_TRUE(proxy.wait_for_hits(lost));
  EXPECT_EQ(one->commit(1, "HFJ 1"), Commit::kCommitted) << one->reason();
  EXPECT_GT(one->leads_until(), BootClock::now());
}

TEST_F(EtcdJournalTest, ABatchWhoseAnswerWasLostIsFoundOrSentAgain) {
  FaultProxy proxy({.server_port = etcd_.port()});
  const JournalPtr one = lead(make(through(proxy)), "one:1");
  const int silence =
      proxy.add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  std::thread later([&] {
    EXPECT_TRUE(eventually(
        [&] {
          return etcd_.etcdctl({"get", "--prefix", "team/hf1/j/b/"}) != "";
        },
        kSoon))
        << "it was applied";
    proxy.remove(silence);
    proxy.reset_all();
  });
  EXPECT_EQ(one->commit(1, "HFJ once"), Commit::kCommitted) << one->reason();
  later.join();
  EXPECT_EQ(one->commit(2, "HFJ twice"), Commit::kCommitted);
  EXPECT_EQ(one->last().value(), 2U);
}

TEST_F(EtcdJournalTest, ABatchOfALeaderThatWasReplacedMeanwhileWasNeverApplied) {
  FaultProxy proxy({.server_port = etcd_.port()});
  const JournalPtr one = lead(make(through(proxy)), "one:1");
  const int silence =
      proxy.add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToServer});
  JournalPtr two;
  std::thread later([&] {
    remove("leader");
    two = leader("two:1");
    EXPECT_EQ(two->commit(1, "HFJ of the other"), Commit::kCommitted);
    proxy.remove(silence);
    proxy.reset_all();
  });
  EXPECT_EQ(one->commit(1, "HFJ"), Commit::kRefused);
  later.join();
  EXPECT_EQ(two->batch(1).value(), "HFJ of the other");
}

TEST_F(EtcdJournalTest, ASnapshotReplacesItsBatches) {
  const JournalPtr one = lead(make(url("?leadership=10s")), "one:1");
  for (std::uint64_t number = 1; number <= 1'200; ++number) {
    one->keep_leading();
    ASSERT_EQ(one->commit(number, "HFJ " + std::to_string(number)), Commit::kCommitted);
  }
  ASSERT_EQ(one->put_chunk(900, 0, "chunk a"), Commit::kCommitted);
  ASSERT_EQ(one->put_chunk(1'000, 0, "chunk 0"), Commit::kCommitted);
  ASSERT_EQ(one->put_chunk(1'000, 1, "chunk 1"), Commit::kCommitted);
  EXPECT_EQ(one->head().value().count, 0U) << "without a head they are nothing";
  ASSERT_EQ(one->put_head({1'000, 2, 42}), Commit::kCommitted);
  int steps = 0;
  while (one->trim().value()) ++steps;
  EXPECT_GE(steps, 3) << "in small parts";
  const std::string left = etcd_.etcdctl({"get", "--prefix", "team/hf1/j/b/", "--keys-only"});
  EXPECT_EQ(left.find(lease_text(1'000)), std::string::npos);
  EXPECT_NE(left.find(lease_text(1'001)), std::string::npos);
  EXPECT_EQ(etcd_.etcdctl({"get", "--prefix", "team/hf1/j/c/0000000000000384"}), "");
  remove("leader");
  const JournalPtr two = leader();
  const SnapshotHead head = two->head().value();
  EXPECT_EQ(head.batch, 1'000U);
  EXPECT_EQ(head.checksum, 42U);
  EXPECT_EQ(two->chunk(head, 1).value(), "chunk 1");
  EXPECT_FALSE(two->chunk(head, 2));
  EXPECT_EQ(two->last().value(), 1'200U);
  for (std::uint64_t number = 1'001; number <= 1'200; ++number) {
    ASSERT_EQ(two->batch(number).value(), "HFJ " + std::to_string(number));
  }
}

TEST_F(EtcdJournalTest, HistoryIsCompactedWhereTheUrlSaysSo) {
  const JournalPtr one = lead(make(url("?leadership=2s&compact=yes")), "one:1");
  ASSERT_EQ(one->commit(1, "HFJ 1"), Commit::kCommitted);
  ASSERT_EQ(one->put_head({1, 0, 0}), Commit::kCommitted);
  while (one->trim().value()) {
  }
  EXPECT_THROW(etcd_.etcdctl({"get", "--rev=2", "team/hf1/j/about"}), std::runtime_error);
  ASSERT_EQ(one->commit(2, "HFJ 2"), Commit::kCommitted);
  EXPECT_EQ(one->batch(2).value(), "HFJ 2");
}

TEST_F(EtcdJournalTest, OthersCompactionDoesNotStopTheReading) {
  const JournalPtr one = lead(make(url("?leadership=30s")), "one:1");
  ASSERT_EQ(one->commit(1, "HFJ 1"), Commit::kCommitted);
  ASSERT_EQ(one->last().value(), 1U);
  for (int i = 0; i < 5; ++i) etcd_.etcdctl({"put", "other", std::to_string(i)});
  const std::string json = etcd_.etcdctl({"get", "other", "-w", "json"});
  const auto at = json.find("\"mod_revision\":");
  etcd_.etcdctl({"compact", std::to_string(std::stoull(json.substr(at + 15)))});
  EXPECT_EQ(one->batch(1).value(), "HFJ 1");
}

TEST_F(EtcdJournalTest, AJournalThatLostItsKeysIsRefused) {
  { ASSERT_EQ(leader()->commit(1, "HFJ 1"), Commit::kCommitted); }
  remove("about");
  const JournalPtr next = make(url());
  EXPECT_NE(error_of_open(*next).find("'about' is gone"), std::string::npos);
}

TEST_F(EtcdJournalTest, ADamagedOrALaterJournalIsRefused) {
  etcd_.etcdctl({"put", "team/hf1/j/about", "9 of the future"});
  EXPECT_NE(error_of_open(*make(url())).find("format 9"), std::string::npos);
  etcd_.etcdctl({"put", "team/hf1/j/about", "1 abc"});
  EXPECT_NE(error_of_open(*make(url())).find("damaged"), std::string::npos);
}

TEST_F(EtcdJournalTest, AnotherClustersJournalIsARestoredOne) {
  std::string about;
  {
    const JournalPtr one = leader();
    ASSERT_EQ(one->commit(1, "HFJ 1"), Commit::kCommitted);
    about = one->id();
  }
  etcd_.etcdctl({"put", "team/hf1/j/about", "1 " + about + " 4711 2000"});
  {
    const JournalPtr two = leader();
    EXPECT_NE(two->opening().restored.find("another etcd cluster"), std::string::npos);
    EXPECT_EQ(two->id(), about);
  }
  {
    const JournalPtr three = leader();
    EXPECT_FALSE(three->opening().restored.empty()) << "until it is settled";
    EXPECT_TRUE(three->settle());
  }
  EXPECT_EQ(leader()->opening().restored, "");
}

// Rule 49: the wait counts from when it was found.
TEST_F(EtcdJournalTest, TheNextLeaderGoesOnWithTheWaitOfARestoredJournal) {
  const std::string id = leader()->id();
  const auto put_about = [&](const std::string& rest) {
    etcd_.etcdctl({"put", "team/hf1/j/about", "1 " + id + " 4711 2000" + rest});
  };
  // A leader notes the cluster in which it waits, the time so far, and the wall clock.
  const auto noted = [&] {
    std::istringstream text(etcd_.etcdctl({"get", "team/hf1/j/about", "--print-value-only"}));
    std::string word;
    std::vector<std::string> words;
    while (text >> word) words.push_back(word);
    return words;
  };
  put_about("");
  {
    const JournalPtr two = lead(make(url(), 0ms), "two:1");
    EXPECT_EQ(two->opening().waited, 0us);
    ASSERT_EQ(two->look(), Commit::kCommitted);
    EXPECT_TRUE(eventually([&] { return two->look() == Commit::kCommitted && noted()[5] != "0"; }));
  }
  ASSERT_EQ(noted().size(), 8U);
  const std::string cluster = noted()[4];
  const std::int64_t since = std::stoll(noted()[6]);
  const auto waited_after = [&](const std::string& in, std::int64_t its_since) {
    put_about(" " + in + " 18000000 " + std::to_string(its_since));
    const JournalPtr next = leader();
    EXPECT_NE(next->opening().restored, "");
    return next->opening().waited;
  };
  EXPECT_EQ(waited_after(cluster, since), 5h);
  EXPECT_EQ(waited_after("4712", since), 0us) << "it was put back into another cluster since then";
  EXPECT_EQ(waited_after(cluster, since - 25 * 3'600), 0us) << "the note may be of a snapshot";
  EXPECT_TRUE(leader()->settle());
  EXPECT_EQ(noted()[4], "0");
  EXPECT_EQ(leader()->opening().restored, "");
}

struct DataFolder {
  support::TempFolder folder{"put-back"};
};

// The data of a moment ago comes back, as a snapshot of a virtual machine brings it.
class EtcdJournalPutBackTest : protected DataFolder, public EtcdJournalTest {
 protected:
  EtcdJournalPutBackTest() : EtcdJournalTest({.data = folder.path() + "/data"}) {}

  void save() {
    etcd_.terminate();
    fs::copy(data(), data() + ".saved", fs::copy_options::recursive);
    start();
  }
  void put_back() {
    etcd_.kill9();
    fs::remove_all(data());
    fs::rename(data() + ".saved", data());
    start();
  }
  JournalPtr next_leader() const { return lead(make(url("?leadership=4s")), "one:1"); }
  void start() {
    etcd_.start();
    etcd_.await_health();
  }

 private:
  std::string data() const { return folder.path() + "/data"; }
};

TEST_F(EtcdJournalPutBackTest, ARevisionThatWentBackIsARestoredJournal) {
  { ASSERT_EQ(next_leader()->commit(1, "HFJ 1"), Commit::kCommitted); }
  save();
  { ASSERT_EQ(next_leader()->commit(2, "HFJ 2"), Commit::kCommitted); }
  put_back();
  {
    const JournalPtr two = next_leader();
    EXPECT_NE(two->opening().restored.find("went back"), std::string::npos);
    EXPECT_EQ(two->last().value(), 1U);
  }
  // Once more, during the wait.
  save();
  { ASSERT_TRUE(next_leader()->opening().known); }
  put_back();
  { EXPECT_FALSE(next_leader()->opening().known); }
  {
    const JournalPtr three = next_leader();
    EXPECT_FALSE(three->opening().restored.empty()) << "until it is settled";
    EXPECT_TRUE(three->settle());
  }
  EXPECT_EQ(next_leader()->opening().restored, "");
}

// No process has seen what came after it, and the cluster has the same id.
TEST_F(EtcdJournalPutBackTest, ASnapshotThatEtcdRestoredIsARestoredJournal) {
  const auto new_process = [&] {
    return lead(make(url("?leadership=4s"), port::RestoredWait::kNoteEvery,
                     std::make_shared<SeenRevisions>()),
                "one:1");
  };
  {
    const JournalPtr one = new_process();
    for (std::uint64_t n = 1; n <= 20; ++n) ASSERT_EQ(one->commit(n, "HFJ"), Commit::kCommitted);
  }
  EXPECT_EQ(new_process()->opening().restored, "") << "a restart of the server";
  const std::string snapshot = folder.path() + "/snapshot";
  etcd_.etcdctl({"snapshot", "save", snapshot});
  { ASSERT_EQ(new_process()->commit(21, "HFJ 21"), Commit::kCommitted); }
  etcd_.kill9();
  start();
  EXPECT_EQ(new_process()->opening().restored, "") << "a restart of etcd";
  etcd_.terminate();
  etcd_.restore(snapshot);
  start();
  {
    const JournalPtr two = new_process();
    EXPECT_NE(two->opening().restored.find("log began anew"), std::string::npos);
    EXPECT_FALSE(two->opening().known);
    EXPECT_EQ(two->last().value(), 20U);
  }
  {
    const JournalPtr three = new_process();
    EXPECT_NE(three->opening().restored.find("has not ended"), std::string::npos);
    EXPECT_TRUE(three->opening().known);
    EXPECT_TRUE(three->settle());
  }
  EXPECT_EQ(new_process()->opening().restored, "");
}

// Its memory goes on where the journal does not.
TEST_F(EtcdJournalPutBackTest, ALeaderWritesNothingBehindAGap) {
  JournalPtr one = next_leader();
  ASSERT_EQ(one->commit(1, "HFJ 1"), Commit::kCommitted);
  save();
  ASSERT_EQ(one->commit(2, "HFJ 2"), Commit::kCommitted) << one->reason();
  ASSERT_EQ(one->commit(3, "HFJ 3"), Commit::kCommitted);
  put_back();
  EXPECT_NE(one->commit(4, "HFJ 4"), Commit::kCommitted);
  one.reset();
  const JournalPtr two = next_leader();
  EXPECT_NE(two->opening().restored, "");
  EXPECT_EQ(two->last().value(), 1U);
}

// As the page says.
TEST_F(EtcdJournalTest, AUserWithRightsToItsKeysSuffices) {
  EtcdCluster guarded({.auth = true});
  guarded.etcdctl({"role", "add", "locks"});
  guarded.etcdctl(
      {"role", "grant-permission", "locks", "readwrite", "team/hf1/j/", "--prefix=true"});
  guarded.etcdctl({"user", "add", "alice:the-secret"});
  guarded.etcdctl({"user", "grant-role", "alice", "locks"});
  const std::string url = guarded.url("/team?leadership=4s", "alice:the-secret@");
  {
    const JournalPtr one = lead(make(url), "one:1");
    ASSERT_EQ(one->commit(1, std::string(3'000'000, 'x')), Commit::kCommitted) << one->reason();
    ASSERT_EQ(one->put_chunk(1, 0, "chunk"), Commit::kCommitted);
    ASSERT_EQ(one->put_head({1, 1, 0}), Commit::kCommitted);
    while (one->trim().value()) {
    }
  }
  const JournalPtr two = lead(make(url), "two:1");
  EXPECT_EQ(two->chunk(two->head().value(), 0).value(), "chunk");
}

TEST_F(EtcdJournalTest, WhereEtcdHasNoRoomTheLeadIsKept) {
  EtcdCluster small({.arguments = {"--quota-backend-bytes=3000000"}});
  const JournalPtr one = lead(make(small.url() + "/j?leadership=4s"), "one:1");
  Commit last = Commit::kCommitted;
  std::uint64_t number = 1;
  // etcd learns its size when it writes to the disk, ten times a second.
  const auto filled = BootClock::now() + kSoon;
  for (; last == Commit::kCommitted && BootClock::now() < filled; ++number) {
    last = one->commit(number, "HFJ" + std::string(200'000, 'x'));
  }
  ASSERT_EQ(last, Commit::kLater) << one->reason();
  EXPECT_EQ(one->confirm(), Commit::kCommitted) << one->reason();
  const JournalPtr two = make(small.url() + "/j?leadership=4s");
  const auto until = BootClock::now() + 6s;
  while (BootClock::now() < until) {
    one->keep_leading();
    EXPECT_EQ(one->commit(number - 1, "HFJ"), Commit::kLater);
    ASSERT_FALSE(two->lead("two:1", BootClock::now() + 100ms).value_or(false));
  }
  EXPECT_GT(one->leads_until(), BootClock::now());
}

TEST_F(EtcdJournalTest, TheSizeOfTheDatabaseIsShownBesideTheQuota) {
  const JournalPtr one = lead(make(url("?leadership=4s&quota=64")), "one:1");
  const auto until = BootClock::now() + 30s;
  while (one->space().size == 0 && BootClock::now() < until) one->look();
  const port::DiskSpace space = one->space();
  EXPECT_EQ(space.size, std::uint64_t{64} << 20U);
  EXPECT_GT(space.journal, 0U);
  EXPECT_EQ(space.free + space.journal, space.size);
  const JournalPtr two = make(url("?quota=0"));
  two->look();
  EXPECT_EQ(two->space().size, 0U);
}

TEST(EtcdJournalUrlTest, AnOptionOfTheLocksIsRefused) {
  for (const char* bad : {"etcd://a/p?session=5s", "etcd://a/p?recipe=etcd",
                          "etcd://a/p?leadership=1s", "etcd://a/p?compact=no"}) {
    auto parsed = port::StoreUrl::parse(bad);
    EXPECT_FALSE(parse_journal_url(*parsed)) << bad;
  }
}

}  // namespace
}  // namespace holdfast::stores::etcd
