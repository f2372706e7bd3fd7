// The backend against a real Consul: what the engine relies on (src/contend/backend.h).
#include <future>

#include <gtest/gtest.h>

#include "src/stores/consul/test_party.h"
#include "src/stores/consul/transport/messages.h"
#include "tests/support/consul_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::stores::consul {
namespace {

using support::ConsulServer;
using support::eventually;
using support::FaultProxy;

class ConsulBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    server_ = std::make_unique<ConsulServer>();
  }
  std::string url(std::uint16_t through = 0, const std::string& ttl = "10s") const {
    return server_->url({{"session", ttl}}, through);
  }
  std::unique_ptr<ConsulServer> server_;
};

TEST_F(ConsulBackendTest, ContendersAreListedInTheirOrderAndGo) {
  Party alice(url());
  Party bob(url());
  const auto first = alice.enter("orders/42", 1);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->listing.queue.size(), 1U);
  EXPECT_EQ(first->listing.queue[0].order, first->created);
  const auto second = bob.enter("orders/42", 2);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->listing.queue.size(), 2U);
  EXPECT_EQ(second->listing.queue[0].key, Party::key(1));
  EXPECT_GT(second->created, first->created);
  EXPECT_EQ(second->listing.queue[0].details->session, "tag") << "of the head it is told";
  EXPECT_EQ(*alice.remove("orders/42", 1), true);
  EXPECT_EQ(*alice.remove("orders/42", 1), false);
  const auto left = bob.list("orders/42");
  ASSERT_EQ(left->queue.size(), 1U);
  EXPECT_EQ(left->queue[0].key, Party::key(2));
  EXPECT_EQ(*bob.remove("orders/42", 1), false);
}

TEST_F(ConsulBackendTest, EnteringTwiceIsEnteringOnce) {
  Party alice(url());
  const auto first = alice.enter("orders", 1);
  const auto again = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->created, first->created);
  EXPECT_EQ(again->listing.queue.size(), 1U);
}

TEST_F(ConsulBackendTest, AWatchWakesOnceWhenTheFolderChanges) {
  Party alice(url());
  Party bob(url());
  ASSERT_TRUE(alice.enter("orders", 1));
  int woken = 0;
  const auto waker = bob.waker(woken);
  ASSERT_TRUE(bob.list("orders", waker));
  ASSERT_TRUE(alice.remove("orders", 1));
  EXPECT_TRUE(bob.await([&](Party&) { return woken == 1; }));
}

// Callers who ask while one listing is under way share the next one, which is not begun any more.
TEST_F(ConsulBackendTest, WhoeverListsIsAnsweredBeforeItHasClosed) {
  constexpr int kAskers = 3;
  Party alice(url());
  alice.session();
  server_->pause();
  int answered = 0;
  std::promise<int> in_time;
  const auto told = [&](const Result<Listing>&) {
    // A task posted after this may find that the backend has gone.
    if (++answered == 1) alice.post([&] { in_time.set_value(answered); });
  };
  alice.with([&](contend::Backend& backend) {
    for (int i = 0; i < kAskers; ++i) {
      backend.list("orders", true, nullptr, BootClock::now() + 20s, told);
    }
  });
  alice.close(200ms);
  auto told_in_time = in_time.get_future();
  ASSERT_EQ(told_in_time.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(told_in_time.get(), kAskers);
  server_->resume();
}

// It asks for one thing after the other: what it would ask for next finds that the backend has
// gone.
TEST_F(ConsulBackendTest, AnExaminationThatIsUnderWayEndsWithTheClient) {
  FaultProxy proxy({.server_port = server_->port()});
  for (const char* step : {"/v1/status/peers", "/v1/agent/self"}) {
    SCOPED_TRACE(step);
    std::promise<Result<std::vector<Finding>>> told;
    auto answer = told.get_future();
    auto alice = std::make_unique<Party>(url(proxy.port()));
    alice->session();
    const int hold = proxy.add({.kind = support::Fault::Kind::kHold, .containing = step});
    alice->with([&](contend::Backend& backend) {
      backend.probe(BootClock::now() + 20s, [&](auto found) { told.set_value(std::move(found)); });
    });
    ASSERT_TRUE(proxy.wait_for_hits(hold));
    alice.reset();
    ASSERT_EQ(answer.wait_for(0s), std::future_status::ready) << "before the backend has gone";
    const auto found = answer.get();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), Errc::kClosed) << found.error().message();
    proxy.remove_all();
  }
}

