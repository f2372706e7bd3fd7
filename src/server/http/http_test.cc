// A server in this process, and plain sockets to its HTTP port.
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "holdfast/detail/percent.h"
#include "src/server/http/credentials.h"
#include "src/server/http/http_codec.h"
#include "src/server/journal/folder_identity.h"
#include "src/server/journal/journal.h"
#include "src/server/testing/http_rig.h"

namespace holdfast::server {
namespace {

using nlohmann::json;
using testing::Got;
using testing::HttpTest;
using testing::receive;
using testing::request;
using testing::Socket;

TEST_F(HttpTest, TellsThatItWorks) {
  open();
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/readyz").body, "ready\n");
  EXPECT_NE(get("/metrics").body.find("holdfast_server_holders 0\n"), std::string::npos);
  EXPECT_EQ(get("/nothing").status, 404);
  const Got wrong = ask(posted("/healthz", "{}"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.head.find("Allow: GET"), std::string::npos);
}

TEST_F(HttpTest, ANameThatNativeClientsCannotWriteIsRefused) {
  open();
  const std::pair<std::string, const char*> names[] = {
      {"orders%2F%FF", "it is not UTF-8 at byte 7 (0xFF)"},
      {"a%C2%85", "the control character U+0085 at byte 1"},
      {"a%1b", "the control character U+001B at byte 1"},
      {"", "it is empty"},
      {"a%2F..", "'..' is not allowed"},
      {"a%2", "not percent-encoded"},
      {std::string(300, 'n'), "it has 300 bytes; a name has at most 256"}};
  for (const auto& [name, why] : names) {
    const std::string path = "/v1/locks/" + name;
    const json token = {{"token", "1"}, {"reason", "x"}};
    const json id = {{"id", std::string(32, '1')}};
    for (const Got& refused :
         {post(path + "/acquire", {{"ttl_ms", 30000}}), get(path), post(path + "/release", id),
          post(path + "/break", token), post("/v1/ids/" + name + "/next", json::object())}) {
      EXPECT_EQ(refused.status, 400) << path;
      EXPECT_NE(refused.body.find(why), std::string::npos) << refused.body;
    }
  }
  const Got prefix = get("/v1/locks?prefix=ab%1b");
  EXPECT_EQ(prefix.status, 400);
  EXPECT_NE(prefix.body.find("U+001B at byte 2"), std::string::npos) << prefix.body;
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 0U);
}

// Two of them are read differently by different programs, and a word that is not taken may ask for
// what this server does not do.
TEST_F(HttpTest, AWordOfTheQueryOrAHeaderThatIsNotTakenIsRefusedByName) {
  open();
  const json wish = {{"ttl_ms", 30000}};
  const std::pair<Got, const char*> refusals[] = {
      {get("/v1/locks?limit=1&limit=2"), "'limit' more than once"},
      {get("/v1/locks?prefix=a&pre%66ix=b"), "'prefix' more than once"},
      {get("/v1/locks?wait=1s&wait=2s"), "'wait'"},
      {get("/v1/locks?limit=101"), "'limit' must be a whole number from 1 to 100"},
      {get("/v1/locks?after=%2"), "not percent-encoded"},
      {get("/v1/locks/a?verbose=1"), "no query word 'verbose'"},
      {get("/v1/server?verbose"), "no query word 'verbose'"},
      {post("/v1/locks/a/acquire?wait=1s", wish), "no query word 'wait'"},
      {post("/v1/ids/a/next?count=5", json::object()), "no query word 'count'"},
      {post("/v1/locks/a/acquire", wish, "Content-Type: application/json\r\n"),
       "the header 'Content-Type' comes more than once"},
      {post("/v1/locks/a/acquire", wish, "Holdfast-Request: 1\r\n"),
       "the header 'Holdfast-Request' comes more than once"},
      {get("/healthz", "host: localhost\r\n"), "the header 'Host' comes more than once"},
      {ask("GET /healthz HTTP/1.1\r\n\r\n"), "the header 'Host' is missing"},
      {ask(posted("/v1/locks/a/acquire", "{\"ttl_ms\":30000,\"owner\":\"J\xfcrgen\"}")),
       "the body is not UTF-8"}};
  for (const auto& [refused, why] : refusals) {
    EXPECT_EQ(refused.status, 400) << why;
    EXPECT_NE(refused.body.find(why), std::string::npos) << why << ": " << refused.body;
  }
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 0U);
  EXPECT_EQ(get("/healthz?nonce=1").status, 200) << "whose query nobody could mean anything by";
}

// RFC 9112, 3.2.2: a server must take it, and its host is the one of the target.
TEST_F(HttpTest, ATargetMayBeAWholeUrl) {
  open();
  const auto status = [&](const std::string& target) {
    return ask("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n").status;
  };
  EXPECT_EQ(status("http://localhost/healthz"), 200);
  EXPECT_EQ(status("HTTP://" + address() + "/v1/locks?limit=1"), 200);
  EXPECT_EQ(status("http://localhost"), 200) << "the console";
  EXPECT_EQ(status("http://evil.example/healthz"), 421);
  EXPECT_EQ(status("http://evil.example@localhost/healthz"), 421);
  EXPECT_EQ(status("http:///healthz"), 421);
  EXPECT_EQ(status("ftp://localhost/healthz"), 404);
}

class NobodyListens final : public ServiceListener {
  void on_push(const ClientName&, const port::Push&) override {}
  void on_effect(Position, const machine::Effect&, machine::Instant) override {}
  void on_stopped(const Error&) override {}
};

// Earlier servers took them from lock libraries.
TEST_F(HttpTest, PagesEndBehindNamesThatNoClientCanWrite) {
  const std::string names[] = {"a",
                               "b\xff",
                               "b\xff\xff",
                               "c\x80z",
                               "d",
                               std::string(1'024, 'm'),
                               "m" + std::string(1'023, '\xff'),
                               "n"};
  options_.journal = "sqlite:" + folder_.file("journal");
  {
    asio::io_context io;
    NobodyListens listener;
    Service earlier(io, *make_journal(options_.journal), listener);
    ASSERT_TRUE(earlier.start());
    for (const std::string& name : names) {
      machine::Acquire acquire{name, {1, 1}};
      acquire.ttl = acquire.waiter_ttl = std::chrono::minutes(10);
      earlier.submit({.client = "c", .action = acquire}, [](const Result<Answer>&) {});
    }
  }
  open();
  std::vector<std::string> listed;
  std::string after;
  for (std::size_t page = 0;; ++page) {
    ASSERT_LT(page, std::size(names) + 1) << "it never ends";
    const Got got =
        get("/v1/locks?limit=1&after=" + detail::percent_encode(after, [](char) { return false; }));
    ASSERT_EQ(got.status, 200) << got.body;
    const json page_of_one = got.parsed();
    for (const json& each : page_of_one["locks"]) listed.push_back(each["name"]);
    if (!page_of_one.contains("next_after")) break;
    after = page_of_one["next_after"];
  }
  ASSERT_EQ(listed.size(), std::size(names));
  EXPECT_EQ(get("/v1/locks?after=%01zz").status, 400);
  EXPECT_EQ(listed.front(), "a");
  EXPECT_EQ(listed[4], "d");
  EXPECT_EQ(listed.back(), "n");
}

TEST_F(HttpTest, TakesRenewsAndReleasesALock) {
  open();
  const Got taken = post("/v1/locks/orders%2F1/acquire", {{"ttl_ms", 30000}, {"owner", "me"}});
  ASSERT_EQ(taken.status, 200) << taken.body;
  const json grant = taken.parsed();
  EXPECT_EQ(grant["name"], "orders/1");
  EXPECT_EQ(grant["ttl_ms"], 30000);
  const Got busy = post("/v1/locks/orders%2F1/acquire", {{"ttl_ms", 30000}});
  EXPECT_EQ(busy.status, 409);
  EXPECT_EQ(busy.parsed()["error"]["code"], "busy");
  const Got again = post("/v1/locks/orders%2F1/acquire", {{"ttl_ms", 30000}, {"id", grant["id"]}});
  EXPECT_EQ(again.parsed()["token"], grant["token"]) << again.body;
  const Got longer = post("/v1/locks/orders%2F1/renew", {{"ttl_ms", 40000}, {"id", grant["id"]}});
  EXPECT_EQ(longer.status, 200) << longer.body;
  EXPECT_EQ(longer.parsed()["ttl_ms"], 40000);
  const std::string foreign(32, '7');
  EXPECT_EQ(post("/v1/locks/orders%2F1/release", {{"id", foreign}}).status, 410);
  EXPECT_EQ(post("/v1/locks/orders%2F1/renew", {{"ttl_ms", 1000}, {"id", foreign}}).status, 410);
  const json seen = get("/v1/locks/orders%2F1").parsed();
  ASSERT_EQ(seen["holders"].size(), 1U);
  EXPECT_EQ(seen["holders"][0]["owner"], "me");
  EXPECT_EQ(seen.dump().find(grant["id"].get<std::string>()), std::string::npos);
  EXPECT_EQ(get("/v1/locks?prefix=orders%2F").parsed()["locks"].size(), 1U);
  EXPECT_EQ(post("/v1/locks/orders%2F1/release", {{"id", grant["id"]}}).status, 200);
  EXPECT_EQ(post("/v1/locks/orders%2F1/acquire", {{"ttl_ms", 1000}, {"id", grant["id"]}}).status,
            410);
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 0U);
}

// A repeated call may have sent its first request long ago.
TEST_F(HttpTest, ARepeatedCallIsToldWhatIsLeftOfTheLease) {
  open();
  const json grant = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json repeated = {{"ttl_ms", 30000}, {"id", grant["id"]}};
  const auto began = base::BootClock::now();
  int left = 30000;
  while (left == 30000 && base::BootClock::now() < began + std::chrono::seconds(20)) {
    left = post("/v1/locks/a/acquire", repeated).parsed()["ttl_ms"];
  }
  EXPECT_LT(left, 30000);
}

TEST_F(HttpTest, CallsWaitInTheQueueInTheirOrder) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json wish = {{"ttl_ms", 20000}, {"wait_ms", 60000}};
  const Socket second(address());
  ASSERT_TRUE(second.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  const Socket third(address());
  ASSERT_TRUE(third.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 2);
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", first["id"]}}).status, 200);
  const json granted = receive(second).parsed();
  EXPECT_GT(granted["token"].get<std::string>(), first["token"].get<std::string>());
  EXPECT_GE(granted["ttl_ms"], 20000) << "counted from before the request was sent";
  EXPECT_LT(granted["ttl_ms"], 80000);
  EXPECT_LE(get("/v1/locks/a").parsed()["holders"][0]["expires_in_ms"], 20000);
  EXPECT_EQ(post("/v1/locks/a/renew", {{"id", granted["id"]}, {"ttl_ms", 90000}}).status, 200);
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", granted["id"]}}).status, 200);
  EXPECT_GT(receive(third).parsed()["token"], granted["token"]);
  const std::string metrics = get("/metrics").body;
  EXPECT_NE(metrics.find("holdfast_server_grants_total 3\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("holdfast_server_queued_total 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("holdfast_server_ends_total{how=\"released\"} 2\n"), std::string::npos);
  EXPECT_EQ(metrics.find("holdfast_server_commit_seconds_count 0\n"), std::string::npos);
}

TEST_F(HttpTest, OfManyTicketsTheFirstAreShown) {
  open();
  for (int i = 0; i < 101; ++i) {
    ASSERT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 30000}, {"mode", "shared"}}).status, 200);
  }
  const json seen = get("/v1/locks/a").parsed();
  EXPECT_EQ(seen["holders"].size(), 100U);
  EXPECT_EQ(seen["holding"], 101);
  EXPECT_EQ(seen["waiting"], 0);
}

