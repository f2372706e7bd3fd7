// A named memory store and a file for each case.
#include <atomic>

#include <gtest/gtest.h>

#include "src/client/ask.h"
#include "src/stores/sqlite/file/file_system.h"
#include "tests/records/place.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {
namespace {

class MemoryPlace final : public Place {
 public:
  std::string url(const std::string& query) const override { return with_query(name_, query); }
  std::string forgets() const override { return "end with this process"; }

 private:
  static inline std::atomic<int> places_{0};
  const std::string name_ = "memory:records" + std::to_string(++places_);
};

class SqlitePlace final : public Place {
 public:
  std::string url(const std::string& query) const override {
    return with_query("sqlite://" + folder_.file("locks.db"), query);
  }
  std::string forgets() const override {
    const auto system = stores::sqlite::file_system_at(folder_.path());
    return system && system->name == "tmpfs" ? "in memory (tmpfs)" : "";
  }

 private:
  const support::TempFolder folder_{"records"};
};

}  // namespace

std::vector<std::string> stores_under_test() {
#ifdef HOLDFAST_STORE_SQLITE
  return {"memory", "sqlite"};
#else
  return {"memory"};
#endif
}

std::unique_ptr<Place> make_place(const std::string& store) {
  if (store == "memory") return std::make_unique<MemoryPlace>();
  return std::make_unique<SqlitePlace>();
}

std::string no_place_because() { return {}; }

}  // namespace holdfast::testing
