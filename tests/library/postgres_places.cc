// One PostgreSQL for all tests of the program, and a schema of its own for each.
#include "tests/library/fixture.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

support::PostgresServer& server() {
  static support::PostgresServer one(
      {.tcp = true, .settings = {"fsync=on", "full_page_writes=on"}});
  return one;
}

class PostgresPlace final : public Place {
 public:
  std::string url() const override {
    return "postgres://postgres@127.0.0.1:" + std::to_string(server().port()) +
           "/postgres?schema=" + schema_;
  }

 private:
  static inline int places_ = 0;
  const std::string schema_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"postgres"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<PostgresPlace>(); }

std::string no_place_because() { return support::PostgresServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string&) { return {}; }

}  // namespace holdfast::testing