TEST_F(HttpTest, AWaitEndsWithItsTimeAndLeavesTheQueue) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const Got busy = post("/v1/locks/a/acquire", {{"ttl_ms", 1000}, {"wait_ms", 1}});
  EXPECT_EQ(busy.status, 409);
  EXPECT_EQ(busy.parsed()["error"]["code"], "busy");
  EXPECT_EQ(get("/v1/locks/a").parsed()["queue"].size(), 0U);
  for (const json& wait : {json(300001), json(-1), json("1s")}) {
    EXPECT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 1000}, {"wait_ms", wait}}).status, 400);
  }
  EXPECT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 86400000}, {"wait_ms", 1}}).status, 400);
}

TEST_F(HttpTest, ACallerWhoGoesAwayLeavesTheQueue) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}};
  {
    const Socket goes(address());
    ASSERT_TRUE(goes.send(posted("/v1/locks/a/acquire", wish.dump())));
    await_queue("a", 1);
    // Part of a next request is here, too.
    ASSERT_TRUE(goes.send("GET /v1/locks"));
  }
  await_queue("a", 0);
}

// The caller may have lost its connection unseen.
TEST_F(HttpTest, ALaterCallWithTheSameIdTakesThePlace) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}, {"id", std::string(32, '7')}};
  const Socket before(address());
  ASSERT_TRUE(before.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  const Socket later(address());
  ASSERT_TRUE(later.send(posted("/v1/locks/a/acquire", wish.dump())));
  EXPECT_EQ(receive(before).parsed()["error"]["code"], "replaced");
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", first["id"]}}).status, 200);
  const Got granted = receive(later);
  ASSERT_EQ(granted.status, 200) << granted.body;
  EXPECT_LE(granted.parsed()["ttl_ms"], 61000);
  // The next request of this connection is read as ever.
  ASSERT_TRUE(later.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(receive(later).body, "alive\n");
}

TEST_F(HttpTest, ARepeatedCallInAnotherModeIsRefused) {
  open();
  json wish = {{"ttl_ms", 30000}, {"mode", "shared"}, {"id", std::string(32, '7')}};
  ASSERT_EQ(post("/v1/locks/a/acquire", wish).status, 200);
  json other = wish;
  other["mode"] = "exclusive";
  for (const int wait : {0, 60000}) {
    other["wait_ms"] = wait;
    const Got refused = post("/v1/locks/a/acquire", other);
    EXPECT_EQ(refused.status, 409);
    EXPECT_EQ(refused.parsed()["error"]["code"], "mismatch") << refused.body;
  }
  EXPECT_EQ(post("/v1/locks/a/acquire", wish).status, 200) << "it holds as before";
  // A call that waits goes on waiting.
  json waiting = {{"ttl_ms", 1000}, {"wait_ms", 60000}, {"id", std::string(32, '8')}};
  const Socket waits(address());
  ASSERT_TRUE(waits.send(posted("/v1/locks/a/acquire", waiting.dump())));
  await_queue("a", 1);
  waiting["mode"] = "shared";
  EXPECT_EQ(post("/v1/locks/a/acquire", waiting).parsed()["error"]["code"], "mismatch");
  EXPECT_EQ(get("/v1/locks/a").parsed()["queue"].size(), 1U);
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", wish["id"]}}).status, 200);
  EXPECT_EQ(receive(waits).status, 200);
}

TEST_F(HttpTest, OneIdOnTwoLocksIsTwoAcquisitions) {
  open();
  const json a = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json b = post("/v1/locks/b/acquire", {{"ttl_ms", 30000}}).parsed();
  const json wish = {{"ttl_ms", 20000}, {"wait_ms", 60000}, {"id", std::string(32, '7')}};
  const Socket on_a(address());
  ASSERT_TRUE(on_a.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  const Socket on_b(address());
  ASSERT_TRUE(on_b.send(posted("/v1/locks/b/acquire", wish.dump())));
  await_queue("b", 1);
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", a["id"]}}).status, 200);
  const json granted = receive(on_a).parsed();
  EXPECT_EQ(granted["name"], "a");
  EXPECT_EQ(get("/v1/locks/b").parsed()["queue"].size(), 1U) << "it waits on";
  ASSERT_EQ(post("/v1/locks/b/release", {{"id", b["id"]}}).status, 200);
  EXPECT_EQ(receive(on_b).parsed()["name"], "b");
}

TEST_F(HttpTest, AReleaseEndsTheWaitWithItsId) {
  open();
  ASSERT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).status, 200);
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}, {"id", std::string(32, '7')}};
  const Socket waits(address());
  ASSERT_TRUE(waits.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  EXPECT_EQ(post("/v1/locks/a/release", {{"id", wish["id"]}}).status, 200);
  EXPECT_EQ(receive(waits).parsed()["error"]["code"], "released");
  await_queue("a", 0);
}

