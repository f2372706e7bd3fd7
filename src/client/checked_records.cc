#include "src/client/checked_records.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/detail/utf8.h"
#include "src/base/printable.h"

namespace holdfast::client {
namespace {

using base::BootInstant;
using port::Record;
using port::Records;

Error bad_key(const std::string& key, const std::string& why) {
  return {Errc::kInvalidArgument, "record '" + base::printable(key.substr(0, 80)) + "': " + why};
}

class CheckedRecords final : public Records {
 public:
  CheckedRecords(std::unique_ptr<Records> store, std::unique_ptr<RecordsLoop> loop,
                 const std::string& name_space)
      : loop_(std::move(loop)),
        store_(std::move(store)),
        prefix_(name_space.empty() ? "" : name_space + "/") {}

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    if (auto good = check(key, "", by); !good) return good.error();
    return store_->read(prefix_ + key, by);
  }
  Result<std::optional<std::uint64_t>> create(const std::string& key, const std::string& text,
                                              BootInstant by) override {
    if (auto good = check(key, text, by); !good) return good.error();
    return store_->create(prefix_ + key, text, by);
  }
  Result<std::optional<std::uint64_t>> replace(const std::string& key, std::uint64_t version,
                                               const std::string& text, BootInstant by) override {
    if (auto good = check(key, text, by); !good) return good.error();
    return store_->replace(prefix_ + key, version, text, by);
  }
  Result<std::optional<std::chrono::milliseconds>> wall_time(BootInstant by) override {
    if (base::BootClock::now() < by) return store_->wall_time(by);
    return Error(Errc::kUnavailable, "the store's time: the deadline had passed; not sent");
  }
  // The server gives those of no namespace of locks.
  bool serves_ids() const override { return prefix_.empty() && store_->serves_ids(); }
  std::string forgets() const override { return store_->forgets(); }

 private:
  Result<void> check(const std::string& key, const std::string& text, BootInstant by) const {
    if (key.empty()) return bad_key(key, "the key is empty");
    if (const std::size_t size = prefix_.size() + key.size(); size > kLongestKey) {
      return bad_key(key, "the key has " + std::to_string(size) +
                              " bytes with its namespace; at most " + std::to_string(kLongestKey) +
                              " are allowed");
    }
    for (std::size_t at = 0; at < key.size();) {
      const detail::CodePoint point = detail::front_code_point(std::string_view(key).substr(at));
      if (point.length == 0 || detail::is_control(point.value)) {
        return bad_key(key, (point.length == 0 ? "the key is not UTF-8 at byte "
                                               : "the key has a control character at byte ") +
                                std::to_string(at));
      }
      at += point.length;
    }
    if (text.size() > kLongestText) {
      return bad_key(key, "the text has " + std::to_string(text.size()) + " bytes; at most " +
                              std::to_string(kLongestText) + " are allowed");
    }
    if (base::BootClock::now() < by) return {};
    return Error(Errc::kUnavailable,
                 "record '" + base::printable(key) + "': the deadline had passed; not sent");
  }

  const std::unique_ptr<RecordsLoop> loop_;  // Outlives the store's records.
  const std::unique_ptr<Records> store_;
  const std::string prefix_;
};

}  // namespace

std::unique_ptr<Records> checked_records(std::unique_ptr<Records> store,
                                         std::unique_ptr<RecordsLoop> loop,
                                         const std::string& name_space) {
  return std::make_unique<CheckedRecords>(std::move(store), std::move(loop), name_space);
}

}  // namespace holdfast::client
