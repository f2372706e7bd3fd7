// The conformance suite on recipe=row, as far as a form of other programs can pass it.
#include <atomic>

#include "src/stores/mysql/mysql_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

support::MariadbServer& server() {
  static support::MariadbServer one;
  return one;
}

class RowSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(std::min<Duration>(time, 20ms)); }
  void restart() override {
    server().kill9();
    server().start();
  }
  bool own_form() const override { return false; }

 private:
  static inline std::atomic<int> last_{0};
  const std::string url_ = server().url("recipe=row&table=site_" + std::to_string(++last_));
};

const StoreUnderTest kRow{[] { return std::make_unique<RowSite>(); },
                          [] { return std::make_unique<RowSite>(); },
                          &support::MariadbServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(MysqlRow, kRow);

}  // namespace holdfast::testing