// Its caller has lost the connection of the first call unseen, which must not end this hold.
TEST_F(HttpTest, AWaitThatWasForgottenEndsNoLaterHold) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  const json plain = {{"ttl_ms", 20000}, {"id", std::string(32, '7')}};
  json wish = plain;
  wish["wait_ms"] = 60000;
  const Socket forgotten(address());
  ASSERT_TRUE(forgotten.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  EXPECT_EQ(post("/v1/locks/a/acquire", plain).parsed()["error"]["code"], "busy");
  EXPECT_EQ(receive(forgotten).parsed()["error"]["code"], "replaced");
  await_queue("a", 0);
  // The same again, and now the lock becomes free between the two calls.
  wish["id"] = std::string(32, '8');
  std::optional<Socket> waits(address());
  ASSERT_TRUE(waits->send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  ASSERT_EQ(post("/v1/locks/a/release", {{"id", first["id"]}}).status, 200);
  EXPECT_EQ(receive(*waits).status, 200);
  EXPECT_EQ(post("/v1/locks/a/acquire", wish).status, 200);
  waits.reset();
  EXPECT_EQ(get("/v1/locks/a").parsed()["holders"].size(), 1U);
}

TEST_F(HttpTest, ARenewalThatReachesNoFurtherIsToldWhatIsLeft) {
  open();
  const json grant = post("/v1/locks/a/acquire", {{"ttl_ms", 60000}}).parsed();
  const Got shorter = post("/v1/locks/a/renew", {{"ttl_ms", 5000}, {"id", grant["id"]}});
  ASSERT_EQ(shorter.status, 200) << shorter.body;
  EXPECT_GT(shorter.parsed()["ttl_ms"], 5000);
  EXPECT_LE(shorter.parsed()["ttl_ms"], 60000);
}

TEST_F(HttpTest, ARepeatedWaitHasItsOwnTimeAndAReleaseLeavesTheQueue) {
  open();
  const json first = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  json wish = {{"ttl_ms", 1000}, {"wait_ms", 20000}, {"id", std::string(32, '7')}};
  const Socket before(address());
  ASSERT_TRUE(before.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  wish["wait_ms"] = 200000;
  const Socket later(address());
  ASSERT_TRUE(later.send(posted("/v1/locks/a/acquire", wish.dump())));
  EXPECT_EQ(receive(before).status, 409);
  const auto began = base::BootClock::now();
  while (get("/v1/locks/a").parsed()["queue"][0]["expires_in_ms"] < 100000) {
    ASSERT_LT(base::BootClock::now(), began + std::chrono::seconds(20));
  }
  const Got left = post("/v1/locks/a/release", {{"id", wish["id"]}});
  EXPECT_EQ(left.status, 200);
  EXPECT_EQ(left.parsed()["released"], false) << "it did not hold";
  EXPECT_EQ(receive(later).status, 409);
  await_queue("a", 0);
}

TEST_F(HttpTest, WaitingCallsLeaveConnectionsForOthers) {
  open({.connections_of_address = 4});
  ASSERT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).status, 200);
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}};
  const Socket one(address());
  ASSERT_TRUE(one.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 1);
  const Socket two(address());
  ASSERT_TRUE(two.send(posted("/v1/locks/a/acquire", wish.dump())));
  await_queue("a", 2);
  EXPECT_EQ(post("/v1/locks/a/acquire", wish).status, 429);
  EXPECT_EQ(get("/healthz").status, 200);
}

