// The conformance suite on the advisory locks, as far as a form of other programs can pass it.
#include <memory>
#include <string>
#include <utility>

#include "src/stores/postgres/postgres_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/eventually.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

support::PostgresServer& server() {
  static support::PostgresServer one;
  return one;
}

// The server frees the locks of a case a moment after its clients have closed.
class RecipeSite final : public Site {
 public:
  explicit RecipeSite(std::string form) : form_(std::move(form)) {
    support::eventually([] {
      return server().sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0\n";
    });
  }
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string url = server().url("recipe=" + form_);
    return stores::make_postgres_store(*port::StoreUrl::parse(url), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(std::min<Duration>(time, 20ms)); }
  void restart() override {
    server().kill9();
    server().start();
  }
  bool own_form() const override { return false; }
  bool holds_many() const override { return form_ != "advisory-xact"; }

 private:
  const std::string form_;
};

StoreUnderTest on_recipe(const std::string& form) {
  const auto site = [form] { return std::make_unique<RecipeSite>(form); };
  return {site, site, &support::PostgresServer::unavailable};
}

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(PostgresAdvisory, on_recipe("advisory"));
HOLDFAST_INSTANTIATE_CONFORMANCE(PostgresAdvisoryXact, on_recipe("advisory-xact"));

}  // namespace holdfast::testing
