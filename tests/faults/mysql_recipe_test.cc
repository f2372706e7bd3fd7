// recipe=get-lock, for-update and row: Holdfast beside programs that lock in MySQL or MariaDB by
// the classic statements.
#include <mysql.h>

#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/recipe_scenes.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::faults {
namespace {

using support::MariadbServer;

MariadbServer& server() {
  static MariadbServer one({.tcp = true});
  return one;
}

class Session {
 public:
  Session() : mysql_(mysql_init(nullptr), &mysql_close) {
    if (mysql_real_connect(mysql_.get(), nullptr, "root", nullptr, "test", 0,
                           server().socket_path().c_str(), 0) == nullptr) {
      throw std::runtime_error(mysql_error(mysql_.get()));
    }
  }
  // False: the server refused it.
  bool run(const std::string& text) { return mysql_query(mysql_.get(), text.c_str()) == 0; }
  std::uint64_t changed() { return mysql_affected_rows(mysql_.get()); }
  std::string ask(const std::string& text) {
    if (!run(text)) throw std::runtime_error(mysql_error(mysql_.get()));
    const std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> rows(
        mysql_store_result(mysql_.get()), &mysql_free_result);
    const MYSQL_ROW row = rows ? mysql_fetch_row(rows.get()) : nullptr;
    return row == nullptr || row[0] == nullptr ? "" : row[0];
  }

 private:
  const std::unique_ptr<MYSQL, decltype(&mysql_close)> mysql_;
};

class PlainGetLock final : public PlainProgram {
 public:
  bool try_lock(const std::string& name) override {
    return session_.ask("SELECT GET_LOCK('" + name + "', 0)") == "1";
  }
  bool unlock(const std::string& name) override {
    return session_.ask("SELECT RELEASE_LOCK('" + name + "')") == "1";
  }

 private:
  Session session_;
};

class PlainForUpdate final : public PlainProgram {
 public:
  bool try_lock(const std::string& name) override {
    session_.run("SET innodb_lock_wait_timeout = 1");
    session_.run("INSERT IGNORE INTO locked_row (lock_name) VALUES ('" + name + "')");
    session_.run("START TRANSACTION");
    const std::string select = "SELECT lock_name FROM locked_row WHERE lock_name = '" + name + "'";
    bool got = false;
    try {
      got = session_.ask(select + " FOR UPDATE NOWAIT") == name;
    } catch (const std::runtime_error&) {
    }
    if (!got) session_.run("ROLLBACK");
    return got;
  }
  bool unlock(const std::string&) override { return session_.run("COMMIT"); }

 private:
  Session session_;
};

// As the articles have it: an insert, and an update of what has expired.
class PlainRow final : public PlainProgram {
 public:
  bool try_lock(const std::string& name) override {
    const std::string now = "ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000)";
    if (session_.run("INSERT INTO distributed_lock (lock_name, lock_value, expire_time) VALUES ('" +
                     name + "', 'plain', " + now + " + 60000)")) {
      return true;
    }
    session_.run("UPDATE distributed_lock SET lock_value = 'plain', expire_time = " + now +
                 " + 60000 WHERE lock_name = '" + name + "' AND expire_time < " + now);
    return session_.changed() == 1;
  }
  bool unlock(const std::string& name) override {
    session_.run("DELETE FROM distributed_lock WHERE lock_name = '" + name +
                 "' AND lock_value = 'plain'");
    return session_.changed() == 1;
  }

 private:
  Session session_;
};

std::unique_ptr<PlainProgram> another(const std::string& recipe) {
  if (recipe == "get-lock") return std::make_unique<PlainGetLock>();
  if (recipe == "for-update") return std::make_unique<PlainForUpdate>();
  return std::make_unique<PlainRow>();
}

std::string url_at(std::uint16_t port, const std::string& options) {
  return "mysql://root@127.0.0.1:" + std::to_string(port) + "/test?" + options;
}

class MysqlRecipeTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_MARIADB();
    connect(place().url);  // Makes the table.
  }
  static RecipePlace place(milliseconds session = 15s) {
    return {url_at(server().port(),
                   std::string("recipe=") + GetParam() +
                       "&connect_timeout=30s&session=" + std::to_string(session.count()) + "ms"),
            session, [] { return another(GetParam()); }};
  }
  static bool has_session() { return GetParam() != std::string("row"); }
};

