// A schema of its own on one PostgreSQL server; time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/stores/postgres/postgres_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {

inline support::PostgresServer& postgres_server() {
  static support::PostgresServer one(
      {.settings = {"fsync=on", "full_page_writes=on", "autovacuum=on"}});
  return one;
}

class PostgresSite final : public Site {
 public:
  explicit PostgresSite(bool fast_path = true) : fast_path_(fast_path) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    sql::Tuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.fast_path = fast_path_;
    return stores::make_postgres_store_for_test(*port::StoreUrl::parse(url_), context,
                                                std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  void restart() override {
    postgres_server().kill9();
    postgres_server().start();
  }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  using Clock = std::atomic<std::int64_t>;
  static inline std::atomic<int> last_{0};
  const std::string url_ = postgres_server().url("schema=site_" + std::to_string(++last_));
  const bool fast_path_;
  const std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000'000);
};

}  // namespace holdfast::testing
