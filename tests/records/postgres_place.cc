// One PostgreSQL that syncs, and a schema of its own for each case.
#include "tests/records/place.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

support::PostgresServer& server() {
  static support::PostgresServer one(
      {.settings = {"fsync=on", "full_page_writes=on", "max_connections=300"}});
  return one;
}

class PostgresPlace final : public Place {
 public:
  std::string url(const std::string& query) const override {
    return with_query(server().url("schema=" + schema_), query);
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
  const std::string schema_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"postgres"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<PostgresPlace>(); }

std::string no_place_because() { return support::PostgresServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