TEST_P(MysqlRecipeTest, ItExcludesAPlainProgramAndIsExcludedByIt) {
  exclude_each_other(place(), "orders/42");
}
TEST_P(MysqlRecipeTest, ALockIsOneLockOverClients) { a_lock_is_one_lock(place(), "a", "b"); }
TEST_P(MysqlRecipeTest, ThreadsOfOneClientTakeTurns) { threads_take_turns(place(), "threads"); }
TEST_P(MysqlRecipeTest, SixteenProcessesNeverOverlap) {
  processes_never_overlap(place(), "crowd", 16);
}
TEST_P(MysqlRecipeTest, AKilledHolderHoldsNoMore) {
  a_killed_holder_holds_no_more(place(1s), "killed");
}
TEST_P(MysqlRecipeTest, AForkedChildLeavesTheLockAlone) {
  a_forked_child_leaves_the_lock_alone(place(1s), "forked");
}
TEST_P(MysqlRecipeTest, APausedHolderIsToldBeforeAnotherHolds) {
  a_paused_holder_is_told_first(place(1s), "paused");
}

TEST_P(MysqlRecipeTest, APartedHolderIsToldBeforeAnotherHolds) {
  support::FaultProxy proxy({.server_port = server().port()});
  Client client = connect(url_at(proxy.port(), std::string("session=1s&recipe=") + GetParam()));
  const auto other = another(GetParam());
  const Lease lease = hold(client, "parted");
  proxy.add({.kind = support::Fault::Kind::kBlackhole});
  proxy.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  ASSERT_TRUE(eventually([&] { return other->try_lock("parted"); }));
  EXPECT_FALSE(lease.held());
  EXPECT_TRUE(other->unlock("parted"));
}

TEST_P(MysqlRecipeTest, AHolderIsToldWhenItsConnectionIsKilled) {
  Client client = connect(place().url);
  Lease lease = hold(client, "ended");
  Session root;
  const std::string ids = root.ask(
      "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE id <> CONNECTION_ID() "
      "AND user = 'root'");
  for (std::size_t at = 0; at < ids.size();) {
    const std::size_t end = std::min(ids.find(',', at), ids.size());
    root.run("KILL " + ids.substr(at, end - at));
    at = end + 1;
  }
  if (has_session()) {
    EXPECT_TRUE(fires(lease.lost()));
    EXPECT_FALSE(lease.held());
    EXPECT_TRUE(eventually([&] { return is_free(client, "ended"); }));
  } else {  // A row does not mind.
    const auto renewed = lease.renew();
    EXPECT_TRUE(renewed) << renewed.error().message();
    expect_released(lease);
  }
}

TEST_P(MysqlRecipeTest, ALostReplyLeavesNothingBehind) {
  support::FaultProxy proxy({.server_port = server().port()});
  RecipePlace by_proxy = place();
  by_proxy.url = url_at(proxy.port(), std::string("connect_timeout=500ms&recipe=") + GetParam());
  a_lost_reply_leaves_nothing_behind(by_proxy, proxy,
                                     GetParam() == std::string("get-lock")     ? "GET_LOCK("
                                     : GetParam() == std::string("for-update") ? "FOR UPDATE NOWAIT"
                                                                               : "NOT EXISTS");
}

TEST_P(MysqlRecipeTest, ItShowsWhoHoldsWhereTheServerTells) {
  Client client = connect(place().url);
  const auto other = another(GetParam());
  ASSERT_TRUE(other->try_lock("shown"));
  const auto shown = client.inspect("shown");
  if (GetParam() == std::string("for-update")) {
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code(), Errc::kUnsupported);
  } else {
    ASSERT_TRUE(shown && *shown) << (shown ? "nobody" : shown.error().message());
    ASSERT_EQ((*shown)->holders.size(), 1U);
    EXPECT_FALSE((*shown)->holders[0].who.owner.empty());
  }
  EXPECT_TRUE(other->unlock("shown"));
}

TEST_P(MysqlRecipeTest, ItPromisesNoMoreThanTheFormGives) {
  Client client = connect(place().url);
  const Guarantees all = client.guarantees();
  EXPECT_FALSE(all.fenced || all.fair || all.shared || all.permits || all.list || all.values);
  EXPECT_TRUE(all.bound_to_client);
  EXPECT_EQ(all.survives_restart, !has_session());
  EXPECT_EQ(client.list().error().code(), Errc::kUnsupported);
  const auto report = client.doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->healthy());
  EXPECT_TRUE(std::any_of(report->findings.begin(), report->findings.end(), [](const auto& each) {
    return each.topic == "recipe" && each.severity == Severity::kWarning;
  }));
}

