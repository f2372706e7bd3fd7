// Locks on MariaDB against the raw limit of the same server: contest.h says how. MariaDB tells
// nothing to those who wait: where contest.h measures a bare watch, a bare delete is measured here.
//
// A bare pair: a transaction that inserts a row and one that deletes it, on as many connections as
// are in flight, all driven by one thread. Both sides commit to the disk: HOLDFAST_BENCH_FOLDER
// names a folder on one; without it the data are where the tests have theirs, in memory as a rule,
// where a sync costs nothing.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <mysql.h>

#include "bench/contest.h"
#include "bench/figures.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::bench {
namespace {

using support::MariadbServer;

struct Close {
  void operator()(MYSQL* connection) const { ::mysql_close(connection); }
};
using Connection = std::unique_ptr<MYSQL, Close>;

Connection connect(const MariadbServer& server) {
  Connection connection(::mysql_init(nullptr));
  if (::mysql_real_connect(connection.get(), "127.0.0.1", "root", nullptr, "test", server.port(),
                           nullptr, 0) == nullptr) {
    std::fprintf(stderr, "%s\n", ::mysql_error(connection.get()));
  }
  return connection;
}

bool send(MYSQL* to, const std::string& text) {
  return ::mysql_send_query(to, text.data(), text.size()) == 0;
}

bool good(MYSQL* from) {
  const bool read = ::mysql_read_query_result(from) == 0;
  if (!read) std::fprintf(stderr, "%s\n", ::mysql_error(from));
  ::mysql_free_result(::mysql_store_result(from));
  return read;
}

bool ask(MYSQL* to, const std::string& text) { return send(to, text) && good(to); }

// Chains of insert and delete, driven by one thread.
class Pairs final : public RawPairs {
 public:
  Pairs(const MariadbServer& server, int in_flight) {
    server.sql("CREATE TABLE IF NOT EXISTS bare(name VARBINARY(512) PRIMARY KEY, owner BLOB)"
               " ENGINE = InnoDB");
    for (int i = 0; i < in_flight; ++i) {
      Chain& chain = chains_.emplace_back();
      const std::string name = "'bare/" + std::to_string(i) + "'";
      chain.insert = "INSERT INTO bare VALUES (" + name +
                     ", 'an owner of some length, as locks have')";
      chain.erase = "DELETE FROM bare WHERE name = " + name;
      chain.connection = connect(server);
    }
  }

  double run(int pairs) override {
    left_ = pairs;
    running_ = 0;
    const auto begin = Clock::now();
    for (Chain& chain : chains_) insert(chain);
    std::vector<pollfd> sockets;
    for (const Chain& chain : chains_) {
      sockets.push_back({::mysql_get_socket(chain.connection.get()), POLLIN, 0});
    }
    while (running_ > 0) {
      ::poll(sockets.data(), sockets.size(), -1);
      for (std::size_t i = 0; i < sockets.size(); ++i) {
        if (sockets[i].revents != 0 && !go_on(chains_[i])) return 0;
      }
    }
    return pairs / seconds_since(begin);
  }

 private:
  struct Chain {
    std::string insert, erase;
    Connection connection;
    bool inserting = false;
  };

  void insert(Chain& chain) {
    if (left_ == 0) return;
    --left_;
    ++running_;
    chain.inserting = true;
    send(chain.connection.get(), chain.insert);
  }
  // Its answer is one packet.
  bool go_on(Chain& chain) {
    if (!good(chain.connection.get())) return false;
    --running_;
    if (!chain.inserting) return insert(chain), true;
    chain.inserting = false;
    ++running_;
    return send(chain.connection.get(), chain.erase);
  }

  std::vector<Chain> chains_;
  int left_ = 0;
  int running_ = 0;
};

class Watch final : public RawWatch {
 public:
  explicit Watch(const MariadbServer& server) : asks_(connect(server)) {
    ask(asks_.get(), "CREATE TABLE IF NOT EXISTS deleted(name INT PRIMARY KEY) ENGINE = InnoDB");
  }

  double deletion_us() override {
    ask(asks_.get(), "INSERT INTO deleted VALUES (1)");
    const auto begin = Clock::now();
    ask(asks_.get(), "DELETE FROM deleted");
    return micros_since(begin);
  }

  double round_trip_us() override {
    const auto begin = Clock::now();
    ask(asks_.get(), "SELECT 1");
    return micros_since(begin);
  }

 private:
  const Connection asks_;
};

support::MariadbOptions options() {
  support::MariadbOptions options;
  options.tcp = true;
  options.settings = {"--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=64M",
                      "--innodb-buffer-pool-size=128M", "--max-connections=400"};
  const char* folder = std::getenv("HOLDFAST_BENCH_FOLDER");
  if (folder != nullptr) options.data_folder = std::string(folder) + "/data";
  return options;
}

class Mariadb final : public Site {
 public:
  pid_t process() const override { return server_.pid(); }
  std::string url(const std::string& query) const override {
    return "mysql://root@127.0.0.1:" + std::to_string(server_.port()) + "/test" +
           (query.empty() ? "" : "?ttl=6s");
  }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<Pairs>(server_, in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override { return std::make_unique<Watch>(server_); }
  // Statements: several may come in one packet.
  double requests() const override {
    return std::stod(server_.sql("SELECT variable_value FROM information_schema.global_status"
                                 " WHERE variable_name = 'Questions'"));
  }

 private:
  const MariadbServer server_{options()};
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  return bench::run_contest(argc, argv,
                            {.unavailable = support::MariadbServer::unavailable(),
                             .start = [] { return std::make_unique<bench::Mariadb>(); },
                             .in_flight = {1, 16, 256},
                             .pairs_per_round = 2'000,
                             .alone_blocks = true});
}
