#include "tests/conformance/harness.h"
#include "tests/conformance/sqlite_site.h"

namespace holdfast::testing {
namespace {

// As the URL makes it.
class LiveSqliteSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_sqlite_store(file_.url(), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  SqliteFile file_;
};

const StoreUnderTest kSqlite{[] { return std::make_unique<SqliteSite>(); },
                             [] { return std::make_unique<LiveSqliteSite>(); }};
// The same rules where every request goes through the machine.
const StoreUnderTest kSqliteSlowPath{[] { return std::make_unique<SqliteSite>(false); },
                                     [] { return std::make_unique<LiveSqliteSite>(); }};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Sqlite, kSqlite);
HOLDFAST_INSTANTIATE_CONFORMANCE(SqliteSlowPath, kSqliteSlowPath);

}  // namespace holdfast::testing
