// Access control: passwords, permissions, certificates; and the other ways in.
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

using support::RedisTls;
using support::tls_files;

class RedisAccessFaultsTest : public RedisFaults {
 protected:
  static Error refusal(const std::string& url) {
    auto client = Client::connect(url);
    if (client) throw std::runtime_error("it came in");
    return client.error();
  }

  // The main use of a lock.
  static void do_the_main_job(const std::string& url) {
    Peer one(url);
    Peer other(url);
    Lease lease = one.hold("a", 10s);
    EXPECT_FALSE(other.try_hold("a", 10s));
    Waiter waiter(other, "a", 10s);
    waiter.await_queued();
    EXPECT_TRUE(lease.renew());
    EXPECT_EQ(one.look("a").waiters.size(), 1U);
    EXPECT_EQ(one.client().list("").value().size(), 1U);
    EXPECT_TRUE(lease.release());
    Lease next = waiter.grant();
    EXPECT_GT(next.token(), lease.token());
    LossWatch loss(next);
    EXPECT_TRUE(one.client().break_lock("a", next.token(), "a test"));
    EXPECT_NE(loss.await(2s), 0) << "a break is told at once";
    EXPECT_EQ(next.loss()->code(), Errc::kBroken);
    auto shared = one.client().acquire("s", Mode::shared());
    ASSERT_TRUE(shared);
    EXPECT_TRUE(other.client().acquire("s", Mode::shared()));
    EXPECT_TRUE(one.client().doctor());
    EXPECT_TRUE(one.client().close());
  }
};

TEST_F(RedisAccessFaultsTest, AWrongPasswordIsRefusedAndNotRepeated) {
  RedisServer server({.requirepass = "right"});
  EXPECT_TRUE(Client::connect(server.url()));
  const Error wrong = refusal(server.url({.password = "SeCrEt"}));
  EXPECT_EQ(wrong.code(), Errc::kPermissionDenied) << wrong.message();
  EXPECT_EQ(wrong.message().find("SeCrEt"), std::string::npos) << wrong.message();
  const Error none = refusal("redis://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(none.code(), Errc::kPermissionDenied) << none.message();
  const Error stranger = refusal(server.url({.user = "nobody", .password = "SeCrEt"}));
  EXPECT_EQ(stranger.code(), Errc::kPermissionDenied) << stranger.message();
}

TEST_F(RedisAccessFaultsTest, APasswordThatIsChangedUnderAClientIsSaidToBeTheReason) {
  RedisServer server({.requirepass = "right"});
  Peer one(server.url());
  Lease lease = one.hold("a", 10s);
  server.config_set("requirepass", "other");
  server.client_kill("normal");
  const Error refused = one.refusal("b");
  EXPECT_EQ(refused.code(), Errc::kPermissionDenied) << refused.message();
  EXPECT_TRUE(lease.held());
  server.config_set("requirepass", "right");
  EXPECT_TRUE(server.eventually([&](RedisServer&) { return lease.renew().has_value(); }, 3s));
  EXPECT_TRUE(lease.release());
}

// --- Rights

// The line of the store's page, with the user's name and password first.
std::vector<std::string> documented_rights() {
  std::ifstream page(HOLDFAST_REDIS_PAGE);
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("ACL SETUSER ", 0) != 0) continue;
    std::istringstream in(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    return {words.begin() + 2, words.end()};
  }
  throw std::runtime_error("the page has no line with rights");
}

// Lines of redis.conf: as documented, without some, with others instead.
std::string user_line(const std::string& without = "", const std::string& instead = "") {
  std::string line;
  for (const std::string& word : documented_rights()) {
    if (word == without) continue;
    line += (line.empty() ? "" : " ") + word;
  }
  if (!instead.empty()) line += " " + instead;
  return line;
}

TEST_F(RedisAccessFaultsTest, TheDocumentedRightsSuffice) {
  RedisServer server({.users = {"default off", user_line()}});
  do_the_main_job(server.url({.user = "holdfast", .password = "SECRET"}));
  const Reply log = server.must({"ACL", "LOG"});
  EXPECT_TRUE(log.elements.empty()) << log;
}

