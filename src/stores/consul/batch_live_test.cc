// Several locks in one transaction, on a real Consul (writes.h).
#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/consul/test_party.h"
#include "tests/support/consul_server.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::stores::consul {
namespace {

using support::ConsulServer;
using support::Fault;
using support::FaultProxy;

struct Asked {
  std::string lock;
  std::uint64_t id = 1;
};

// All asked for in one turn of the loop; the answers in the order of the questions.
template <typename T, typename Ask>
std::vector<Result<T>> together(Party& party, const std::vector<Asked>& asked, const Ask& ask) {
  std::vector<std::promise<Result<T>>> answers(asked.size());
  party.with([&](contend::Backend& backend) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      ask(backend, asked[i], [&, i](Result<T> result) { answers[i].set_value(std::move(result)); });
    }
  });
  std::vector<Result<T>> results;
  results.reserve(answers.size());
  for (auto& answer : answers) results.push_back(answer.get_future().get());
  return results;
}

std::vector<Result<Entered>> enter(Party& party, const std::vector<Asked>& asked,
                                   BootClock::duration limit = 20s) {
  const auto epoch = party.session().epoch;
  return together<Entered>(party, asked, [&](auto& backend, const Asked& each, auto done) {
    Details details;
    details.session = "tag";
    backend.enter(epoch, each.lock, Party::key(each.id), details, BootClock::now() + limit, done);
  });
}

std::vector<Result<bool>> remove(Party& party, const std::vector<Asked>& asked,
                                 BootClock::duration limit = 20s) {
  const auto epoch = party.session().epoch;
  return together<bool>(party, asked, [&](auto& backend, const Asked& each, auto done) {
    backend.remove(epoch, each.lock, QueueEntry{Party::key(each.id), 0}, BootClock::now() + limit,
                   done);
  });
}

std::vector<Asked> locks(const std::string& prefix, std::size_t count) {
  std::vector<Asked> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i].lock = prefix + std::to_string(i);
  return all;
}

template <typename T>
std::string why(const Result<T>& result) {
  return result ? "it succeeded" : result.error().message();
}

class ConsulBatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    server_ = std::make_unique<ConsulServer>(support::ConsulOptions{.log_level = "debug"});
  }
  std::string url(std::uint16_t through = 0) const {
    return server_->url({{"session", "10s"}}, through);
  }
  std::size_t transactions() const {
    const std::string log = server_->log();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = log.find("url=/v1/txn", at)) != std::string::npos; ++at) ++count;
    return count;
  }
  std::unique_ptr<ConsulServer> server_;
};

TEST_F(ConsulBatchTest, WhatIsAskedForInOneTurnIsOneTransaction) {
  Party alice(url());
  alice.session();
  auto asked = locks("n", 20);
  std::size_t before = transactions();
  const auto entered = enter(alice, asked);
  EXPECT_EQ(transactions(), before + 1);
  for (const auto& each : entered) {
    ASSERT_TRUE(each) << why(each);
    ASSERT_EQ(each->listing.queue.size(), 1U) << "of its own lock";
    EXPECT_EQ(each->listing.queue[0].order, each->created);
    EXPECT_EQ(each->created, entered[0]->created);
  }
  before = transactions();
  for (const auto& each : remove(alice, asked)) EXPECT_EQ(each ? *each : false, true) << why(each);
  EXPECT_EQ(transactions(), before + 1);
  for (const Asked& each : asked) EXPECT_TRUE(alice.list(each.lock)->queue.empty());
}

TEST_F(ConsulBatchTest, MoreThanATransactionTakesGoInSeveral) {
  Party alice(url());
  alice.session();
  const std::size_t before = transactions();
  for (const auto& each : enter(alice, locks("n", 100))) ASSERT_TRUE(each) << why(each);
  EXPECT_LE(transactions() - before, 6U);
}

