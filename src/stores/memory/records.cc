#include "src/stores/memory/records.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::stores {
namespace {

using base::BootInstant;
using port::Record;

class MemoryRecords final : public port::Records {
 public:
  explicit MemoryRecords(std::shared_ptr<MemoryTable> table) : table_(std::move(table)) {}

  Result<std::optional<Record>> read(const std::string& key, BootInstant) override {
    const base::LocalLock lock(table_->mutex);
    const auto found = table_->records.find(key);
    if (found == table_->records.end()) return std::optional<Record>();
    return std::optional(found->second);
  }
  Result<std::optional<std::uint64_t>> create(const std::string& key, const std::string& text,
                                              BootInstant) override {
    const base::LocalLock lock(table_->mutex);
    const bool made = table_->records.emplace(key, Record{text, 1}).second;
    return made ? std::optional<std::uint64_t>(1) : std::nullopt;
  }
  Result<std::optional<std::uint64_t>> replace(const std::string& key, std::uint64_t version,
                                               const std::string& text, BootInstant) override {
    const base::LocalLock lock(table_->mutex);
    const auto found = table_->records.find(key);
    if (found == table_->records.end() || found->second.version != version) {
      return std::optional<std::uint64_t>();
    }
    found->second = {text, version + 1};
    return std::optional(version + 1);
  }
  std::string forgets() const override { return "the records end with this process"; }

 private:
  const std::shared_ptr<MemoryTable> table_;
};

}  // namespace

std::unique_ptr<port::Records> make_memory_records(const std::string& name) {
  return std::make_unique<MemoryRecords>(name.empty() ? std::make_shared<MemoryTable>()
                                                      : find_or_make_memory_table(name));
}

}  // namespace holdfast::stores
