// Segments over a store in memory that answers after 5 ms, as a database in another city does.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "holdfast/ids/segments.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/over_records.h"
#include "src/port/records.h"

namespace holdfast::ids {

class SlowRecords final : public port::Records {
 public:
  using Version = std::optional<std::uint64_t>;

  Result<std::optional<port::Record>> read(const std::string& key, base::BootInstant) override {
    const auto found = all_.find(key);
    if (found == all_.end()) return std::optional<port::Record>();
    return std::optional(found->second);
  }
  Result<Version> create(const std::string& key, const std::string& text,
                         base::BootInstant) override {
    all_[key] = {text, 1};
    return Version(1);
  }
  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          base::BootInstant) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    all_[key] = {text, version + 1};
    return Version(version + 1);
  }
  std::string forgets() const override { return {}; }

 private:
  std::map<std::string, port::Record> all_;
};

// nullptr: the records refused it.
inline std::unique_ptr<Segments> open_slow_segments() {
  auto records = std::make_unique<SlowRecords>();
  if (!create_segments(*records, "bench", {}, base::BootInstant::max())) return nullptr;
  // A range lasts longer than the store takes for the next one.
  const SegmentsOptions options{.step_min = 4'000'000, .step_max = 64'000'000};
  auto opened = SegmentsOverRecords::open(std::move(records), "bench", options);
  return opened ? *std::move(opened) : nullptr;
}

}  // namespace holdfast::ids