// The next holder waits for the removal, and the others only for their places.
TEST_F(ConsulBatchTest, ARemovalPassesTheEntriesThatWaitInItsLock) {
  Party alice(url());
  alice.session();
  ASSERT_TRUE(enter(alice, {{"a", 1}})[0]);
  constexpr std::uint64_t kEntries = 8;
  const auto epoch = alice.session().epoch;
  std::vector<std::uint64_t> answered;  // By the loop.
  std::promise<void> all;
  alice.with([&](contend::Backend& backend) {
    const auto until = BootClock::now() + 20s;
    const auto note = [&](std::uint64_t id, bool good) {
      EXPECT_TRUE(good) << id;
      answered.push_back(id);
      if (answered.size() == kEntries + 1) all.set_value();
    };
    Details details;
    details.session = "tag";
    for (std::uint64_t id = 2; id < 2 + kEntries; ++id) {
      backend.enter(epoch, "a", Party::key(id), details, until,
                    [note, id](const Result<Entered>& entered) { note(id, entered.has_value()); });
    }
    backend.remove(epoch, "a", QueueEntry{Party::key(1), 0}, until,
                   [note](const Result<bool>& removed) { note(1, removed && *removed); });
  });
  all.get_future().get();
  const auto removal = std::find(answered.begin(), answered.end(), 1) - answered.begin();
  EXPECT_LE(removal, 2) << "it waited for the entries";
  std::erase(answered, 1);
  EXPECT_TRUE(std::is_sorted(answered.begin(), answered.end())) << "entries keep their order";
  // A name that comes again waits for its removal.
  std::promise<Result<Entered>> entered;
  alice.with([&](contend::Backend& backend) {
    const auto until = BootClock::now() + 20s;
    backend.remove(epoch, "a", QueueEntry{Party::key(2), 0}, until, [](const Result<bool>&) {});
    Details details;
    details.session = "tag";
    backend.enter(epoch, "a", Party::key(2), details, until,
                  [&](Result<Entered> answer) { entered.set_value(std::move(answer)); });
  });
  const auto last = entered.get_future().get();
  ASSERT_TRUE(last) << why(last);
  EXPECT_EQ(last->listing.queue.size(), kEntries);
  EXPECT_EQ(last->listing.queue.back().key, Party::key(2));
}

TEST_F(ConsulBatchTest, WhatIsThereAlreadyKeepsNobodyOut) {
  Party alice(url());
  const auto first = alice.enter("b", 1);
  ASSERT_TRUE(first);
  const auto entered = enter(alice, {{"a"}, {"b"}, {"c"}});
  for (const auto& each : entered) ASSERT_TRUE(each) << why(each);
  EXPECT_EQ(entered[1]->created, first->created);
  const auto removed = remove(alice, {{"a"}, {"b", 7}, {"c"}});
  for (const auto& each : removed) ASSERT_TRUE(each) << why(each);
  EXPECT_EQ(*removed[0], true);
  EXPECT_EQ(*removed[1], false);
  EXPECT_EQ(*removed[2], true);
}

TEST_F(ConsulBatchTest, ARightThatIsMissingForOneIsMissingForThatOne) {
  ConsulServer guarded({.acl = true});
  Party alice(guarded.url({{"token", guarded.make_token("key_prefix \"holdfast/\" { policy = "
                                                        "\"write\" } key_prefix "
                                                        "\"holdfast/l/secret\" { policy = "
                                                        "\"deny\" } session_prefix \"\" { policy "
                                                        "= \"write\" }")}}));
  const auto entered = enter(alice, {{"a"}, {"secret"}, {"b"}});
  EXPECT_TRUE(entered[0]) << why(entered[0]);
  ASSERT_FALSE(entered[1]);
  EXPECT_EQ(entered[1].error().code(), Errc::kPermissionDenied) << why(entered[1]);
  EXPECT_TRUE(entered[2]) << why(entered[2]);
}

TEST_F(ConsulBatchTest, ALostReplyIsUnknownToEach) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  alice.session();
  proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "check-not-exists", .times = 1});
  const auto asked = locks("n", 5);
  for (const auto& each : enter(alice, asked, 1s)) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().code(), Errc::kOutcomeUnknown) << why(each);
  }
  // After the fence the outcome is known, and everything continues.
  for (const Asked& each : asked) EXPECT_EQ(alice.list(each.lock)->queue.size(), 1U);
  for (const auto& each : enter(alice, locks("m", 5))) EXPECT_TRUE(each) << why(each);
  for (const auto& each : remove(alice, asked)) EXPECT_EQ(each ? *each : false, true) << why(each);
}

TEST_F(ConsulBatchTest, WhatIsCarriedOutLateIsRefusedAsAWhole) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  alice.session();
  const int hold =
      proxy.add({.kind = Fault::Kind::kHold, .containing = "check-not-exists", .times = 1});
  const auto asked = locks("n", 5);
  for (const auto& each : enter(alice, asked, 1s)) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().code(), Errc::kOutcomeUnknown) << why(each);
  }
  for (const Asked& each : asked) EXPECT_TRUE(alice.list(each.lock)->queue.empty());
  proxy.remove(hold);
  EXPECT_TRUE(proxy.wait_for(
      [](const support::ProxyStats& stats) { return stats.replies_to_the_gone > 0; }));
  for (const Asked& each : asked) EXPECT_TRUE(alice.list(each.lock)->queue.empty());
}