TEST_F(ConsulBackendTest, AReadThatIsTriedAgainEndsWithTheClient) {
  FaultProxy proxy({.server_port = server_->port()});
  std::promise<Result<contend::Value>> told;
  auto answer = told.get_future();
  Party alice(url(proxy.port()));
  proxy.refuse(true);
  alice.with([&](contend::Backend& backend) {
    backend.read_value("a", BootClock::now() + 20s,
                       [&](auto value) { told.set_value(std::move(value)); });
  });
  EXPECT_EQ(answer.wait_for(120ms), std::future_status::timeout) << "it is not tried again";
  alice.close();
  ASSERT_EQ(answer.wait_for(0s), std::future_status::ready) << "before it has closed";
  EXPECT_FALSE(answer.get());
}

// A proxy may repeat a request after the contender has gone, and another has come by its name.
TEST_F(ConsulBackendTest, AValueIsWrittenForTheContenderThatWasMeantOnly) {
  Party alice(url());
  const auto set_value = [&](const QueueEntry& present) {
    contend::Change change;
    change.lock = "orders";
    change.epoch = alice.session().epoch;
    change.present = present;
    change.value = "new";
    return alice.ask<std::optional<std::uint64_t>>(
        [&](auto& backend, auto done) { backend.apply(change, BootClock::now() + 20s, done); });
  };
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first) << first.error().message();
  ASSERT_EQ(*alice.remove("orders", 1), true);
  const auto second = alice.enter("orders", 1);
  ASSERT_TRUE(second) << second.error().message();
  ASSERT_GT(second->created, first->created);
  const auto late = set_value(QueueEntry{Party::key(1), first->created});
  ASSERT_TRUE(late) << late.error().message();
  EXPECT_FALSE(*late);
  const auto meant = set_value(QueueEntry{Party::key(1), second->created});
  ASSERT_TRUE(meant) << meant.error().message();
  EXPECT_TRUE(*meant);
  // Whoever asks does not know its last write: it is looked for.
  QueueEntry outdated{Party::key(1), second->created};
  outdated.modified = first->created;
  const auto known_late = set_value(outdated);
  ASSERT_TRUE(known_late) << known_late.error().message();
  EXPECT_TRUE(*known_late);
}

TEST_F(ConsulBackendTest, EveryNotificationIsHeard) {
  Party alice(url());
  Party bob(url());
  alice.session();
  const std::string tag = alice.tag();
  for (int notified = 1; notified <= 3; ++notified) {
    ASSERT_TRUE(bob.ask<bool>([&](auto& backend, auto done) {
      backend.notify(tag, [] {});
      done(true);
    }));
    EXPECT_TRUE(alice.await([&](Party& party) { return party.notifications_ == notified; }))
        << notified;
  }
}

// Consul passes over a write that changes nothing: its key keeps the number of the one before.
TEST_F(ConsulBackendTest, ARecordThatIsWrittenAsItWasCountsAsWritten) {
  Party alice(url());
  const auto write = [&](std::uint64_t expected) {
    contend::Change change;
    change.lock = "orders";
    change.epoch = alice.session().epoch;
    change.record_rev = expected;
    change.record.emplace();
    return *alice.ask<std::optional<std::uint64_t>>(
        [&](auto& backend, auto done) { backend.apply(change, BootClock::now() + 20s, done); });
  };
  const auto first = write(0);
  ASSERT_TRUE(first);
  const auto second = write(*first);
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  EXPECT_FALSE(write(*first)) << "who knows the record of before may write it";
  EXPECT_TRUE(write(*second));
}

