// The list of the servers on one journal, on real etcd.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/etcd/doctor.h"
#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/journal/members.h"
#include "src/stores/etcd/test_clerk.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"

namespace holdfast::stores::etcd {
namespace {

using support::EtcdCluster;
using support::eventually;

using MembersPtr = std::unique_ptr<port::Members>;
using Instant = std::chrono::system_clock::time_point;

JournalSettings settings_of(const std::string& url) {
  auto parsed = port::StoreUrl::parse(url);
  auto settings = parse_journal_url(*parsed);
  if (!settings) throw std::runtime_error(settings.error().message());
  return *std::move(settings);
}

MembersPtr make_members(const std::string& url) {
  auto made = EtcdMembers::make(settings_of(url));
  if (!made) throw std::runtime_error(made.error().message());
  return *std::move(made);
}

Result<port::MembersList> list_of(port::Members& members) {
  Awaited<port::MembersList> answer;
  members.list(BootClock::now() + kSoon, answer.done());
  return answer.wait();
}

Result<std::vector<ServerMember>> listed(port::Members& members) {
  auto seen = list_of(members);
  if (!seen) return seen.error();
  return std::move(seen->servers);
}

// "one:1 two:1*": the one with a star leads.
std::string text_of(port::Members& members) {
  const auto found = listed(members);
  if (!found) return found.error().message();
  std::string text;
  for (const ServerMember& each : *found) {
    text += (text.empty() ? "" : " ") + each.address + (each.leads ? "*" : "");
  }
  return text;
}

class EtcdMembersTest : public ::testing::Test {
 protected:
  std::string url() const { return etcd_.url_of({0}) + "/team?leadership=2s"; }
  MembersPtr one_of_them(const std::string& address, bool leads = false) const {
    MembersPtr members = make_members(url());
    members->announce({address, "1.2.3", leads, Instant(5s)}, /*yields=*/false);
    return members;
  }
  // Leads from now on, under that address.
  std::unique_ptr<port::Journal> leader(const std::string& address) const {
    auto made = EtcdJournal::make(settings_of(url()), base::BootInstant::max());
    if (!made || !(*made)->lead(address, BootClock::now() + kSoon).value()) {
      throw std::runtime_error("does not lead");
    }
    return *std::move(made);
  }
  std::string leases() const { return etcd_.etcdctl({"lease", "list"}); }