// Nobody would see behind them that the caller has gone.
TEST_F(HttpTest, AWaitingCallWithTooManyRequestsBehindItIsClosed) {
  open();
  ASSERT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).status, 200);
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}};
  const Socket socket(address());
  std::string all = posted("/v1/locks/a/acquire", wish.dump());
  for (int i = 0; i < 1'000; ++i) all += "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  socket.send(all);
  EXPECT_EQ(socket.receive(), "");
  await_queue("a", 0);
}

TEST_F(HttpTest, AWaitOfAUserWhoseLineWasTakenOutEnds) {
  open({}, "app @ acquire:*\nlook @ observe:*\n");
  const std::string app = "Authorization: Basic YXBwOnNlY3JldA==\r\n";
  const std::string look = "Authorization: Basic bG9vazpzZWNyZXQ=\r\n";
  ASSERT_EQ(post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}, app).status, 200);
  const json wish = {{"ttl_ms", 1000}, {"wait_ms", 60000}};
  const Socket waits(address());
  ASSERT_TRUE(waits.send(posted("/v1/locks/a/acquire", wish.dump(), app)));
  const auto queue = [&] { return get("/v1/locks/a", look).parsed()["queue"].size(); };
  while (queue() != 1) {
  }
  write_users("look @ observe:*\n");
  ASSERT_TRUE(server_->reload());
  EXPECT_EQ(waits.receive(), "");
  EXPECT_EQ(queue(), 0U);
}