TEST_F(ConsulBackendTest, AnEndedSessionTakesItsContendersAlong) {
  Party alice(url());
  Party bob(url());
  const auto epoch = alice.session().epoch;
  ASSERT_TRUE(alice.enter("orders", 1));
  server_->ask("PUT", "/v1/session/destroy/" + alice.tag());
  EXPECT_TRUE(alice.await([&](Party& party) { return party.ended_ == epoch; }));
  EXPECT_TRUE(bob.list("orders")->queue.empty());
  EXPECT_GT(alice.session().epoch, epoch);
  ASSERT_TRUE(alice.enter("orders", 2));
}

TEST_F(ConsulBackendTest, NothingIsLeftBehindByAClientThatCloses) {
  {
    Party alice(url());
    ASSERT_TRUE(alice.enter("orders", 1));
  }
  const auto keys = server_->ask("GET", "/v1/kv/holdfast/?keys");
  EXPECT_EQ(keys.status, 404) << keys.body;
  EXPECT_EQ(server_->ask("GET", "/v1/session/list").body, "[]");
}

// The classic zombie: a request that its sender has given up is carried out later.
TEST_F(ConsulBackendTest, AnEntryThatIsCarriedOutLateIsRefused) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  // Each needs a new fence.
  for (std::uint64_t id : {1U, 11U, 21U}) {
    ASSERT_TRUE(alice.enter("orders", id));
    const int hold = proxy.add(
        {.kind = support::Fault::Kind::kHold, .containing = "check-not-exists", .times = 1});
    const auto unknown = alice.enter("orders", id + 1, 1s);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code(), Errc::kOutcomeUnknown);
    // After the fence the entry surely does not exist, and never will.
    const auto seen = alice.list("orders");
    ASSERT_TRUE(seen) << seen.error().message();
    EXPECT_EQ(seen->queue.size(), 1U);
    const auto answered =
        [before = proxy.stats().replies_to_the_gone](const support::ProxyStats& stats) {
          return stats.replies_to_the_gone > before;
        };
    proxy.remove(hold);
    EXPECT_TRUE(proxy.wait_for(answered));
    EXPECT_EQ(alice.list("orders")->queue.size(), 1U);
    ASSERT_TRUE(alice.remove("orders", id)) << "writes go on behind the fence";
  }
}

// A repetition of an answered one; the next bearer of that name stands by then.
TEST_F(ConsulBackendTest, ARemovalThatIsCarriedOutOnceMoreTakesNoOther) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(*alice.remove("orders", 1, first->created), true);
  const auto second = alice.enter("orders", 1);
  ASSERT_TRUE(second);
  ASSERT_TRUE(proxy.replay("\"delete\""));
  ASSERT_TRUE(
      proxy.wait_for([](const support::ProxyStats& stats) { return stats.copies_answered == 1; }));
  EXPECT_EQ(alice.list("orders")->queue.size(), 1U);
  EXPECT_EQ(*alice.remove("orders", 1, first->created), false);
  EXPECT_EQ(*alice.remove("orders", 1, second->created), true);
}

TEST_F(ConsulBackendTest, AWriteThatIsCarriedOutOnceMoreChangesNoOther) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  const auto first = alice.enter("orders", 1);
  ASSERT_TRUE(first);
  Details weakened;
  weakened.weakened = true;
  const auto epoch = alice.session().epoch;
  for (int i = 0; i < 2; ++i) {  // The second finds it written since it came.
    const auto written = alice.ask<std::optional<contend::Read>>([&](auto& backend, auto done) {
      backend.write(epoch, "orders", QueueEntry{Party::key(1), first->created}, weakened,
                    BootClock::now() + 20s, done);
    });
    ASSERT_TRUE(written && *written);
    EXPECT_EQ((*written)->created, first->created);
  }
  EXPECT_EQ(*alice.remove("orders", 1, first->created), true);
  const auto second = alice.enter("orders", 1);
  ASSERT_TRUE(second);
  ASSERT_TRUE(proxy.replay(to_base64(contend::to_text(weakened))));
  ASSERT_TRUE(
      proxy.wait_for([](const support::ProxyStats& stats) { return stats.copies_answered == 1; }));
  const auto read = alice.read("orders", 1, second->created);
  ASSERT_TRUE(read && *read);
  EXPECT_FALSE((*read)->details.weakened);
}

