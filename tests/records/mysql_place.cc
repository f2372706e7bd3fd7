// One MariaDB that syncs, and tables of its own for each case.
#include "tests/records/place.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

support::MariadbServer& server() {
  static support::MariadbServer one(
      {.settings = {"--innodb-flush-log-at-trx-commit=1", "--max-connections=300"}});
  return one;
}

class MysqlPlace final : public Place {
 public:
  std::string url(const std::string& query) const override {
    return with_query(server().url("prefix=" + prefix_), query);
  }
  bool has_clock() const override { return true; }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    server().kill9();
    server().start();
  }
  void pause() override { server().pause(); }
  void resume() override { server().resume(); }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_) + "_";
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"mysql"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<MysqlPlace>(); }

std::string no_place_because() { return support::MariadbServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
