#include "src/stores/etcd/records.h"

#include <cstdint>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

class EtcdRecords final : public port::Records {
 public:
  EtcdRecords(const EtcdAddress& address, std::unique_ptr<Rpc> rpc)
      : keys_(address.prefix, /*foreign_recipe=*/false), rpc_(std::move(rpc)) {}
  ~EtcdRecords() override { rpc_->close(); }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    wire::TxnRequest txn;
    txn.add_success()->mutable_request_delete_range()->set_key(keys_.kept("") + "/none");
    *txn.add_success()->mutable_request_range() = one_key(keys_.kept(key));
    const auto answer = ask(std::move(txn), by, /*reads_only=*/true);
    if (!answer) return answer.error();
    if (answer->responses_size() != 2) return Error(Errc::kCorruptState, "etcd: half an answer");
    const wire::RangeResponse& found = answer->responses(1).response_range();
    if (found.kvs_size() == 0) return std::optional<Record>();
    return std::optional(
        Record{found.kvs(0).value(), static_cast<std::uint64_t>(found.kvs(0).mod_revision())});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    wire::TxnRequest txn;
    compare_created(txn, keys_.kept(key), 0);
    put(txn, keys_.kept(key), text, 0);
    return change(std::move(txn), by);
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    // A revision of zero would stand for a key that is not there.
    constexpr auto kNewest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (version == 0 || version > kNewest) return Version();
    wire::TxnRequest txn;
    compare_modified(txn, keys_.kept(key), static_cast<std::int64_t>(version));
    put(txn, keys_.kept(key), text, 0);
    return change(std::move(txn), by);
  }

  std::string forgets() const override { return {}; }

 private:
  Result<Version> change(wire::TxnRequest txn, BootInstant by) {
    const auto answer = ask(std::move(txn), by, /*reads_only=*/false);
    if (!answer) return answer.error();
    if (!answer->succeeded()) return Version();
    return Version(static_cast<std::uint64_t>(answer->header().revision()));
  }

  Result<wire::TxnResponse> ask(wire::TxnRequest txn, BootInstant by, bool reads_only) {
    const auto told = std::make_shared<std::promise<Result<wire::TxnResponse>>>();
    auto answer = told->get_future();
    rpc_->call(std::move(txn), How{by, reads_only, std::nullopt},
               [told](Result<wire::TxnResponse> result) { told->set_value(std::move(result)); });
    return answer.get();
  }

  const Keys keys_;
  const std::unique_ptr<Rpc> rpc_;
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const EtcdAddress& address,
                                                    BootInstant open_by) {
  auto rpc = Rpc::make(address);
  if (!rpc) return rpc.error();
  auto made = std::make_unique<EtcdRecords>(address, *std::move(rpc));
  if (auto tried = made->read("", open_by); !tried) return tried.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::stores::etcd