TEST_F(HttpTest, BreaksWithAReasonAndTheToken) {
  open();
  const json grant = post("/v1/locks/a/acquire", {{"ttl_ms", 30000}}).parsed();
  EXPECT_EQ(post("/v1/locks/a/break", {{"token", grant["token"]}}).status, 400);
  EXPECT_EQ(post("/v1/locks/a/break", {{"token", "1"}, {"reason", "stuck"}}).status, 409);
  EXPECT_EQ(post("/v1/locks/a/break", {{"token", grant["token"]}, {"reason", "stuck"}}).status,
            200);
  EXPECT_EQ(get("/v1/locks/a").parsed()["last_break"]["reason"], "stuck");
}

TEST_F(HttpTest, RefusesBodiesThatItDoesNotUnderstand) {
  open();
  for (const char* body : {"", "[]", "{", "{}", R"({"ttl_ms":-1})", R"({"ttl_ms":"1"})",
                           R"({"ttl_ms":1000,"wait":"1s"})", R"({"ttl_ms":1000,"id":"1"})",
                           R"({"ttl_ms":1000,"mode":"both"})", R"({"ttl_ms":[[[[1]]]]})"}) {
    EXPECT_EQ(ask(posted("/v1/locks/a/acquire", body)).status, 400) << body;
  }
  for (const char* name : {"%zz", "steps%2F..%2Frecord", "..", "a%0Ab"}) {
    const std::string path = std::string("/v1/locks/") + name;
    EXPECT_EQ(post(path + "/acquire", {{"ttl_ms", 1000}}).status, 400) << name;
    EXPECT_EQ(get(path).status, 400) << name;
  }
  EXPECT_EQ(ask(posted("/v1/locks/a/steal", "{}")).status, 404);
}

