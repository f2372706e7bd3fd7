// The stores that need no server.
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class LocalPlace final : public Place {
 public:
  explicit LocalPlace(bool sqlite) : sqlite_(sqlite) {}
  std::string url() const override {
    if (sqlite_) return "sqlite://" + directory_.path() + "/locks.db";
    return "memory:" + directory_.path();
  }

 private:
  const bool sqlite_;
  TempDirectory directory_;
};

}  // namespace

std::vector<std::string> stores_under_test() {
#if defined(HOLDFAST_STORE_SQLITE)
  return {"memory", "sqlite"};
#else
  return {"memory"};
#endif
}

std::unique_ptr<Place> make_place(const std::string& store) {
  return std::make_unique<LocalPlace>(store == "sqlite");
}

std::string no_place_because() { return {}; }

std::string not_supported_because(const std::string&) { return {}; }

}  // namespace holdfast::testing