// Names that a statement or a comparison might take for others.
TEST_P(MysqlRecipeTest, AwkwardNamesAreLocksOfTheirOwn) {
  const bool each_has_one = GetParam() == std::string("for-update");
  Client client = connect(place().url + (each_has_one ? "&connections=20" : ""));
  std::vector<Lease> held;
  const std::vector<std::string> names{"a'b",
                                       "A'b",
                                       "a%b",
                                       "a_b",
                                       "grün",
                                       "grun",
                                       "a\\b",
                                       std::string(64, 'x'),
                                       std::string(65, 'x'),
                                       std::string(256, 'x'),
                                       std::string(255, 'x')};
  for (const std::string& name : names) {
    auto lease = client.mutex(name).try_acquire();
    ASSERT_TRUE(lease) << lease.error().message();
    ASSERT_TRUE(*lease) << name;
    held.push_back(*std::move(*lease));
  }
  const Client second = connect(place().url);
  EXPECT_FALSE(is_free(second, names.back()));
}

INSTANTIATE_TEST_SUITE_P(Recipes, MysqlRecipeTest,
                         ::testing::Values("get-lock", "for-update", "row"), [](const auto& one) {
                           std::string name(one.param);
                           std::erase(name, '-');
                           return name;
                         });

class MysqlRecipeUrlTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
  static Error refusal(const std::string& options) {
    const auto client = Client::connect(url_at(server().port(), options));
    return client ? Error(Errc::kClosed, "it was not refused") : client.error();
  }
};

TEST_F(MysqlRecipeUrlTest, WrongOptionsAreRefusedByName) {
  for (const auto& [options, word] : std::vector<std::pair<std::string, std::string>>{
           {"recipe=advisory", "recipe"},
           {"session=5s", "session needs recipe="},
           {"table=a", "table needs"},
           {"recipe=get-lock&table=a", "table needs"},
           {"recipe=row&connections=3", "connections needs recipe=for-update"},
           {"recipe=for-update&connections=0", "connections"},
           {"recipe=get-lock&sweep=5s", "sweep needs recipe=row"},
           {"recipe=row&table=a;b", "table is a name"},
           {"recipe=row&prefix=a_", "prefix"},
           {"recipe=row&session=10ms", "session"}}) {
    const Error error = refusal(options);
    EXPECT_EQ(error.code(), Errc::kInvalidArgument) << options;
    EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  }
}

TEST_F(MysqlRecipeUrlTest, ALongNameIsHashedAsThePageSays) {
  Client client = connect(url_at(server().port(), "recipe=get-lock"));
  const std::string name(65, 'n');
  const Lease lease = hold(client, name);
  Session other;
  EXPECT_EQ(other.ask("SELECT GET_LOCK(SHA2('" + name + "', 224), 0)"), "0");
}

TEST_F(MysqlRecipeUrlTest, ATableThatCannotServeIsRefused) {
  Session root;
  root.run(
      "CREATE TABLE no_index (lock_name VARCHAR(64), lock_value VARCHAR(64), "
      "expire_time BIGINT)");
  root.run(
      "CREATE TABLE wide_index (lock_name VARCHAR(64), lock_value VARCHAR(64), "
      "expire_time BIGINT, UNIQUE KEY (lock_name, lock_value))");
  root.run(
      "CREATE TABLE by_date (lock_name VARCHAR(64) UNIQUE, lock_value VARCHAR(64), "
      "expire_time DATETIME)");
  root.run("CREATE TABLE no_rows (lock_name VARCHAR(64) PRIMARY KEY) ENGINE = MyISAM");
  for (const auto& [options, word] : std::vector<std::pair<std::string, std::string>>{
           {"recipe=row&table=no_index", "unique index"},
           {"recipe=row&table=wide_index", "unique index"},
           {"recipe=row&table=by_date", "expire_time"},
           {"recipe=for-update&table=no_rows", "MyISAM"}}) {
    const Error error = refusal(options);
    EXPECT_EQ(error.code(), Errc::kCorruptState) << options;
    EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  }
}

TEST_F(MysqlRecipeUrlTest, AClientHoldsAsManyRowsForUpdateAsItHasConnections) {
  Client client = connect(url_at(server().port(), "recipe=for-update&connections=2"));
  Lease first = hold(client, "one");
  Lease second = hold(client, "two");
  const auto third = client.mutex("three").try_acquire();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Errc::kQueueFull);
  expect_released(first);
  EXPECT_TRUE(is_free(client, "three"));
}