  EtcdCluster etcd_;
};

// The findings by topic: "history: nothing has been compacted ...".
std::string findings_of(port::Members& members) {
  Awaited<std::vector<Finding>> answer;
  members.examine(BootClock::now() + kSoon, answer.done());
  const auto found = answer.wait();
  if (!found) return found.error().message();
  std::string text;
  for (const Finding& each : *found) text += each.topic + ": " + each.what + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(EtcdMembersTest, AnExaminationTellsTheSettingsThatMatterAndThoseThatCannotBeSeen) {
  const MembersPtr members = make_members(url());
  const std::string first = findings_of(*members);
  EXPECT_TRUE(has(first, "\nmembers: one")) << first;
  EXPECT_TRUE(has(first, "\nalarms: none\n")) << first;
  EXPECT_TRUE(has(first, "\nquota: the database has ")) << first;
  EXPECT_TRUE(has(first, " of 2048 MiB")) << first;
  EXPECT_TRUE(has(first, "\nhistory: nothing has been compacted yet, and whether")) << first;
  EXPECT_TRUE(has(first, "\nsettings: etcd does not tell these")) << first;
  EXPECT_TRUE(has(first, "--snapshot-count, --auto-compaction-mode")) << first;
  const MembersPtr compacting = make_members(url() + "&compact=yes&quota=64");
  const std::string ours = findings_of(*compacting);
  EXPECT_TRUE(has(ours, "compacted yet; this service will do it")) << ours;
  EXPECT_TRUE(has(ours, " of 64 MiB") || has(ours, " of 2048 MiB")) << ours;

  for (int i = 0; i < 5; ++i) etcd_.etcdctl({"put", "other", std::to_string(i)});
  const std::string json = etcd_.etcdctl({"get", "other", "-w", "json"});
  const auto at = json.find("\"mod_revision\":");
  etcd_.etcdctl({"compact", std::to_string(std::stoull(json.substr(at + 15)))});
  const std::string later = findings_of(*members);
  EXPECT_TRUE(has(later, "\nhistory: old revisions are compacted; how often cannot")) << later;
  EXPECT_TRUE(has(findings_of(*compacting), "are compacted, also by this service"));
}

TEST_F(EtcdMembersTest, AnExaminationOfAnEtcdThatIsAwayEndsInTime) {
  const MembersPtr members = make_members(url());
  etcd_.kill9(0);
  const std::string found = findings_of(*members);
  EXPECT_TRUE(has(found, "servers: no server answers")) << found;
}

TEST(EtcdSettingsTest, AQuotaIsJudgedByWhatEtcdTellsOrTheUrl) {
  const std::int64_t mib = 1 << 20;
  const Finding told = judge_quota({90 * mib, 10 * mib, 100 * mib}, 5'000 * mib);
  EXPECT_EQ(told.severity, Severity::kWarning);
  EXPECT_TRUE(has(told.what, "90 MiB, 10 MiB in use")) << told.what;
  EXPECT_FALSE(has(told.what, "quota=")) << told.what;
  const Finding expected = judge_quota({10 * mib, 10 * mib, 0}, 100 * mib);
  EXPECT_EQ(expected.severity, Severity::kOk);
  EXPECT_TRUE(has(expected.what, "which quota= of the journal's URL says")) << expected.what;
  EXPECT_TRUE(has(judge_quota({mib, mib, 0}, 0).what, "cannot be seen before etcd 3.6"));
}

TEST(EtcdSettingsTest, AHistoryThatOnlyGrowsIsAWarning) {
  for (const bool compacts : {false, true}) {
    EXPECT_EQ(judge_history({1'000, false, false}, compacts).severity, Severity::kOk);
    EXPECT_EQ(judge_history({2'000'000, true, false}, compacts).severity, Severity::kOk);
    EXPECT_EQ(judge_history({2'000'000, false, true}, compacts).severity, Severity::kWarning);
    EXPECT_EQ(judge_history({2'000'000, true, true}, compacts).severity, Severity::kWarning);
  }
  EXPECT_TRUE(has(judge_history({9, false, false}, false).advice, "--auto-compaction-mode"));
}

TEST_F(EtcdMembersTest, EachIsToldWithWhatItSays) {
  const auto journal = leader("one:1");
  const MembersPtr two = one_of_them("two:1");
  const MembersPtr one = one_of_them("one:1", /*leads=*/true);
  EXPECT_TRUE(eventually([&] { return text_of(*two) == "one:1* two:1"; })) << text_of(*two);
  EXPECT_EQ(text_of(*one), text_of(*two));
  const auto found = listed(*one);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().version, "1.2.3");
  EXPECT_EQ(found->front().since, Instant(5s));
}

TEST_F(EtcdMembersTest, AChangeOfItsRoleReplacesItsEntry) {
  const MembersPtr one = one_of_them("one:1");
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "one:1"; }));
  const auto journal = leader("one:1");
  one->announce({"one:1", "1.2.3", true, Instant(9s)}, /*yields=*/false);
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "one:1*"; })) << text_of(*one);
  EXPECT_EQ(listed(*one)->front().since, Instant(9s));
}

TEST_F(EtcdMembersTest, AServerThatYieldsIsTold) {
  const MembersPtr one = one_of_them("one:1");
  const MembersPtr two = one_of_them("two:1");
  const auto yielding = [&] {
    const auto all = list_of(*two);
    return all ? all->yielding : std::vector<std::string>{"no answer"};
  };
  EXPECT_TRUE(eventually([&] { return text_of(*two) == "one:1 two:1"; }));
  EXPECT_EQ(yielding(), std::vector<std::string>());
  one->announce({"one:1", "1.2.3", false, Instant(5s)}, /*yields=*/true);
  EXPECT_TRUE(eventually([&] { return yielding() == std::vector<std::string>{"one:1"}; }));
  EXPECT_EQ(listed(*two)->front().version, "1.2.3");
  one->announce({"one:1", "1.2.3", false, Instant(5s)}, /*yields=*/false);
  EXPECT_TRUE(eventually([&] { return yielding().empty(); }));
}