// It is known by its creation.
TEST_F(ConsulBackendTest, WhatWasWrittenSinceIsRemovedAllTheSame) {
  Party alice(url());
  const auto entered = alice.enter("orders", 1);
  ASSERT_TRUE(entered);
  const auto epoch = alice.session().epoch;
  const auto written = alice.ask<std::optional<contend::Read>>([&](auto& backend, auto done) {
    backend.write(epoch, "orders", QueueEntry{Party::key(1), entered->created}, Details(),
                  BootClock::now() + 20s, done);
  });
  ASSERT_TRUE(written && *written);
  EXPECT_EQ(*alice.remove("orders", 1, entered->created), true);
  EXPECT_TRUE(alice.list("orders")->queue.empty());
}

TEST_F(ConsulBackendTest, ALostReplyIsFoundAgain) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port()));
  ASSERT_TRUE(alice.enter("orders", 1));
  proxy.add(
      {.kind = support::Fault::Kind::kDropReplies, .containing = "check-not-exists", .times = 1});
  const auto unknown = alice.enter("orders", 2, 1s);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Errc::kOutcomeUnknown);
  const auto seen = alice.list("orders");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->queue.size(), 2U);
  EXPECT_EQ(*alice.remove("orders", 2), true);
}

TEST_F(ConsulBackendTest, ASessionThatCannotBeRenewedEndsByItsDeadline) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port(), "2s"));
  const auto view = alice.session();
  proxy.refuse(true);
  proxy.close_all();
  EXPECT_TRUE(alice.await([&](Party& party) { return party.ended_ == view.epoch; }));
  EXPECT_GE(BootClock::now(), view.deadline);
}

// Consul would keep it, with all its contenders: somebody renews it in the client's place, as a new
// leader does.
TEST_F(ConsulBackendTest, ASessionThatEndedWhileConsulWasAwayIsDestroyedAfterwards) {
  FaultProxy proxy({.server_port = server_->port()});
  Party alice(url(proxy.port(), "2s"));
  const auto view = alice.session();
  const auto renewed = [&, renew = "/v1/session/renew/" + alice.tag()] {
    return server_->ask("PUT", renew).status == 200;
  };
  proxy.refuse(true);
  proxy.close_all();
  // Whoever tries once has failed by the end of that: for no longer than a session lasts.
  const auto over = view.deadline + 3s;
  EXPECT_TRUE(eventually([&] { return !renewed() || BootClock::now() > over; }));
  EXPECT_TRUE(renewed());
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return !renewed(); }, kSoon));
}

TEST_F(ConsulBackendTest, LocksAreListedByTheirNames) {
  Party alice(url());
  for (const char* name : {"a/1", "a/2", "b", "a"}) ASSERT_TRUE(alice.enter(name, 1));
  const auto locks = alice.ask<contend::Locks>(
      [](auto& backend, auto done) { backend.list_locks("a", 10, BootClock::now() + 10s, done); });
  ASSERT_TRUE(locks);
  EXPECT_EQ(locks->names, (std::vector<std::string>{"a", "a/1", "a/2"}));
  EXPECT_EQ(locks->unknown.count, 0U);
}

TEST_F(ConsulBackendTest, KeysOfNoKnownLockAreCountedAndNamed) {
  Party alice(url());
  ASSERT_TRUE(alice.enter("a", 1));
  const std::string nobodys = "a/c/" + std::string(32, '7') + "-x";
  for (const std::string& key :
       {std::string("a%20b/c/x"), std::string("x"), std::string("a/c/later"),
        std::string("a/c/00/out"), std::string("a/note"), nobodys}) {
    server_->ask("PUT", "/v1/kv/holdfast/l/" + key, "by hand");
  }
  const auto locks = alice.ask<contend::Locks>(
      [](auto& backend, auto done) { backend.list_locks("", 10, BootClock::now() + 10s, done); });
  ASSERT_TRUE(locks);
  EXPECT_EQ(locks->names, std::vector<std::string>{"a"});
  EXPECT_EQ(locks->unknown.count, 2U);
  EXPECT_EQ(locks->unknown.one, "holdfast/l/a b/");
  const auto listing = alice.ask<contend::Listing>(
      [](auto& backend, auto done) { backend.list_in_full("a", BootClock::now() + 10s, done); });
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->queue.size(), 1U);
  EXPECT_EQ(listing->unknown.count, 4U);
  EXPECT_EQ(listing->unknown.one, "holdfast/l/a/c/00/out");
}

