// The conformance suite on the recipes, as far as forms of other programs can pass it.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "src/stores/mysql/mysql_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

support::MariadbServer& server() {
  static support::MariadbServer one;
  return one;
}

class RecipeSite final : public Site {
 public:
  RecipeSite(std::string form, const std::string& options)
      : form_(std::move(form)), url_(server().url("recipe=" + form_ + options)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(std::min<Duration>(time, 20ms)); }
  void restart() override {
    server().kill9();
    server().start();
  }
  bool own_form() const override { return false; }
  bool shows_holders() const override { return form_ != "for-update"; }
  bool holds_many() const override { return form_ != "for-update"; }

 private:
  const std::string form_;
  const std::string url_;
};

// Each case has a table of its own, where the form has one.
StoreUnderTest on_recipe(const std::string& form) {
  const auto site = [form] {
    static std::atomic<int> last{0};
    const std::string table = "&table=site_" + std::to_string(++last);
    return std::make_unique<RecipeSite>(form, form == "get-lock" ? "" : table);
  };
  return {site, site, &support::MariadbServer::unavailable};
}

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(MysqlRow, on_recipe("row"));
HOLDFAST_INSTANTIATE_CONFORMANCE(MysqlForUpdate, on_recipe("for-update"));
HOLDFAST_INSTANTIATE_CONFORMANCE(MysqlGetLock, on_recipe("get-lock"));

}  // namespace holdfast::testing
