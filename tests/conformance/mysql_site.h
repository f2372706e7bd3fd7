// Tables of its own on one MariaDB or MySQL server: MysqlSite, where time passes when the test says
// so, and LiveMysqlSite, as the URL makes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "src/stores/mysql/mysql_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {

inline support::MariadbServer& mariadb_server() {
  static support::MariadbServer one({.settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

class MysqlSite final : public Site {
 public:
  explicit MysqlSite(bool fast_path = true, support::MariadbServer& server = mariadb_server())
      : server_(server), fast_path_(fast_path) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    sql::Tuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.fast_path = fast_path_;
    return stores::make_mysql_store_for_test(*port::StoreUrl::parse(url_), context,
                                             std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  void restart() override {
    server_.kill9();
    server_.start();
  }
  bool tells_broken_holders() const override { return false; }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  using Clock = std::atomic<std::int64_t>;
  static inline std::atomic<int> last_{0};
  support::MariadbServer& server_;
  const std::string url_ = server_.url("prefix=site_" + std::to_string(++last_));
  const bool fast_path_;
  const std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000'000);
};

class LiveMysqlSite final : public Site {
 public:
  explicit LiveMysqlSite(support::MariadbServer& server = mariadb_server()) : server_(server) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override {
    server_.kill9();
    server_.start();
  }
  bool tells_broken_holders() const override { return false; }

 private:
  static inline std::atomic<int> last_{0};
  support::MariadbServer& server_;
  const std::string url_ = server_.url("prefix=live_" + std::to_string(++last_));
};

}  // namespace holdfast::testing
