#include "src/stores/etcd/journal/journal_shards.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "src/port/service/shards.h"
#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr std::chrono::seconds kReadingShards{10};
constexpr int kShardedFormat = 2;
constexpr int kOneShardFormat = 1;
constexpr std::uint32_t kStandardShards = 8;

class FirstRecord {
 public:
  FirstRecord(const EtcdAddress& address, std::unique_ptr<Rpc> rpc, BootInstant by)
      : where_("journal " + address.display()),
        root_(journal_root(address)),
        rpc_(std::move(rpc)),
        by_(by) {}
  ~FirstRecord() { rpc_->close(); }

  Result<std::uint32_t> fix(std::uint32_t wanted) {
    auto found = read();
    if (!found) return found.error();
    if (!*found && wanted == 1) return 1U;
    if (!*found) {
      const std::uint32_t begun = wanted == 0 ? kStandardShards : wanted;
      if (auto written = write(begun); !written) return written.error();
      // Another server may have been first.
      found = read();
      if (!found) return found.error();
      if (!*found) return Error(Errc::kUnavailable, where_ + ": its first record was not written");
    }
    if (wanted != 0 && wanted != **found) {
      return Error(Errc::kInvalidArgument,
                   where_ + " has " + std::to_string(**found) + " shard(s), not " +
                       std::to_string(wanted) +
                       ": the number is fixed when a journal begins. Leave --shards out");
    }
    return **found;
  }

 private:
  std::string about() const { return root_ + "about"; }

  // nullopt: there is no journal yet.
  Result<std::optional<std::uint32_t>> read() {
    wire::TxnRequest txn;
    *txn.add_success()->mutable_request_range() = one_key(about());
    wire::RangeRequest& parts = *txn.add_success()->mutable_request_range();
    parts.set_key(root_ + "s");
    parts.set_range_end(behind(root_ + "s"));
    parts.set_limit(1);
    parts.set_keys_only(true);
    const auto answer = ask(std::move(txn), /*reads_only=*/true);
    if (!answer) return answer.error();
    if (answer->responses_size() != 2) return Error(Errc::kCorruptState, "etcd: half an answer");
    const wire::RangeResponse& found = answer->responses(0).response_range();
    if (found.kvs_size() > 0) return parse(found.kvs(0).value());
    if (answer->responses(1).response_range().kvs_size() == 0) {
      return std::optional<std::uint32_t>();
    }
    return Error(Errc::kCorruptState,
                 where_ +
                     ": the key 'about' is gone, but its shards are there: restore a backup "
                     "of etcd. To forget all locks, stop every client, and delete the keys "
                     "that begin with " +
                     root_);
  }

  Result<std::optional<std::uint32_t>> parse(const std::string& text) const {
    std::istringstream words(text);
    int format = 0;
    std::uint32_t shards = 0;
    std::string hash;
    words >> format;
    if (words && format == kOneShardFormat) return std::optional<std::uint32_t>(1);
    if (words && format != kShardedFormat) {
      return Error(Errc::kVersionMismatch, where_ + " has format " + std::to_string(format) +
                                               ", which this version does not know; upgrade");
    }
    words >> shards >> hash;
    if (!words || shards < 2 || shards > port::kMostShards) {
      return Error(Errc::kCorruptState, where_ + ": the key 'about' is damaged");
    }
    if (hash != port::kShardHash) {
      return Error(Errc::kVersionMismatch,
                   where_ + " spreads names by '" + hash + "', which this version does not know");
    }
    return std::optional(shards);
  }

  // Also succeeds when another server was first.
  Result<void> write(std::uint32_t wanted) {
    wire::TxnRequest txn;
    compare_created(txn, about(), 0);
    put(txn, about(),
        std::to_string(kShardedFormat) + ' ' + std::to_string(wanted) + ' ' +
            std::string(port::kShardHash),
        0);
    const auto answer = ask(std::move(txn), /*reads_only=*/false);
    // The reading that follows tells what became of it.
    if (answer || answer.error().code() == Errc::kOutcomeUnknown) return {};
    return answer.error();
  }

  Result<wire::TxnResponse> ask(wire::TxnRequest txn, bool reads_only) {
    const auto told = std::make_shared<std::promise<Result<wire::TxnResponse>>>();
    auto answer = told->get_future();
    rpc_->call(std::move(txn), How{by_, reads_only, std::nullopt},
               [told](Result<wire::TxnResponse> result) { told->set_value(std::move(result)); });
    return answer.get();
  }

  const std::string where_;
  const std::string root_;
  const std::unique_ptr<Rpc> rpc_;
  const BootInstant by_;
};

}  // namespace

Result<std::uint32_t> fix_shards(const EtcdAddress& address, std::uint32_t wanted, BootInstant by) {
  auto rpc = Rpc::make(address);
  if (!rpc) return rpc.error();
  return FirstRecord(address, *std::move(rpc), std::min(by, BootClock::now() + kReadingShards))
      .fix(wanted);
}

}  // namespace holdfast::stores::etcd
