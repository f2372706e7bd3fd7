// The conformance suite behind a transaction pooler, which gives each statement any session of the
// server: nothing notifies, no statement is prepared, and waiters poll.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "src/stores/postgres/postgres_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/eventually.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

support::PostgresServer& server() {
  static support::PostgresServer one(
      {.tcp = true, .settings = {"fsync=on", "full_page_writes=on", "autovacuum=on"}});
  return one;
}

const support::Pgbouncer& pooler() {
  static const support::Pgbouncer one(server().port());
  return one;
}

class PooledSite final : public Site {
 public:
  // `injected`: time passes when the test says so.
  explicit PooledSite(bool injected) : injected_(injected) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    sql::Tuning tuning;
    if (injected_) {
      tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    }
    Result<std::unique_ptr<port::Store>> opened = Error(Errc::kUnavailable, "never tried");
    // The pooler may not listen yet, or tell once that the server was killed.
    support::eventually([&] {
      opened = stores::make_postgres_store_for_test(*port::StoreUrl::parse(url_), context, tuning);
      return opened || opened.error().code() != Errc::kUnavailable;
    });
    return opened;
  }
  void pass(Duration time) override {
    if (!injected_) return std::this_thread::sleep_for(time);
    *now_ += time.count();
  }
  void restart() override {
    server().kill9();
    server().start();
  }
  bool tells_broken_holders() const override { return false; }
  bool tells_values() const override { return false; }

 private:
  using Clock = std::atomic<std::int64_t>;
  static inline std::atomic<int> last_{0};
  const bool injected_;
  const std::string url_ = "postgres://postgres@127.0.0.1:" + std::to_string(pooler().port()) +
                           "/postgres?schema=pooled_" + std::to_string(++last_);
  const std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000'000);
};

std::optional<std::string> unavailable() {
  const auto why = support::PostgresServer::unavailable();
  return why ? why : support::Pgbouncer::unavailable();
}

const StoreUnderTest kPooled{[] { return std::make_unique<PooledSite>(/*injected=*/true); },
                             [] { return std::make_unique<PooledSite>(/*injected=*/false); },
                             &unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(PostgresPooler, kPooled);

}  // namespace holdfast::testing
