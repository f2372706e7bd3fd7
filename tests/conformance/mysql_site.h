// Tables of its own on one MariaDB server; time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

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
  explicit MysqlSite(bool fast_path = true) : fast_path_(fast_path) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    sql::Tuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.fast_path = fast_path_;
    return stores::make_mysql_store_for_test(*port::StoreUrl::parse(url_), context,
                                             std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  void restart() override {
    mariadb_server().kill9();
    mariadb_server().start();
  }
  bool tells_broken_holders() const override { return false; }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  using Clock = std::atomic<std::int64_t>;
  static inline std::atomic<int> last_{0};
  const std::string url_ = mariadb_server().url("prefix=site_" + std::to_string(++last_));
  const bool fast_path_;
  const std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000'000);
};

}  // namespace holdfast::testing
