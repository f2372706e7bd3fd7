#include "src/sql/records.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "src/sql/blocking_link.h"
#include "src/sql/schema.h"

namespace holdfast::sql {
namespace {

using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

class SqlRecords final : public port::Records {
 public:
  SqlRecords(std::unique_ptr<Dialect> dialect, Link::Settings settings)
      : link_(std::move(dialect), std::move(settings)) {}

  Result<void> open(bool may_create, BootInstant by) {
    const auto now = [&](Request request) { return link_.ask(request, by, /*reads=*/true); };
    const Making making = may_create ? Making::kMissing : Making::kForbidden;
    if (auto prepared = prepare_schema(link_.dialect(), now, making); !prepared) {
      return prepared.error();
    }
    if (auto tried = read("", by); !tried) return tried.error();
    auto losses = link_.forgets(by);
    if (!losses) return losses.error();
    forgets_ = *std::move(losses);
    return {};
  }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const auto rows = link_.ask(link_.dialect().read_record(key), by, /*reads=*/true);
    if (!rows) return rows.error();
    if ((*rows)->size() != 1 || (*rows)->number(0, 0) != 0) {
      link_.reset();  // Another server may be the primary by now.
      return Error(Errc::kUnavailable, link_.where() +
                                           ": this server only reads (a replica?): connect to the "
                                           "primary");
    }
    if ((*rows)->is_null(0, 1)) return std::optional<Record>();
    return std::optional(Record{(*rows)->bytes(0, 2), number(**rows, 1)});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    const auto rows = link_.ask(link_.dialect().create_record(key, text), by, /*reads=*/false);
    if (!rows) return rows.error();
    return (*rows)->size() > 0 ? Version(1) : Version();
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    constexpr auto kNewest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (version >= kNewest) return Version();
    const auto rows =
        link_.ask(link_.dialect().replace_record(key, static_cast<std::int64_t>(version), text), by,
                  /*reads=*/false);
    if (!rows) return rows.error();
    return (*rows)->size() > 0 ? Version(version + 1) : Version();
  }

  Result<std::optional<std::chrono::milliseconds>> wall_time(BootInstant by) override {
    const auto rows = link_.ask(link_.dialect().wall_time(), by, /*reads=*/true);
    if (!rows) return rows.error();
    return std::optional(std::chrono::milliseconds((*rows)->number(0, 0)));
  }

  std::string forgets() const override { return forgets_; }

 private:
  static std::uint64_t number(const Rows& rows, int column) {
    return static_cast<std::uint64_t>(rows.number(0, column));
  }

  BlockingLink link_;
  std::string forgets_;
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(std::unique_ptr<Dialect> dialect,
                                                    Link::Settings link, bool may_create,
                                                    BootInstant open_by) {
  auto made = std::make_unique<SqlRecords>(std::move(dialect), std::move(link));
  if (auto opened = made->open(may_create, open_by); !opened) return opened.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::sql
