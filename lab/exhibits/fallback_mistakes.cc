// Chains of stores, as articles have them: the next store when one "does not work". In the first
// exhibit that is an outage for one client, in the others nothing is broken at all.
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "tests/support/url_text.h"

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"
#include "lab/exhibits/scripts.h"
#include "lab/exhibits/sqlite.h"

namespace holdfast::lab {
namespace {

using namespace std::chrono_literals;

// A Redis, then a database, in two URLs.
class RedisThenSqlite : public Mistake {
 public:
  explicit RedisThenSqlite(const SubjectSetup& setup)
      : Mistake(setup), url_(setup.urls.at(0)), database_(setup.urls.at(1)) {
    database_.change("CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, owner, until)");
  }

  // [region: fail-over]
  bool take(const Ask& ask, Held& held) override {
    try {
      return RedisClient(url_).set_nx(ask.name, held.value, ask.ttl);
    } catch (const std::runtime_error&) {  // Redis is down: the database is the lock now.
      return insert(ask, held);
    }
  }
  // [end]
  bool give_back(const Held& held) override {
    try {
      if (RedisClient(url_).delete_if(held.name, held.value)) return true;
    } catch (const std::runtime_error&) {
    }
    return database_.change("DELETE FROM locks WHERE name = ?1 AND owner = ?2",
                            {held.name, held.value}) == 1;
  }

 protected:
  bool insert(const Ask& ask, const Held& held) {
    const std::string now = std::to_string(now_ns());
    database_.change("DELETE FROM locks WHERE name = ?1 AND until <= CAST(?2 AS INTEGER)",
                     {ask.name, now});
    return database_.change("INSERT OR IGNORE INTO locks VALUES (?1, ?2, CAST(?3 AS INTEGER))",
                            {ask.name, held.value, std::to_string(held.deadline_ns)}) == 1;
  }

  const std::string url_;

 private:
  Sqlite database_;
};

class FallbackOnBusy : public RedisThenSqlite {
 public:
  using RedisThenSqlite::RedisThenSqlite;

  // [region: fallback-on-busy]
  bool take(const Ask& ask, Held& held) override {
    if (RedisClient(url_).set_nx(ask.name, held.value, ask.ttl)) return true;
    return insert(ask, held);  // Redis did not give the lock: the database may.
  }
  // [end]
};

using Work = std::function<void()>;
using Locked = std::function<void(const Work&)>;  // Runs the work under the lock of one store.

// [region: fallback-on-exception]
void run_under_lock(const std::vector<Locked>& chain, const Work& work) {
  for (const Locked& store : chain) {
    try {
      return store(work);
    } catch (const std::exception&) {
      continue;  // This store does not work: the next one.
    }
  }
}
// [end]

Locked on_redis(const std::string& url) {
  return [url](const Work& work) {
    struct Guard {
      explicit Guard(const std::string& at) : redis(at) {
        if (!redis.set_nx("order", "me", kLong)) throw std::runtime_error("busy");
      }
      ~Guard() { redis.delete_if("order", "me"); }
      RedisClient redis;
    };
    const Guard guard(url);
    work();
  };
}

Locked on_sqlite(const std::string& file) {
  return [file](const Work& work) {
    struct Guard {
      explicit Guard(const std::string& path) : database(path) {
        database.change("CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY)");
        if (database.change("INSERT OR IGNORE INTO locks VALUES ('order')") != 1) {
          throw std::runtime_error("busy");
        }
      }
      ~Guard() { database.change("DELETE FROM locks"); }
      Sqlite database;
    };
    const Guard guard(file);
    work();
  };
}

// The fail-over store over these, with the shortest authority lease that it takes.
std::string chain_of(const std::vector<std::string>& stores) {
  std::string url = "failover:?name=shop&authority=1s&patience=1s&settled=1s";
  for (const std::string& each : stores) url += "&chain=" + support::percent_encoded(each);
  return url;
}

std::vector<std::string> urls_of(Play& play, const std::string& redis) {
  if (play.beside()) return {chain_of({redis, "sqlite://" + play.file("chain.db")})};
  return {redis, "sqlite://" + play.file("locks.db")};
}

}  // namespace

SubjectKind redis_then_sqlite() {
  return mistake<RedisThenSqlite>("redis-then-sqlite", "a database where Redis cannot be reached");
}
SubjectKind fallback_on_busy() {
  return mistake<FallbackOnBusy>("fallback-on-busy", "a database where Redis says no");
}

namespace scripts {

// A chain that is used for the first time waits for two leases, so alice waits, too.
void failover_without_authority(Play& play) {
  support::FaultProxy broken({.server_port = play.house().redis().port()});
  broken.refuse(true);
  Player& alice = play.player("alice", lab::redis_then_sqlite(),
                              urls_of(play, play.house().redis().url()));
  Player& bob = play.player("bob", lab::redis_then_sqlite(),
                            urls_of(play, play.house().redis().url({.port = broken.port()})));
  alice.acquire(kLong, 20s);
  play.begin(FaultKind::kPartition, "bob and redis");
  bob.acquire(kLong);
  sleep_for(kWork);
  alice.write();
  bob.write();
  play.end(FaultKind::kPartition, "bob and redis");
  bob.release();
  alice.release();
}

void fallback_on_busy(Play& play) {
  const std::vector<std::string> urls = urls_of(play, play.house().redis().url());
  Player& alice = play.player("alice", lab::fallback_on_busy(), urls);
  Player& bob = play.player("bob", lab::fallback_on_busy(), urls);
  alice.acquire(kLong, 20s);
  bob.acquire(kLong);
  sleep_for(kWork);
  bob.write();
  alice.write();
  bob.release();
  alice.release();
}

// How many orders were charged more than once. Each charge fails after it was made.
Tally fallback_on_exception(Play& play) {
  constexpr int kOrders = 10;
  const std::vector<std::string> stores = {play.house().node(0).url(), play.house().node(1).url(),
                                           "sqlite://" + play.file("locks.db")};
  const std::vector<Locked> chain = {on_redis(stores[0]), on_redis(stores[1]),
                                     on_sqlite(stores[2])};
  std::optional<Client> client;
  if (play.beside()) {
    auto connected = Client::connect(chain_of(stores));
    if (!connected) throw std::runtime_error(connected.error().message());
    client = *std::move(connected);
  }
  Tally tally;
  for (int order = 0; order < kOrders; ++order) {
    int charges = 0;
    const Work charge = [&charges] {
      ++charges;
      throw std::runtime_error("the receipt could not be printed");
    };
    if (client) {
      const auto lease = client->mutex("order").acquire({.wait = 20s});
      if (!lease) throw std::runtime_error(lease.error().message());
      try {
        charge();
      } catch (const std::runtime_error&) {
        // The caller's own business.
      }
    } else {
      run_under_lock(chain, charge);
      if (charges != 3) throw std::runtime_error("charged " + std::to_string(charges) + " times");
    }
    ++tally.requests;
    if (charges > 1) ++tally.failed;
  }
  return tally;
}

}  // namespace scripts
}  // namespace holdfast::lab