TEST_F(HttpTest, ARepeatedFieldIsRefusedByItsName) {
  open();
  for (const char* body : {R"({"ttl_ms":1000,"mode":"shared","mode":"exclusive"})",
                           R"({"mode":"shared","ttl_ms":1000,"mode":"shared"})",
                           R"({"mode":"shared","m\u006fde":"exclusive","ttl_ms":1000})"}) {
    const Got got = ask(posted("/v1/locks/a/acquire", body));
    EXPECT_EQ(got.status, 400) << body;
    EXPECT_EQ(got.parsed()["error"]["message"],
              "the body has the field 'mode' more than once: give it one value");
  }
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 0U);
}

// It may be a field of another version, or one that was mistyped.
TEST_F(HttpTest, AnUnknownFieldIsNamedOnEachCallWithTheKnownOnes) {
  open();
  const std::pair<const char*, const char*> calls[] = {
      {"/v1/locks/a/acquire", "id, ttl_ms, wait_ms, owner, reason, mode"},
      {"/v1/locks/a/renew", "id, ttl_ms"},
      {"/v1/locks/a/release", "id"},
      {"/v1/locks/a/break", "token, owner, reason"},
      {"/v1/ids/a/next", "count"}};
  for (const auto& [path, known] : calls) {
    const Got got = post(path, {{"ttl", 1000}});
    EXPECT_EQ(got.status, 400) << path;
    EXPECT_EQ(got.parsed()["error"]["message"],
              std::string("this call has no field 'ttl': it has ") + known);
  }
}

TEST_F(HttpTest, ARestoredCopySaysUntilWhenItGrantsNothingAndWhatToDo) {
  const std::string data = folder_.file("journal");
  options_.journal = "sqlite:" + data;
  open();
  server_.reset();
  auto found = FolderIdentity::read(data);
  ASSERT_TRUE(found && *found);
  ++(*found)->birth;  // The database is another file than the last server had.
  ASSERT_TRUE((*found)->write(data));
  open();
  const std::string id(32, '1');
  for (const char* call : {"acquire", "renew"}) {
    const Got got = post(std::string("/v1/locks/a/") + call, {{"id", id}, {"ttl_ms", 1000}});
    EXPECT_EQ(got.status, 503);
    const json error = got.parsed()["error"];
    EXPECT_EQ(error["code"], "restored");
    EXPECT_NE(error["message"].get<std::string>().find(" s, until 20"), std::string::npos) << error;
    EXPECT_NE(error["next"].get<std::string>().find("--clients-stopped"), std::string::npos);
    EXPECT_NE(got.head.find("Retry-After: 86"), std::string::npos) << got.head;
  }
  EXPECT_NE(get("/readyz").body.find(" s, until 20"), std::string::npos);
}

