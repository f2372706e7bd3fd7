#include "src/stores/holdfast/records.h"

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/port/records_job.h"
#include "src/stores/holdfast/status.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/transport/direct_link.h"

namespace holdfast::stores::holdfast {
namespace {

using base::BootInstant;
using port::Record;
using redis::Reply;
using Version = std::optional<std::uint64_t>;

std::string words(std::initializer_list<std::string_view> all) {
  std::string wire;
  redis::append_command(wire, std::vector<std::string_view>(all));
  return wire;
}

class ServiceRecords final : public port::Records {
 public:
  explicit ServiceRecords(redis::RemotePtr remote)
      : remote_(std::move(remote)), where_(remote_->address.display()), link_(remote_) {}
  ~ServiceRecords() override { link_.close(); }

  // Also learns what the server forgets.
  Result<void> open(BootInstant by) {
    if (const auto found = remote_->primary->resolve(by); !found) {
      return Error(found.error().code(), where_ + ": " + found.error().message());
    }
    const auto status = ask_status(by);
    if (!status) return status.error();
    if (!status->durable()) {
      forgets_ = where_ + ": its journal is in memory, so a restart forgets everything";
    }
    return {};
  }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const auto reply =
        ask(words({"HF1", "kept", "1", redis::record_key(key)}), named("read", key), by, true);
    if (!reply) return reply.error();
    if (reply->kind == Reply::Kind::kArray && reply->items.empty()) return std::optional<Record>();
    const auto version = reply->items.size() == 2
                             ? detail::parse_number<std::uint64_t>(reply->items[0].text)
                             : std::nullopt;
    if (!version) return redis::no_answer("kept");
    return std::optional(Record{reply->items[1].text, *version});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    return keep(key, 0, text, "create", by);
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    if (version == 0) return Version();  // On the wire it means that there is none yet.
    return keep(key, version, text, "replace", by);
  }

  Result<std::optional<std::chrono::milliseconds>> wall_time(BootInstant by) override {
    const auto status = ask_status(by);
    if (!status) return status.error();
    return status->wall_time;
  }

  bool serves_ids() const override { return true; }
  std::string forgets() const override { return forgets_; }

 private:
  Result<ServiceStatus> ask_status(BootInstant by) {
    const auto reply = ask(words({"HF1", "status", "0"}), where_ + ": status", by, true);
    if (!reply) return reply.error();
    auto status = status_of(*reply);
    if (!status) return Error(status.error().code(), where_ + ": " + status.error().message());
    return status;
  }

  Result<Version> keep(const std::string& key, std::uint64_t version, const std::string& text,
                       const char* what, BootInstant by) {
    constexpr std::string_view kKept = "kept ";
    const auto reply =
        ask(words({"HF1", "keep", "1", redis::record_key(key), std::to_string(version), text}),
            named(what, key), by, false);
    if (!reply) return reply.error();
    if (reply->text == "changed") return Version();
    const auto next = reply->text.starts_with(kKept)
                          ? detail::parse_number<std::uint64_t>(reply->text.substr(kKept.size()))
                          : std::nullopt;
    if (!next) return redis::no_answer("keep");
    return next;
  }

  Result<Reply> ask(const std::string& wire, const std::string& what, BootInstant by,
                    bool reads_only) {
    auto replies = link_.try_take()->call(wire, 1, by, reads_only);
    if (!replies) return replies.error();
    if (!replies->front().is_error()) return std::move(replies->front());
    return redis::to_error(replies->front(), what, reads_only);
  }

  std::string named(const char* what, const std::string& key) const {
    return where_ + ": " + what + " record '" + key + "'";
  }

  const redis::RemotePtr remote_;
  const std::string where_;
  redis::DirectLink link_;
  std::string forgets_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_records(redis::RemotePtr remote,
                                                  const port::StoreContext& context) {
  auto made = std::make_unique<ServiceRecords>(std::move(remote));
  if (auto opened = made->open(context.open_by); !opened) return opened.error();
  return port::answer(*context.records, std::unique_ptr<port::Records>(std::move(made)));
}

}  // namespace holdfast::stores::holdfast