struct Right {
  friend void PrintTo(const Right& right, std::ostream* out) { *out << right.name; }
  const char* name;
  const char* without;
  const char* instead;
  bool waits = false;  // It is missed only by who waits.
};

class MissingRightTest : public RedisAccessFaultsTest, public testing::WithParamInterface<Right> {};

INSTANTIATE_TEST_SUITE_P(Rights, MissingRightTest,
                         testing::Values(Right{"Eval", "+eval", ""}, Right{"Get", "+get", ""},
                                         Right{"Set", "+set", ""}, Right{"Time", "+time", ""},
                                         Right{"Hset", "+hset", "", true},
                                         Right{"Zadd", "+zadd", "", true},
                                         Right{"Zrem", "+zrem", "", true},
                                         Right{"Subscribe", "+subscribe", "", true},
                                         Right{"Channel", "&hf1:*", "&other:*", true},
                                         Right{"Keys", "~hf1:*", "~other:*"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(MissingRightTest, IsAnErrorThatNamesItAndLeavesNothingHeld) {
  RedisServer server({.users = {"default off", user_line(GetParam().without, GetParam().instead),
                                "chief on nopass ~* &* +@all"}});
  const std::string url = server.url({.user = "holdfast", .password = "SECRET"});
  Peer chief(server.url({.user = "chief", .password = "any"}));
  if (GetParam().waits) {
    Lease lease = chief.hold("a", 30s);
    Peer one(url);
    const auto waited = one.client().mutex("a").acquire({.wait = 3s, .ttl = 5s});
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), Errc::kPermissionDenied) << waited.error().message();
    EXPECT_EQ(server.must({"EXISTS", key_of("a") + ":t"}).integer, 0) << "it went half-way";
    EXPECT_TRUE(lease.renew()) << "a refused request has harmed the holder";
    EXPECT_TRUE(lease.release());
  } else {
    auto one = Client::connect(url);
    const auto lease = one ? one->mutex("a").acquire({.wait = 0ms}) : Result<Lease>(one.error());
    ASSERT_FALSE(lease);
    EXPECT_EQ(lease.error().code(), Errc::kPermissionDenied) << lease.error().message();
  }
  EXPECT_TRUE(chief.try_hold("a", 5s)) << "held by nobody";
}

// A heartbeat needs ZADD; to leave the queue does not.
TEST_F(RedisAccessFaultsTest, AWaitThatIsRefusedAHeartbeatLeavesNoTicketBehind) {
  RedisServer server({.users = {"default off", user_line(), "chief on nopass ~* &* +@all"}});
  Peer chief(server.url({.user = "chief", .password = "any"}));
  Lease lease = chief.hold("a", 30s);
  Peer one(server.url({.user = "holdfast", .password = "SECRET"}));
  Waiter waiter(one, "a", 30s);
  waiter.await_queued();
  ASSERT_EQ(server.must({"HLEN", key_of("a") + ":t"}).integer, 2);
  server.must({"ACL", "SETUSER", "holdfast", "-zadd"});
  const Error refused = waiter.take().error();
  EXPECT_EQ(refused.code(), Errc::kPermissionDenied) << refused.message();
  EXPECT_EQ(chief.look("a").waiters.size(), 0U) << "its ticket stands";
  EXPECT_TRUE(lease.release());
  EXPECT_TRUE(chief.try_hold("a", 5s)) << "held by nobody";
}

// Nothing can be taken back then: it says so at once, and the ticket goes with its lease.
TEST_F(RedisAccessFaultsTest, AWaitThatIsRefusedEverythingSaysWhatIsLeftBehind) {
  RedisServer server({.users = {"default off", user_line(), "chief on nopass ~* &* +@all"}});
  Peer chief(server.url({.user = "chief", .password = "any"}));
  Lease lease = chief.hold("a", 30s);
  Peer one(server.url({.user = "holdfast", .password = "SECRET"}));
  Waiter waiter(one, "a", 2s);
  waiter.await_queued();
  server.must({"ACL", "SETUSER", "holdfast", "resetkeys"});
  const Error refused = waiter.take().error();
  EXPECT_EQ(refused.code(), Errc::kPermissionDenied) << refused.message();
  EXPECT_NE(refused.message().find("may stay queued"), std::string::npos) << refused.message();
  EXPECT_TRUE(server.eventually([&](RedisServer&) { return chief.look("a").waiters.empty(); }, 5s));
}

// --- The doctor

// The problems that the doctor finds, or why it could not connect.
struct Diagnosis {
  bool healthy = false;
  std::string complaints;
};

Diagnosis diagnose(const std::string& url) {
  auto client = Client::connect(url);
  if (!client) return {false, client.error().message()};
  const auto report = client->doctor();
  if (!report) return {false, report.error().message()};
  Diagnosis diagnosis{report->healthy(), ""};
  for (const Finding& finding : report->findings) {
    if (finding.severity != Severity::kOk) diagnosis.complaints += finding.what + "\n";
  }
  return diagnosis;
}

std::string upper(std::string text) {
  for (char& c : text) c = c == '|' ? ' ' : static_cast<char>(std::toupper(c));
  return text;
}

// Each word of the line is taken away in turn.
TEST_F(RedisAccessFaultsTest, TheDoctorMissesEachOfTheDocumentedRights) {
  RedisServer server({.users = {"default off", user_line()}});
  const std::string url = server.url({.user = "holdfast", .password = "SECRET"});
  EXPECT_TRUE(diagnose(url).healthy) << diagnose(url).complaints;
  std::vector<std::string> words = documented_rights();
  words.erase(words.begin());  // The name.
  const std::set<std::string> resets{"resetkeys", "resetchannels", "nocommands"};
  const std::set<std::string> warned_of{"+ping", "+select", "+client|setname", "+info",
                                        "+config|get"};
  int without = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (resets.count(words[i]) != 0) continue;
    std::vector<std::string> setting{"ACL", "SETUSER", "holdfast", "reset"};
    setting.insert(setting.end(), words.begin(), words.end());
    setting.erase(setting.begin() + 4 + static_cast<std::ptrdiff_t>(i));
    server.must(setting);
    const Diagnosis told = diagnose(url);
    EXPECT_EQ(told.healthy, warned_of.count(words[i]) != 0) << words[i];
    if (words[i].front() == '+') {
      EXPECT_NE(upper(told.complaints).find(upper(words[i].substr(1))), std::string::npos)
          << words[i] << " is not named by: " << told.complaints;
    }
    EXPECT_EQ(server.must({"DBSIZE"}).integer, 0) << "left behind without " << words[i];
    server.flushall();
    ++without;
  }
  EXPECT_GT(without, 30);
}