TEST_F(HttpTest, RefusesWhatPagesOfABrowserCanSend) {
  open();
  EXPECT_EQ(ask("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 421);
  EXPECT_EQ(ask("GET /healthz HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(get("/v1/locks", "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(get("/v1/locks", "Origin: http://localhost\r\n").status, 200);
  const std::string head = "POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_EQ(ask(head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}").status,
            403);
  EXPECT_EQ(
      ask(head + "Holdfast-Request: 1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
          .status,
      415);
}

TEST_F(HttpTest, BoundsWhatItReads) {
  open({.connections_of_address = 4, .request_time = std::chrono::milliseconds(200)});
  EXPECT_EQ(ask("nonsense\r\n\r\n").status, 400);
  const auto long_head = get("/healthz", "A: " + std::string(9'000, 'a') + "\r\n");
  EXPECT_EQ(long_head.status, 431);
  EXPECT_EQ(long_head.parsed()["error"]["code"], "head_too_large");
  const auto long_body = ask("POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(long_body.status, 413);
  EXPECT_EQ(long_body.parsed()["error"]["code"], "body_too_large");
  const Socket slow(address());
  ASSERT_TRUE(slow.send("GET /hea"));
  EXPECT_EQ(slow.receive(), "");
  const Socket kept[] = {Socket(address()), Socket(address()), Socket(address()),
                         Socket(address())};
  EXPECT_EQ(kept[0].ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").substr(9, 3), "200");
  EXPECT_EQ(Socket(address()).receive(), "");
}

TEST_F(HttpTest, AnswersPipelinedRequestsInOrder) {
  open();
  const Socket socket(address());
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n";
  ASSERT_TRUE(
      socket.send("GET /healthz" + host + "\r\nGET /readyz" + host + "Connection: close\r\n\r\n"));
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
  EXPECT_LT(all.find("alive\n"), all.find("ready\n"));
  EXPECT_TRUE(all.ends_with("ready\n")) << all;
}

TEST_F(HttpTest, AsksForAUserAndItsRights) {
  open({}, "app @ acquire:mine/*\nlook @ observe:*\n");
  const std::string app = "Authorization: Basic YXBwOnNlY3JldA==\r\n";
  const std::string look = "Authorization: Basic bG9vazpzZWNyZXQ=\r\n";
  const std::string wrong = "Authorization: Basic YXBwOndyb25n\r\n";
  EXPECT_EQ(get("/healthz").status, 200);
  const Got stranger = get("/v1/locks");
  EXPECT_EQ(stranger.status, 401);
  EXPECT_NE(stranger.head.find("WWW-Authenticate: Basic"), std::string::npos);
  // It does not tell which users there are.
  const std::string unknown = "Authorization: Basic bm9ib2R5Ondyb25n\r\n";
  const Got denied = get("/v1/locks", wrong);
  EXPECT_EQ(denied.status, 401);
  EXPECT_EQ(denied.parsed()["error"]["message"],
            "this server does not accept this user and password");
  EXPECT_EQ(get("/v1/locks", unknown).body, denied.body);
  EXPECT_NE(stranger.body, denied.body);
  EXPECT_EQ(get("/metrics", app).status, 403);
  EXPECT_EQ(get("/metrics", look).status, 200);
  EXPECT_EQ(get("/v1/locks", app).status, 403);
  EXPECT_EQ(get("/v1/locks?prefix=mine%2F", app).status, 200);
  const json ttl = {{"ttl_ms", 30000}};
  EXPECT_EQ(post("/v1/locks/other/acquire", ttl, app).status, 403);
  EXPECT_EQ(post("/v1/locks/mine%2F1/acquire", ttl, look).status, 403);
  const json grant = post("/v1/locks/mine%2F1/acquire", ttl, app).parsed();
  EXPECT_EQ(
      post("/v1/locks/mine%2F1/break", {{"token", grant["token"]}, {"reason", "x"}}, app).status,
      403);
  EXPECT_EQ(get("/v1/locks/mine%2F1", look).status, 200);
}

TEST_F(HttpTest, AValueOfALockLibraryIsForItsUserAndAdmins) {
  open({}, "app @ acquire:*\nlook @ observe:*\nops @ observe:* admin\n");
  ASSERT_EQ(as("app")->ask(request({"SET", "a", "5ecret", "NX", "PX", "60000"})), "+OK\r\n");
  const std::pair<const char*, const char*> users[] = {
      {"YXBwOnNlY3JldA==", "5ecret"}, {"bG9vazpzZWNyZXQ=", "app"}, {"b3BzOnNlY3JldA==", "5ecret"}};
  for (const auto& [login, owner] : users) {
    const std::string header = std::string("Authorization: Basic ") + login + "\r\n";
    EXPECT_EQ(get("/v1/locks/a", header).parsed()["holders"][0]["owner"], owner);
    EXPECT_EQ(get("/v1/locks", header).parsed()["locks"][0]["holders"][0]["owner"], owner);
  }
}

TEST_F(HttpTest, AWrongPasswordIsToldToOperatorsButNoNameThatMayBeOne) {
  std::string warning;
  options_.on_warning = [&](const std::string& what) { warning += what; };
  open({}, "app @ acquire:*\n");
  EXPECT_EQ(get("/v1/locks").status, 401) << "without a password";
  EXPECT_EQ(get("/v1/locks", "Authorization: Basic c2VjcmV0OmFwcA==\r\n").status, 401);
  server_->stop();
  EXPECT_EQ(warning, "a log-in as a user who does not exist from 127.0.0.1 failed");
}

TEST_F(HttpTest, AConnectionHasItsLimit) {
  options_.connection_rate = 2;
  open();
  const Socket busy(address());
  Got got;
  for (int i = 0; i < 10'000 && got.status != 429; ++i) {
    ASSERT_TRUE(busy.send("GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    got = receive(busy);
  }
  EXPECT_EQ(got.status, 429) << got.body;
  EXPECT_NE(got.head.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(get("/v1/locks").status, 200) << "which is another one";
  ASSERT_TRUE(busy.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(receive(busy).status, 200) << "which does not count";
}

TEST_F(HttpTest, AUsersLimitsCountBothPortsTogether) {
  open({}, "app @ acquire:* connections:2 rate:20\n");
  const std::string request =
      "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YXBwOnNlY3JldA==\r\n\r\n";
  const Socket main(server_->address());
  ASSERT_EQ(main.ask("*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$6\r\nsecret\r\n"), "+OK\r\n");
  const Socket second(address());
  ASSERT_TRUE(second.send(request));
  EXPECT_EQ(receive(second).status, 200);
  {
    const Socket third(address());
    ASSERT_TRUE(third.send(request));
    EXPECT_EQ(receive(third).parsed()["error"]["code"], "too_many_connections");
  }
  // Each port alone would allow as many.
  const auto began = base::BootClock::now();
  double allowed = 0;
  for (int i = 0; i < 40; ++i) {
    allowed += main.ask("*2\r\n$3\r\nGET\r\n$1\r\na\r\n").starts_with("$-") ? 1 : 0;
    ASSERT_TRUE(second.send(request));
    allowed += receive(second).status == 200 ? 1 : 0;
  }
  const std::chrono::duration<double> passed = base::BootClock::now() - began;
  EXPECT_LE(allowed, 20 * (1 + passed.count()) + 1);
}

TEST_F(HttpTest, TheOtherPortClosesOnHttp) {
  open();
  for (const char* bytes : {"POST / HTTP/1.1\r\nPING\r\n", "Host: localhost\r\nPING\r\n"}) {
    const Socket socket(server_->address());
    ASSERT_TRUE(socket.send(bytes));
    std::string all;
    for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
    EXPECT_EQ(all.find("PONG"), std::string::npos) << all;
  }
}

TEST(Credentials, AreReadFromBasicAuthentication) {
  const auto read = read_credentials("basic YXBwOnNlOmNyZXQ=");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->user, "app");
  EXPECT_EQ(read->password, "se:cret");
  EXPECT_FALSE(read_credentials("Bearer YXBw"));
  EXPECT_FALSE(read_credentials("Basic ****"));
  EXPECT_EQ(host_of("Locks.Example:1"), "locks.example");
  EXPECT_EQ(host_of("[::1]:1"), "[::1]");
  EXPECT_EQ(host_of("[::1]"), "[::1]");
  EXPECT_EQ(host_of("localhost:1@evil"), "localhost:1@evil") << "no port follows the colon";
  EXPECT_EQ(host_of("localhost:99999999"), "localhost:99999999");
}

}  // namespace
}  // namespace holdfast::server