// A table that somebody else has made, with a time of another type and a name of 64 characters.
class MysqlRowTest : public MysqlRecipeUrlTest {
 protected:
  void SetUp() override {
    MysqlRecipeUrlTest::SetUp();
    if (IsSkipped()) return;
    root_ = std::make_unique<Session>();
    root_->run(
        "CREATE TABLE IF NOT EXISTS app_lock (lock_name VARCHAR(64) PRIMARY KEY, lock_value "
        "VARCHAR(64) NOT NULL, expire_time BIGINT NOT NULL, create_time BIGINT NOT NULL)");
    root_->run("DELETE FROM app_lock");
  }
  std::string url(const std::string& options = {}) const {
    return url_at(server().port(), "recipe=row&table=app_lock&session=2s" + options);
  }
  // `from_now`: milliseconds.
  void insert(const std::string& name, int from_now) {
    ASSERT_TRUE(root_->run("INSERT INTO app_lock VALUES ('" + name +
                           "', 'theirs', ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) + " +
                           std::to_string(from_now) + ", 0)"));
  }
  std::string rows() { return root_->ask("SELECT GROUP_CONCAT(lock_name) FROM app_lock"); }

  std::unique_ptr<Session> root_;
};

TEST_F(MysqlRowTest, AnExpiredRowIsTakenOverAndAnotherIsNot) {
  insert("over", -1);
  insert("theirs", 60'000);
  Client client = connect(url());
  EXPECT_FALSE(is_free(client, "theirs"));
  Lease lease = hold(client, "over");
  EXPECT_EQ(root_->ask("SELECT COUNT(*) FROM app_lock WHERE lock_name = 'over' AND lock_value <> "
                       "'theirs' AND create_time > 0"),
            "1");
  expect_released(lease);
  EXPECT_EQ(rows(), "theirs");
}

TEST_F(MysqlRowTest, AWaiterTakesOverWhenTheRowExpires) {
  insert("soon", 700);
  Client client = connect(url());
  EXPECT_FALSE(is_free(client, "soon"));
  EXPECT_TRUE(hold(client, "soon").held());
}

TEST_F(MysqlRowTest, AHoldLongerThanTheLeaseKeepsTheRow) {
  Client client = connect(url());
  Lease lease = hold(client, "long");
  const std::string first = root_->ask("SELECT expire_time FROM app_lock");
  ASSERT_TRUE(eventually([&] {
    return root_->ask("SELECT expire_time > " + first + " + 2000 FROM app_lock") == "1";
  }));
  EXPECT_TRUE(lease.held());
  EXPECT_TRUE(root_->run("UPDATE app_lock SET lock_value = 'robbed'"));
  EXPECT_TRUE(fires(lease.lost())) << "by its next renewal";
  EXPECT_FALSE(lease.release());
  EXPECT_EQ(rows(), "long") << "another's row stays";
}

// Another session keeps the row for longer than a statement waits for it.
TEST_F(MysqlRowTest, AReleaseThatMeetsALockTimeoutIsTriedAgainInside) {
  Client client =
      connect(url_at(server().port(), "recipe=row&table=app_lock&session=15s"), 20s);
  Lease lease = hold(client, "kept");
  auto locker = std::async(std::launch::async, [] {
    Session other;
    other.run("START TRANSACTION");
    other.ask("SELECT 1 FROM app_lock FOR UPDATE");
    other.ask("SELECT SLEEP(3)");
    other.run("COMMIT");
  });
  ASSERT_TRUE(eventually([&] {
    return root_->ask("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
                      "'SELECT SLEEP%'") == "1";
  }));
  expect_released(lease);
  EXPECT_EQ(root_->ask("SELECT COUNT(*) FROM app_lock"), "0");
  locker.get();
}

TEST_F(MysqlRowTest, TheSweeperDeletesExpiredRowsOnly) {
  insert("over", -10'000);
  insert("theirs", 60'000);
  Client client = connect(url("&sweep=1s"));
  Lease lease = hold(client, "ours");
  EXPECT_TRUE(eventually([&] { return rows() == "ours,theirs"; }));
  ASSERT_TRUE(lease.renew());
  EXPECT_EQ(rows(), "ours,theirs");
}

TEST_F(MysqlRowTest, ANameLongerThanTheColumnIsRefused) {
  Client client = connect(url());
  const auto tried = client.mutex(std::string(65, 'n')).try_acquire();
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::faults