// Writes that gather while the fence is raised, and those under way beside it, are sent after it.
TEST_F(ConsulBatchTest, TheFenceLosesNobody) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  alice.session();
  proxy.add({.kind = Fault::Kind::kHold, .containing = "l/held/", .times = 1});
  auto held = std::async(std::launch::async, [&] { return enter(alice, {{"held"}}, 500ms); });
  ASSERT_TRUE(proxy.wait_for([](const auto& stats) { return !stats.hits.empty(); }));
  for (int i = 0; i < 10; ++i) {
    for (const auto& each : enter(alice, locks("n" + std::to_string(i) + "-", 30))) {
      ASSERT_TRUE(each) << why(each);
    }
  }
  ASSERT_FALSE(held.get()[0]);
  for (const auto& each : enter(alice, locks("m", 30))) ASSERT_TRUE(each) << why(each);
  proxy.remove_all();
  EXPECT_TRUE(alice.list("held")->queue.empty());
}

TEST_F(ConsulBatchTest, AnEndedSessionIsTheEndOfEach) {
  Party alice(url());
  const auto epoch = alice.session().epoch;
  server_->ask("PUT", "/v1/session/destroy/" + alice.tag());
  const auto entered =
      together<Entered>(alice, locks("n", 5), [&](auto& backend, const Asked& each, auto done) {
        backend.enter(epoch, each.lock, Party::key(1), {}, BootClock::now() + 20s, done);
      });
  for (const auto& each : entered) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().code(), Errc::kLost) << why(each);
  }
}

// It begins with the fence of the session that it was sent under.
TEST_F(ConsulBatchTest, AnAnswerFromBeforeTheNextSessionIsReadAsItWasSent) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  const auto epoch = alice.session().epoch;
  const int hold = proxy.add({.kind = Fault::Kind::kHold,
                              .direction = support::Direction::kToClient,
                              .containing = "l/n0/c/",
                              .times = 1});
  auto asked = std::async(std::launch::async, [&] { return enter(alice, locks("n", 5)); });
  ASSERT_TRUE(proxy.wait_for_hits(hold));
  server_->ask("PUT", "/v1/session/destroy/" + alice.tag());
  ASSERT_TRUE(alice.await([&](Party& party) { return party.ended_ == epoch; }));
  ASSERT_GT(alice.session().epoch, epoch);
  proxy.remove(hold);
  for (const auto& each : asked.get()) {
    // The engine sees whose session is over; no permission was missing.
    ASSERT_TRUE(each) << why(each);
    EXPECT_EQ(each->listing.queue.size(), 1U);
  }
}

TEST_F(ConsulBatchTest, NumbersOfOneLockGrowWhateverIsJoined) {
  Party alice(url());
  Party bob(url());
  for (Party* each : {&alice, &bob}) each->session();
  const auto ask_for = [](Party& party, std::uint64_t from) {
    std::vector<Asked> asked;
    for (std::uint64_t i = from; i < from + 15; ++i) {
      asked.push_back({"hot", i});
      for (const Asked& other : locks("n", 5)) asked.push_back({other.lock, i});
    }
    return std::pair(asked, enter(party, asked));
  };
  auto others = std::async(std::launch::async, [&] { return ask_for(bob, 101); });
  std::vector<std::uint64_t> all;
  for (const auto& [asked, entered] : {ask_for(alice, 1), others.get()}) {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      ASSERT_TRUE(entered[i]) << why(entered[i]);
      if (asked[i].lock != "hot") continue;
      EXPECT_GT(entered[i]->created, last) << "in the order of the questions";
      last = entered[i]->created;
      all.push_back(last);
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "no number twice";
}

TEST_F(ConsulBatchTest, DeadlinesThatAreNotAlikeAreNotJoined) {
  Party alice(url());
  const auto epoch = alice.session().epoch;
  const std::size_t before = transactions();
  const auto entered =
      together<Entered>(alice, locks("n", 2), [&](auto& backend, const Asked& each, auto done) {
        const auto limit = each.lock == "n0" ? 3s : 20s;
        backend.enter(epoch, each.lock, Party::key(1), {}, BootClock::now() + limit, done);
      });
  for (const auto& each : entered) EXPECT_TRUE(each) << why(each);
  EXPECT_EQ(transactions(), before + 2);
}

}  // namespace
}  // namespace holdfast::stores::consul
