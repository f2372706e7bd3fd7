// An HTTP port whose server does not lead, with a leader in this process, or one that the test
// plays.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/server/access/server_tls.h"
#include "src/server/front/listen_address.h"
#include "src/server/http/credentials.h"
#include "src/server/testing/http_rig.h"
#include "src/server/testing/http_stand_in.h"
#include "src/server/testing/played_server.h"
#include "src/server/testing/stand_in.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/tls_files.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Got;
using testing::HttpStandIn;
using testing::PlayedServer;
using testing::receive;
using testing::Socket;

// "app:secret" and "more:secret".
const std::string kAppLogin = "Authorization: Basic YXBwOnNlY3JldA==\r\n";
const std::string kMoreLogin = "Authorization: Basic bW9yZTpzZWNyZXQ=\r\n";

bool has_part(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string as_answer(const std::string& status, const std::string& body,
                      const std::string& headers = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string page_of(const std::vector<std::string>& names, const json& more = json::object()) {
  json page = more;
  page["locks"] = json::array();
  for (const std::string& each : names) page["locks"].push_back({{"name", each}});
  return as_answer("200 OK", page.dump());
}

// Nothing ends by the time that it takes.
HttpLimits patient() {
  HttpLimits limits;
  limits.forwarding.change_time = limits.forwarding.read_time = limits.forwarding.dial_time = 10min;
  return limits;
}

class HttpForwardingTest : public testing::HttpTest {
 protected:
  static std::string got(const std::string& path, const std::string& headers = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
  }
  static Got ask(const HttpStandIn& there, const std::string& bytes) {
    const Socket socket(there.address());
    EXPECT_TRUE(socket.send(bytes));
    return receive(socket);
  }
  static std::string code(const Got& answer) {
    const json body = answer.parsed();
    return body.contains("error") ? body["error"]["code"].get<std::string>() : answer.body;
  }
  static std::string acquires(const std::string& name, const json& more = json::object()) {
    json body = {{"ttl_ms", 60'000}};
    body.update(more);
    return posted("/v1/locks/" + name + "/acquire", body.dump());
  }
  // One request that the leader has heard.
  struct UnderWay {
    explicit UnderWay(const std::string& request, HttpLimits limits = patient())
        : stand_in({leader.address()}, {}, limits), there(stand_in.address()) {
      EXPECT_TRUE(there.send(request));
      leader.accept();
      heard = leader.receive_until(request.ends_with("}") ? "}" : "\r\n\r\n");
    }
    PlayedServer leader;
    HttpStandIn stand_in;
    const Socket there;
    std::string heard;
  };
};

TEST_F(HttpForwardingTest, TheLeaderDoesIt) {
  open();
  const HttpStandIn there({address()});
  const Socket caller(there.address(), "127.0.0.2");
  ASSERT_TRUE(caller.send(acquires("orders%2F1", {{"owner", "me"}})));
  const Got taken = receive(caller);
  ASSERT_EQ(taken.status, 200) << taken.body;
  const json id = {{"id", taken.parsed()["id"]}, {"ttl_ms", 90'000}};
  EXPECT_EQ(post("/v1/locks/orders%2F1/acquire", {{"ttl_ms", 1'000}}).status, 409);
  EXPECT_EQ(ask(there, posted("/v1/locks/orders%2F1/renew", id.dump())).status, 200);
  const json seen = ask(there, got("/v1/locks/orders%2F1")).parsed();
  EXPECT_EQ(seen["holders"][0]["owner"], "me");
  EXPECT_EQ(seen["holders"][0]["host"], "127.0.0.2") << "the caller's";
  EXPECT_EQ(ask(there, got("/v1/locks?prefix=orders")).parsed()["locks"].size(), 1U);
  const json released = {{"id", id["id"]}};
  EXPECT_EQ(ask(there, posted("/v1/locks/orders%2F1/release", released.dump())).status, 200);
  EXPECT_EQ(code(ask(there, posted("/v1/ids/orders/next", "{}"))), "no_such_ids");
  EXPECT_EQ(ask(there, got("/readyz")).status, 503) << "it tells of this server";
}

TEST_F(HttpForwardingTest, TheRequestAndTheAnswerArePassedOnUnchanged) {
  const std::string request = posted("/v1/locks/a%2fb/acquire", "{\"ttl_ms\":1000}", kAppLogin);
  UnderWay scene(request);
  EXPECT_TRUE(scene.heard.starts_with("POST /v1/locks/a%2fb/acquire HTTP/1.1\r\n")) << scene.heard;
  for (const std::string& line :
       {"Host: " + scene.leader.address(), std::string("Authorization: Basic YXBwOnNlY3JldA=="),
        std::string("Content-Type: application/json"), std::string("Holdfast-Request: 1"),
        std::string("Holdfast-Forwarded: 127.0.0.1"), std::string("Content-Length: 15"),
        std::string("Connection: close")}) {
    EXPECT_TRUE(has_part(scene.heard, "\r\n" + line + "\r\n")) << line << "\n" << scene.heard;
  }
  EXPECT_TRUE(scene.heard.ends_with("\r\n\r\n{\"ttl_ms\":1000}"));
  scene.leader.say(as_answer("409 Conflict", "{\"some\": \"thing\"}",
                             "Retry-After: 7\r\nWWW-Authenticate: Basic\r\nAllow: GET\r\n"
                             "Set-Cookie: no=1\r\n"));
  const Got answer = receive(scene.there);
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, "{\"some\": \"thing\"}");
  for (const char* line : {"Retry-After: 7", "WWW-Authenticate: Basic", "Allow: GET",
                           "Content-Type: application/json", "Cache-Control: no-store"}) {
    EXPECT_TRUE(has_part(answer.head, line)) << answer.head;
  }
  EXPECT_FALSE(has_part(answer.head, "Set-Cookie"));
  EXPECT_EQ(scene.leader.receive_until(""), "") << "the connection has ended";
}

TEST_F(HttpForwardingTest, TheAnswerToHeadHasNoBody) {
  UnderWay scene("HEAD /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n" + got("/healthz"));
  EXPECT_TRUE(scene.heard.starts_with("GET /v1/locks/a ")) << scene.heard;
  scene.leader.say(as_answer("200 OK", "{\"a\":1}"));
  std::string all;
  while (!has_part(all, "alive\n")) {
    const std::string more = scene.there.receive();
    ASSERT_FALSE(more.empty()) << all;
    all += more;
  }
  EXPECT_TRUE(has_part(all, "Content-Length: 7\r\n"));
  EXPECT_FALSE(has_part(all, "{\"a\":1}"));
}

// Two servers that take each other for the leader.
TEST_F(HttpForwardingTest, AForwardedRequestIsNotForwardedAgain) {
  HttpStandIn one({"127.0.0.1:1"});
  const HttpStandIn other({one.address()});
  one.run([&](HttpFront& front) {
    front.note_places({{HttpStandIn::main_of(0), other.address()}});
  });
  for (const std::string& request : {got("/v1/locks/a"), got("/v1/locks"), acquires("a")}) {
    const Got answer = ask(one, request);
    EXPECT_EQ(answer.status, 503) << answer.body;
    EXPECT_EQ(code(answer), "standing_by");
  }
}

TEST_F(HttpForwardingTest, ALeaderThatCannotBeAskedIsNamedBecauseNothingWasSent) {
  const support::ReservedPort nobody;
  const HttpStandIn there({"127.0.0.1:" + std::to_string(nobody.number()), ""});
  const Got refused = ask(there, acquires(testing::name_in(0, 2)));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code(refused), "standing_by");
  EXPECT_TRUE(has_part(refused.body, "the server at 192.0.2.1 leads, and this one cannot ask it: "))
      << refused.body;
  EXPECT_TRUE(has_part(refused.body, "repeat it, or ask that server")) << "it may be dead";
  EXPECT_TRUE(has_part(refused.head, "Retry-After: 1"));
  const Got vacant = ask(there, acquires(testing::name_in(1, 2)));
  EXPECT_EQ(code(vacant), "standing_by");
  EXPECT_TRUE(has_part(vacant.body, "no server leads yet")) << vacant.body;
  EXPECT_EQ(code(ask(there, got("/v1/locks"))), "standing_by");
  // As of a server without an HTTP port, or of an older version.
  HttpStandIn unknown({"127.0.0.1:1"});
  unknown.run([](HttpFront& front) { front.note_places({}); });
  EXPECT_TRUE(has_part(ask(unknown, acquires("a")).body, "it has told no HTTP port"));
}

TEST_F(HttpForwardingTest, ACallerWhoGoesAwayEndsTheRequest) {
  PlayedServer leader;
  const HttpStandIn there({leader.address()}, {}, patient());
  {
    const Socket caller(there.address());
    ASSERT_TRUE(caller.send(acquires("a", {{"wait_ms", 300'000}})));
    leader.accept();
    leader.receive_until("}");
  }
  EXPECT_EQ(leader.receive_until(""), "");
}

TEST_F(HttpForwardingTest, AWaitingCallIsGrantedAndLeavesTheQueueWithItsCaller) {
  open();
  const HttpStandIn there({address()});
  const json id = {{"id", post("/v1/locks/a/acquire", {{"ttl_ms", 60'000}}).parsed()["id"]}};
  const Socket waits(there.address());
  ASSERT_TRUE(waits.send(acquires("a", {{"wait_ms", 60'000}})));
  await_queue("a", 1);
  {
    const Socket leaves(there.address());
    ASSERT_TRUE(leaves.send(acquires("a", {{"wait_ms", 60'000}})));
    await_queue("a", 2);
  }
  await_queue("a", 1);
  ASSERT_EQ(post("/v1/locks/a/release", id).status, 200);
  EXPECT_EQ(receive(waits).status, 200);
}

TEST_F(HttpForwardingTest, AnEndBeforeTheAnswerIsAnUnknownOutcomeOfAChange) {
  for (const char* said : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}) {
    UnderWay change(acquires("a"));
    change.leader.say(said);
    change.leader.hang_up();
    const Got unknown = receive(change.there);
    EXPECT_EQ(unknown.status, 503);
    EXPECT_EQ(code(unknown), "outcome_unknown") << unknown.body;
    EXPECT_EQ(unknown.parsed()["error"]["next"], "repeat it with the same id");
    UnderWay read(got("/v1/locks/a"));
    read.leader.say(said);
    read.leader.hang_up();
    EXPECT_EQ(code(receive(read.there)), "unavailable");
    EXPECT_EQ(read.there.send(got("/healthz")), true);
    EXPECT_EQ(receive(read.there).body, "alive\n") << "the caller's connection goes on";
  }
}

TEST_F(HttpForwardingTest, ALeaderThatHangsIsWaitedForOnlySoLong) {
  HttpLimits limits = patient();
  limits.forwarding.change_time = limits.forwarding.read_time = 300ms;
  UnderWay change(acquires("a"), limits);
  EXPECT_EQ(code(receive(change.there)), "outcome_unknown");
  UnderWay read(got("/v1/locks/a"), limits);
  EXPECT_EQ(code(receive(read.there)), "unavailable");
  const auto began = base::BootClock::now();
  UnderWay wait(acquires("a", {{"wait_ms", 1'000}}), limits);
  EXPECT_EQ(code(receive(wait.there)), "outcome_unknown");
  EXPECT_GE(base::BootClock::now() - began, 1'300ms) << "beside the time that it may wait";
}

TEST_F(HttpForwardingTest, ANewLeaderEndsTheRequestToTheOneBefore) {
  UnderWay scene(acquires("a", {{"wait_ms", 300'000}}));
  const Socket idle(scene.stand_in.address());
  ASSERT_TRUE(idle.send(got("/healthz")));
  EXPECT_EQ(receive(idle).status, 200);
  scene.stand_in.run([](HttpFront& front) { front.stand_by(0, ""); });
  EXPECT_EQ(code(receive(scene.there)), "outcome_unknown");
  ASSERT_TRUE(scene.there.send(acquires("a")));
  EXPECT_TRUE(has_part(receive(scene.there).body, "no server leads yet"));
  ASSERT_TRUE(idle.send(got("/healthz")));
  EXPECT_EQ(receive(idle).status, 200);
}

TEST_F(HttpForwardingTest, GarbageAndTooLongAnswersAreNoneAtAll) {
  HttpLimits limits = patient();
  limits.forwarding.longest_answer = 1'000;
  const std::string long_head = "HTTP/1.1 200 OK\r\nX: " + std::string(10'000, 'x') + "\r\n\r\n";
  for (const std::string& said :
       {std::string("+OK\r\n+OK\r\n+OK\r\n"), std::string("HTTP/1.1 100 Continue\r\n\r\n"),
        as_answer("200 OK", std::string(1'001, 'x')), long_head,
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")}) {
    UnderWay scene(acquires("a"), limits);
    scene.leader.say(said);
    EXPECT_EQ(code(receive(scene.there)), "outcome_unknown") << said;
  }
  UnderWay fits(acquires("a"), limits);
  fits.leader.say(as_answer("200 OK", std::string(1'000, 'x')));
  EXPECT_EQ(receive(fits.there).body.size(), 1'000U);
  limits.forwarding.longest_answers = 500;
  UnderWay all(acquires("a"), limits);
  all.leader.say(as_answer("200 OK", std::string(1'000, 'x')));
  EXPECT_EQ(code(receive(all.there)), "outcome_unknown") << "they are too long together";
}

TEST_F(HttpForwardingTest, OneAddressLeavesRoomForOthersAndWaitersForTheRest) {
  PlayedServer leader;
  HttpLimits limits = patient();
  limits.forwarding.of_leader = 6;
  const HttpStandIn there({leader.address()}, {}, limits);
  std::vector<std::unique_ptr<Socket>> sockets;
  // The connections wait in the played leader's backlog.
  const auto send = [&](const std::string& request, const char* from) {
    sockets.push_back(std::make_unique<Socket>(there.address(), from));
    EXPECT_TRUE(sockets.back()->send(request));
    EXPECT_EQ(ask(there, got("/healthz")).status, 200) << "it was read before this";
  };
  const std::string waits = acquires("a", {{"wait_ms", 300'000}});
  for (int i = 0; i < 2; ++i) send(waits, "127.0.0.2");
  const auto refused = [&](const std::string& request, const char* from) {
    const Socket one(there.address(), from);
    EXPECT_TRUE(one.send(request));
    return code(receive(one));
  };
  EXPECT_EQ(refused(waits, "127.0.0.2"), "too_many");
  for (int i = 0; i < 2; ++i) send(waits, "127.0.0.3");
  EXPECT_EQ(refused(waits, "127.0.0.4"), "too_many") << "a third is for those that do not wait";
  send(acquires("b"), "127.0.0.2");
  EXPECT_EQ(refused(acquires("b"), "127.0.0.2"), "too_many");
}

// One of its two requests was refused at once.
TEST_F(HttpForwardingTest, ACallerWhoGoesAwayEndsAListThatHadNoRoomAtOneLeader) {
  PlayedServer full;
  PlayedServer other;
  HttpLimits limits = patient();
  limits.forwarding.of_leader = 2;
  const HttpStandIn there({full.address(), other.address()}, {}, limits);
  const Socket first(there.address());
  ASSERT_TRUE(first.send(got("/v1/locks/" + testing::name_in(0, 2))));
  full.accept();
  full.receive_until("\r\n\r\n");
  {
    const Socket lists(there.address());
    ASSERT_TRUE(lists.send(got("/v1/locks")));
    other.accept();
    other.receive_until("\r\n\r\n");
  }
  EXPECT_EQ(other.receive_until(""), "");
  full.say(as_answer("200 OK", "{}"));
  EXPECT_EQ(receive(first).status, 200);
}

TEST_F(HttpForwardingTest, TheLeaderJudgesTheCallersOwnUser) {
  open({}, "app @ acquire:orders/*\n");
  write_users("app @ acquire:*\nmore @ acquire:*\n");
  FrontDoor door;
  door.users = *Users::read(users_);
  const HttpStandIn there({address()}, door);
  const auto as = [&](const std::string& headers, const std::string& name) {
    return ask(there, posted("/v1/locks/" + name + "/acquire", "{\"ttl_ms\":60000}", headers));
  };
  EXPECT_EQ(as(kAppLogin, "orders%2F1").status, 200);
  EXPECT_EQ(as(kAppLogin, "other").status, 403);
  const Got stranger = as(kMoreLogin, "orders%2F2");
  EXPECT_EQ(code(stranger), "other_users") << "the leader does not know it";
  EXPECT_EQ(as("", "orders%2F2").status, 401);
  EXPECT_EQ(ask(there, got("/v1/locks?prefix=orders%2F", kAppLogin)).parsed()["locks"].size(), 1U);
  EXPECT_EQ(ask(there, got("/v1/locks", kAppLogin)).status, 403) << "as the leader answers";
}

// --- Lists.

TEST_F(HttpForwardingTest, AListHasTheLocksOfAllLeadersInTheirOrder) {
  PlayedServer one;
  PlayedServer two;
  const HttpStandIn there({one.address(), two.address()}, {}, patient());
  const auto list = [&](const std::string& query, const std::string& of_one,
                        const std::string& of_two) {
    const Socket socket(there.address());
    EXPECT_TRUE(socket.send(got("/v1/locks" + query)));
    for (const auto& [leader, page] : {std::pair{&one, of_one}, {&two, of_two}}) {
      leader->accept();
      EXPECT_TRUE(leader->receive_until("\r\n\r\n").starts_with("GET /v1/locks" + query + " "));
      leader->say(page);
    }
    return receive(socket).parsed();
  };
  const json not_first = {{"elsewhere", {{{"shard", 0}, {"leader", "x"}}}}};
  const json not_second = {{"elsewhere", {{{"shard", 1}, {"leader", "x"}}}}};
  const json all = list("", page_of({"a", "d"}, not_second), page_of({"b", "c"}, not_first));
  EXPECT_EQ(
      all, (json{{"locks", {{{"name", "a"}}, {{"name", "b"}}, {{"name", "c"}}, {{"name", "d"}}}}}));
  const json page = list("?limit=3&after=0", page_of({"a", "d", "e"}, not_second),
                         page_of({"b", "c", "f"}, not_first));
  EXPECT_EQ(page["locks"], (json{{{"name", "a"}}, {{"name", "b"}}, {{"name", "c"}}}));
  EXPECT_EQ(page["next_after"], "c");
  // It has moved meanwhile: both have it, or none.
  EXPECT_EQ(list("", page_of({"a", "b"}), page_of({"b"}, not_first))["locks"].size(), 2U);
  const json none = list(
      "", page_of({"a"}, not_second),
      page_of({},
              {{"elsewhere", {{{"shard", 0}, {"leader", "x"}}, {{"shard", 1}, {"leader", "x"}}}}}));
  EXPECT_EQ(none["locks"].size(), 1U);
  EXPECT_EQ(none["elsewhere"], (json{{{"shard", 1}, {"leader", "192.0.2.2"}}}));
}

TEST_F(HttpForwardingTest, ALeaderThatHasNoPageStandsElsewhere) {
  PlayedServer one;
  PlayedServer two;
  HttpLimits limits = patient();
  limits.forwarding.read_time = 500ms;
  const HttpStandIn there({one.address(), two.address()}, {}, limits);
  const json not_second = {{"elsewhere", {{{"shard", 1}, {"leader", "x"}}}}};
  for (const std::string& said :
       {std::string(), std::string("nonsense\r\n\r\n"), as_answer("200 OK", "no JSON"),
        as_answer("200 OK", "[]"), as_answer("200 OK", "{\"locks\":[7]}"),
        as_answer("200 OK", "{\"locks\":[{\"name\":7}]}"),
        as_answer("200 OK", "{\"locks\":[{\"name\":\"a\",\"after\":\"\\u0001zz\"}]}"),
        as_answer("200 OK", "{\"locks\":[],\"elsewhere\":[{\"shard\":\"1\"}]}"),
        as_answer("403 Forbidden", "{}")}) {
    const Socket socket(there.address());
    ASSERT_TRUE(socket.send(got("/v1/locks")));
    one.accept();
    one.say(page_of({"a"}, not_second));
    two.accept();
    two.receive_until("\r\n\r\n");
    if (!said.empty()) two.say(said);
    const json page = receive(socket).parsed();
    EXPECT_EQ(page["locks"].size(), 1U) << said;
    EXPECT_EQ(page["elsewhere"], (json{{{"shard", 1}, {"leader", "192.0.2.2"}}})) << said;
  }
}

// Nobody knows what lies behind the end of that page, so the list ends there, too.
TEST_F(HttpForwardingTest, AListEndsWhereTheShortestPageEnds) {
  PlayedServer one;
  PlayedServer two;
  const HttpStandIn there({one.address(), two.address()}, {}, patient());
  const Socket socket(there.address());
  ASSERT_TRUE(socket.send(got("/v1/locks")));
  one.accept();
  one.say(page_of({"b", "e"}, {{"next_after", "e"}, {"elsewhere", {{{"shard", 1}}}}}));
  two.accept();
  two.say(page_of({"a", "c", "f"}, {{"elsewhere", {{{"shard", 0}}}}}));
  const json page = receive(socket).parsed();
  EXPECT_EQ(page["locks"].size(), 4U) << page;
  EXPECT_EQ(page["next_after"], "e");
}

TEST_F(HttpForwardingTest, APageIsNotLongerThanAnotherServerTakes) {
  HttpLimits limits;
  limits.forwarding.longest_answer = 2'000;
  open(limits);
  const std::string reason(256, 'r');
  for (int i = 0; i < 9; ++i) {
    post("/v1/locks/n" + std::to_string(i) + "/acquire", {{"ttl_ms", 60'000}, {"reason", reason}});
  }
  const HttpStandIn there({address()}, {}, limits);
  std::string names;
  std::string after;
  int pages = 0;
  for (bool more = true; more && pages < 9; ++pages) {
    const json page = ask(there, got("/v1/locks?after=" + after)).parsed();
    for (const json& each : page["locks"]) names += each["name"].get<std::string>();
    more = page.contains("next_after");
    if (more) after = page["next_after"];
    EXPECT_FALSE(page.contains("elsewhere")) << page;
  }
  EXPECT_EQ(names, "n0n1n2n3n4n5n6n7n8");
  EXPECT_GT(pages, 2);
}

// Where nobody has a page, the caller is told why.
TEST_F(HttpForwardingTest, ARefusalOfTheOnlyLeaderIsPassedOn) {
  UnderWay scene(got("/v1/locks"));
  scene.leader.say(as_answer("429 Too Many Requests", "{\"error\":{\"code\":\"too_many\"}}"));
  EXPECT_EQ(receive(scene.there).status, 429);
}

TEST_F(HttpForwardingTest, ACallerWhoGoesAwayEndsItsList) {
  PlayedServer leader;
  const HttpStandIn there({leader.address()}, {}, patient());
  {
    const Socket caller(there.address());
    ASSERT_TRUE(caller.send(got("/v1/locks")));
    leader.accept();
    leader.receive_until("\r\n\r\n");
  }
  EXPECT_EQ(leader.receive_until(""), "");
}

// --- TLS. The test's own connection is older than the certificate, so it can speak plain text.

TEST_F(HttpForwardingTest, TheLeadersCertificateIsChecked) {
  const auto& files = support::tls_files();
  options_.tls_cert = files.server.certificate;
  options_.tls_key = files.server.key;
  open({}, "app @ acquire:*\n");
  FrontDoor door;
  door.users = *Users::read(users_);
  for (const auto& [trusted, leader_is_trusted] :
       {std::pair{files.ca, true}, {files.foreign_ca, false}}) {
    HttpStandIn there({address()}, door);
    const Socket socket(there.address());
    ASSERT_TRUE(socket.send(got("/healthz")));
    ASSERT_EQ(receive(socket).status, 200);
    FrontDoor with_tls = door;
    with_tls.tls = *make_server_tls(options_.tls_cert, options_.tls_key, trusted);
    there.run([&](HttpFront& front) { front.guard(with_tls); });
    ASSERT_TRUE(socket.send(posted("/v1/locks/a/acquire", "{\"ttl_ms\":60000}", kAppLogin)));
    const Got answer = receive(socket);
    if (leader_is_trusted) {
      EXPECT_EQ(answer.status, 200) << answer.body;
    } else {
      EXPECT_EQ(code(answer), "standing_by") << answer.body;
      EXPECT_TRUE(has_part(answer.body, "--tls-ca")) << answer.body;
    }
  }
}

// Anybody can write the header.
TEST(ForwardedForTest, OnlyAnAddressIsTakenForOne) {
  const auto told = [](const std::string& text) {
    HttpRequest request;
    request.forwarded = text;
    return forwarded_for(request).value_or("none");
  };
  for (const char* good : {"192.0.2.1", "2001:db8::1", "2001:db8::/64"}) {
    EXPECT_EQ(told(good), good);
  }
  for (const char* bad :
       {"", "1", "locks.example", "192.0.2.1, 192.0.2.2", "fe80::1%eth0", "/64"}) {
    EXPECT_EQ(told(bad), "none");
  }
}

TEST(HttpAddressTest, OtherServersAreToldWhereTheyReachThePort) {
  EXPECT_EQ(http_address_for_others("", "192.0.2.1:7420", ""), "");
  EXPECT_EQ(http_address_for_others("127.0.0.1:8", "127.0.0.1:7420", ""), "127.0.0.1:8");
  EXPECT_EQ(http_address_for_others("127.0.0.1:8", "192.0.2.1:7420", ""), "");
  EXPECT_EQ(http_address_for_others("[::1]:8", "127.0.0.1:7420", "locks:1"), "locks:8");
  EXPECT_EQ(http_address_for_others("0.0.0.0:8", "192.0.2.1:7420", ""), "192.0.2.1:8");
  EXPECT_EQ(http_address_for_others("192.0.2.2:8", "192.0.2.1:7420", ""), "192.0.2.2:8");
  EXPECT_EQ(http_address_for_others("[::]:8", "[::]:7420", "[2001:db8::1]:1"), "[2001:db8::1]:8");
}

}  // namespace
}  // namespace holdfast::server
