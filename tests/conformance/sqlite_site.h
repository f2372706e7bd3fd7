// A database file of its own whose time passes when the test says so.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "src/stores/sqlite/sqlite_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

class SqliteFile {
 public:
  SqliteFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "holdfast-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
  }
  ~SqliteFile() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  port::StoreUrl url() const {
    return *port::StoreUrl::parse("sqlite://" + directory_ + "/locks.db");
  }

 private:
  std::string directory_;
};

class SqliteSite final : public Site {
 public:
  explicit SqliteSite(bool fast_path = true, std::size_t reach = stores::SqliteTuning().reach)
      : fast_path_(fast_path), reach_(reach) {}

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::SqliteTuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.fast_path = fast_path_;
    tuning.reach = reach_;
    return stores::make_sqlite_store_for_test(file_.url(), context, std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  using Clock = std::atomic<std::int64_t>;
  SqliteFile file_;
  const bool fast_path_;
  const std::size_t reach_;
  std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000'000);
};

}  // namespace holdfast::testing