TEST_F(EtcdMembersTest, AnEarlierLeaderIsNotToldToLead) {
  const MembersPtr old = one_of_them("old:1", /*leads=*/true);
  const auto journal = leader("now:1");
  const MembersPtr now = one_of_them("now:1", /*leads=*/true);
  EXPECT_TRUE(eventually([&] { return text_of(*now) == "now:1* old:1"; })) << text_of(*now);
  EXPECT_EQ(listed(*now)->back().since, Instant()) << "nobody knows since when it does not lead";
}

TEST_F(EtcdMembersTest, OneThatEndsIsOffTheListAtOnceAndLeavesNoLease) {
  const std::string before = leases();
  const MembersPtr one = make_members(url());
  MembersPtr two = one_of_them("two:1");
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "two:1"; }));
  two.reset();
  EXPECT_EQ(text_of(*one), "");
  EXPECT_EQ(leases(), before);
}

TEST_F(EtcdMembersTest, ALeaseThatHasEndedIsReplaced) {
  const MembersPtr one = one_of_them("one:1");
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "one:1"; }));
  const std::string all = leases();
  const std::string lease = all.substr(all.find('\n') + 1, all.rfind('\n') - all.find('\n') - 1);
  etcd_.etcdctl({"lease", "revoke", lease});
  EXPECT_EQ(text_of(*one), "");
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "one:1"; })) << text_of(*one);
}

TEST_F(EtcdMembersTest, EntriesOfAnotherFormatAreToldByTheirAddress) {
  const MembersPtr one = make_members(url());
  etcd_.etcdctl({"put", "team/hf1/j/m/new:1", "2 whatever"});
  etcd_.etcdctl({"put", "team/hf1/j/m/odd:1", ""});
  EXPECT_EQ(text_of(*one), "new:1 odd:1");
  EXPECT_EQ(listed(*one)->front().version, "");
}

// An entry of before has no address of HTTP, and a server of before reads no further than its own.
TEST_F(EtcdMembersTest, TheAddressOfHttpIsToldWhereThereIsOne) {
  const MembersPtr with = make_members(url());
  with->announce({"with:1", "1.2.3", false, Instant(5s), 0, "with:2"}, /*yields=*/false);
  const MembersPtr without = one_of_them("without:1");
  etcd_.etcdctl({"put", "team/hf1/j/m/before:1", "1 0 5000 1.2.3"});
  EXPECT_TRUE(eventually([&] { return text_of(*with) == "before:1 with:1 without:1"; }));
  const auto found = listed(*with);
  ASSERT_TRUE(found && found->size() == 3);
  EXPECT_EQ((*found)[0].http + "," + (*found)[1].http + "," + (*found)[2].http, ",with:2,");
  EXPECT_EQ((*found)[0].version, "1.2.3");
  EXPECT_TRUE(has(etcd_.etcdctl({"get", "team/hf1/j/m/with:1"}), "\n1 0 5000 1.2.3 with:2\n"));
}

TEST_F(EtcdMembersTest, AnEtcdThatIsAwayHoldsNothingUp) {
  MembersPtr one = one_of_them("one:1");
  EXPECT_TRUE(eventually([&] { return text_of(*one) == "one:1"; }));
  etcd_.pause();
  const auto before = BootClock::now();
  one->announce({"one:1", "1.2.3", true, Instant(9s)}, /*yields=*/false);
  EXPECT_LT(BootClock::now() - before, 1s) << "it does not wait";
  Awaited<port::MembersList> answer;
  one->list(BootClock::now() + 100ms, answer.done());
  EXPECT_FALSE(answer.wait());
  one.reset();
  EXPECT_LT(BootClock::now() - before, kSoon / 2) << "the farewell is bounded";
  etcd_.resume();
}

}  // namespace
}  // namespace holdfast::stores::etcd