// For another program's holder, which has no contender: between the look and the break another may
// follow it.
TEST_F(ConsulBackendTest, ABreakOfAForeignHolderTakesNoLaterOne) {
  const auto key = [](const char* what) { return "/v1/kv/team/a/.lock?" + std::string(what); };
  const auto session = [&] {
    const std::string made = server_->ask("PUT", "/v1/session/create", R"({"TTL":"15s"})").body;
    return made.substr(made.find(':') + 2, 36);
  };
  const std::string first = session();
  const std::string second = session();
  ASSERT_EQ(server_->ask("PUT", key("acquire=") + first).body, "true");
  Party alice("consul://127.0.0.1:" + std::to_string(server_->port()) + "/team?recipe=consul");
  const auto holder = [&] {
    const auto listing = alice.ask<Listing>(
        [](auto& backend, auto done) { backend.list_in_full("a", BootClock::now() + 20s, done); });
    if (!listing) throw std::runtime_error(listing.error().message());
    return listing->queue.at(0);
  };
  const auto take = [&](const QueueEntry& place) {
    contend::Change change;
    change.lock = "a";
    change.removed.push_back(place);
    const auto applied = alice.ask<std::optional<std::uint64_t>>(
        [&](auto& backend, auto done) { backend.apply(change, BootClock::now() + 20s, done); });
    if (!applied) throw std::runtime_error(applied.error().message());
    return applied->has_value();
  };
  const QueueEntry seen = holder();
  EXPECT_EQ(seen.details->session, first);
  ASSERT_EQ(server_->ask("PUT", key("release=") + first).body, "true");
  ASSERT_EQ(server_->ask("PUT", key("acquire=") + second).body, "true");
  EXPECT_FALSE(take(seen));
  EXPECT_EQ(holder().details->session, second);
  EXPECT_TRUE(take(holder()));
  EXPECT_EQ(server_->ask("GET", key("")).status, 404);
}

// libcurl and Consul take such a segment out of a URL's path: what was asked for was another key.
TEST_F(ConsulBackendTest, AContenderOfALockWhoseNameIsDotsIsFound) {
  Party alice(url());
  Party bob(url());
  for (const char* name : {".", ".."}) {
    const auto first = alice.enter(name, 1);
    ASSERT_TRUE(first) << first.error().message();
    ASSERT_TRUE(bob.enter(name, 2));
    int woken = 0;
    const auto waker = bob.waker(woken);
    const auto before = bob.read(name, 1, first->created, waker);
    ASSERT_TRUE(before) << before.error().message();
    EXPECT_TRUE(*before) << "who waits for it is not woken again and again";
    EXPECT_EQ(woken, 0);
    EXPECT_EQ(*alice.remove(name, 1), true);
    EXPECT_TRUE(bob.await([&](Party&) { return woken == 1; }));
    EXPECT_EQ(bob.list(name)->queue.size(), 1U);
  }
}

TEST_F(ConsulBackendTest, ARefusedTokenIsACleanError) {
  ConsulServer guarded({.acl = true});
  Party alice(
      guarded.url({{"token", guarded.make_token("node_prefix \"\" { policy = \"read\" }")}}));
  const auto view = alice.ask<contend::SessionView>(
      [](auto& backend, auto done) { backend.ensure_session(BootClock::now() + 10s, done); });
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Errc::kPermissionDenied);
}

}  // namespace
}  // namespace holdfast::stores::consul