// The record alone is not enough: a lock has keys beside it.
TEST_F(RedisAccessFaultsTest, KeysThatOnlyAQueueNeedsAreMissedBeforeTheFirstLock) {
  RedisServer server({.users = {"default off", user_line("~hf1:*", "~hf1:{*}")}});
  const std::string url = server.url({.user = "holdfast", .password = "SECRET"});
  EXPECT_FALSE(diagnose(url).healthy);
  EXPECT_EQ(Peer(url).refusal("a").code(), Errc::kPermissionDenied);
  EXPECT_EQ(server.must({"DBSIZE"}).integer, 0);
}

// --- Commands that the server has not

class MissingCommandTest : public RedisAccessFaultsTest,
                           public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Commands, MissingCommandTest,
                         testing::Values("HSET", "PEXPIRE", "ZRANGE", "ZSCORE", "EVAL"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(MissingCommandTest, EndsAWaitAtOnceAndIsNamed) {
  const std::string command = GetParam();
  RedisServer server({.config = {"rename-command " + command + " \"\""}});
  Peer one(server.url());
  const auto before = host_boot_ns();
  const auto lease = one.client().mutex("a").acquire({.wait = 60s, .ttl = 60s});
  EXPECT_LT(host_boot_ns() - before, 30'000'000'000) << "it was tried again and again";
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Errc::kUnsupported) << lease.error().message();
  EXPECT_NE(lease.error().message().find(command), std::string::npos) << lease.error().message();
  const Diagnosis told = diagnose(server.url());
  EXPECT_FALSE(told.healthy);
  EXPECT_NE(told.complaints.find(command), std::string::npos) << told.complaints;
  EXPECT_EQ(server.must({"DBSIZE"}).integer, 0);
}

TEST_F(RedisAccessFaultsTest, TheDoctorDoesWithoutConfig) {
  RedisServer server({.config = {"rename-command CONFIG \"\""}});
  const Diagnosis told = diagnose(server.url());
  EXPECT_TRUE(told.healthy) << told.complaints;
  EXPECT_NE(told.complaints.find("the server has no CONFIG"), std::string::npos) << told.complaints;
}

// Not allowed to tell the next holder: that one asks by itself.
TEST_F(RedisAccessFaultsTest, WhoMayNotPublishHandsOnAllTheSame) {
  RedisServer server(
      {.users = {"default off", user_line("+publish"), "chief on nopass ~* &* +@all"}});
  Peer one(server.url({.user = "holdfast", .password = "SECRET"}));
  Peer chief(server.url({.user = "chief", .password = "any"}));
  Lease lease = one.hold("a", 30s);
  Waiter waiter(chief, "a", 30s);
  waiter.await_queued();
  EXPECT_TRUE(lease.release());
  Lease next = waiter.grant(3s);
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(next.release());
  EXPECT_TRUE(one.try_hold("a", 5s));
}

// --- TLS and the Unix socket

TEST_F(RedisAccessFaultsTest, TheMainJobIsDoneOverAUnixSocket) {
  RedisServer server;
  do_the_main_job(server.url({.unix_socket = true}));
}

TEST_F(RedisAccessFaultsTest, TheMainJobIsDoneOverTls) {
  RedisServer server({.tls = RedisTls::kServerOnly});
  do_the_main_job(server.url({.tls = true, .query = {{"tls_ca", tls_files().ca}}}));
}

TEST_F(RedisAccessFaultsTest, TheMainJobIsDoneOverTlsWithAClientsCertificate) {
  RedisServer server({.tls = RedisTls::kClientMustAuthenticate});
  do_the_main_job(server.url({.tls = true,
                              .query = {{"tls_ca", tls_files().ca},
                                        {"tls_cert", tls_files().client.certificate},
                                        {"tls_key", tls_files().client.key}}}));
}

TEST_F(RedisAccessFaultsTest, AServerThatCannotShowWhoItIsIsNotSpokenTo) {
  {
    RedisServer foreign({.tls = RedisTls::kServerOnly, .certificate = tls_files().foreign_server});
    const Error refused =
        refusal(foreign.url({.tls = true, .query = {{"tls_ca", tls_files().ca}}}));
    EXPECT_EQ(refused.code(), Errc::kPermissionDenied) << refused.message();
    EXPECT_EQ(foreign.command_count("auth"), 0);
  }
  RedisServer misnamed({.tls = RedisTls::kServerOnly, .certificate = tls_files().wrong_host});
  const Error refused = refusal(misnamed.url({.tls = true, .query = {{"tls_ca", tls_files().ca}}}));
  EXPECT_EQ(refused.code(), Errc::kPermissionDenied) << refused.message();
  do_the_main_job(misnamed.url(
      {.tls = true, .query = {{"tls_ca", tls_files().ca}, {"tls_name", "elsewhere.invalid"}}}));
}

TEST_F(RedisAccessFaultsTest, AClientWithoutTheRightCertificateIsRefused) {
  RedisServer server({.tls = RedisTls::kClientMustAuthenticate});
  const Error none = refusal(server.url({.tls = true, .query = {{"tls_ca", tls_files().ca}}}));
  EXPECT_TRUE(none.code() == Errc::kPermissionDenied || none.code() == Errc::kUnavailable)
      << none.message();
  const Error foreign =
      refusal(server.url({.tls = true,
                          .query = {{"tls_ca", tls_files().ca},
                                    {"tls_cert", tls_files().foreign_client.certificate},
                                    {"tls_key", tls_files().foreign_client.key}}}));
  EXPECT_TRUE(foreign.code() == Errc::kPermissionDenied || foreign.code() == Errc::kUnavailable)
      << foreign.message();
}

}  // namespace
}  // namespace holdfast::faults
