#include "src/stores/etcd/records.h"

#include <future>
#include <string>
#include <utility>

#include "holdfast/detail/percent.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootInstant;
using NewVersion = std::optional<std::uint64_t>;

class EtcdRecords final : public port::Records {
 public:
  EtcdRecords(const EtcdAddress& address, std::unique_ptr<Rpc> rpc)
      : root_((address.prefix.empty() ? "" : address.prefix + "/") + "hf1/r/"),
        rpc_(std::move(rpc)) {}
  ~EtcdRecords() override { rpc_->close(); }

  Result<std::optional<port::Record>> read(const std::string& key, BootInstant by) override {
    const auto found = ask(one_key(place_of(key)), by, /*reads_only=*/true);
    if (!found) return found.error();
    if (found->kvs_size() == 0) return std::optional<port::Record>();
    const wire::KeyValue& one = found->kvs(0);
    return std::optional(port::Record{one.value(), static_cast<std::uint64_t>(one.mod_revision())});
  }

  Result<NewVersion> create(const std::string& key, const std::string& text,
                            BootInstant by) override {
    wire::TxnRequest txn;
    compare_created(txn, place_of(key), 0);
    return write(std::move(txn), key, text, by);
  }

  Result<NewVersion> replace(const std::string& key, std::uint64_t version, const std::string& text,
                             BootInstant by) override {
    if (version == 0) return NewVersion();  // To etcd that means a key that is not there.
    wire::TxnRequest txn;
    compare_modified(txn, place_of(key), static_cast<std::int64_t>(version));
    return write(std::move(txn), key, text, by);
  }

  std::string forgets() const override { return {}; }

 private:
  std::string place_of(const std::string& key) const {
    return root_ + detail::percent_encode(key, [](char c) { return c != '%' && c != '/'; });
  }

  Result<NewVersion> write(wire::TxnRequest txn, const std::string& key, const std::string& text,
                           BootInstant by) {
    put(txn, place_of(key), text, /*lease=*/0);
    const auto done = ask(std::move(txn), by, /*reads_only=*/false);
    if (!done) return done.error();
    if (!done->succeeded()) return NewVersion();
    return NewVersion(static_cast<std::uint64_t>(done->header().revision()));
  }

  template <typename Request>
  Result<typename Method<Request>::Response> ask(Request request, BootInstant by, bool reads_only) {
    using Response = typename Method<Request>::Response;
    const auto told = std::make_shared<std::promise<Result<Response>>>();
    auto answer = told->get_future();
    rpc_->call(std::move(request), How{by, reads_only, std::nullopt},
               [told](Result<Response> result) { told->set_value(std::move(result)); });
    return answer.get();
  }

  const std::string root_;
  const std::unique_ptr<Rpc> rpc_;
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const EtcdAddress& address,
                                                    BootInstant open_by) {
  if (address.foreign_recipe) {
    return Error(Errc::kInvalidArgument,
                 "etcd: ids keep their records in Holdfast's own form: leave recipe= out");
  }
  auto rpc = Rpc::make(address);
  if (!rpc) return rpc.error();
  auto records = std::make_unique<EtcdRecords>(address, *std::move(rpc));
  if (const auto tried = records->read("", open_by); !tried) return tried.error();
  return std::unique_ptr<port::Records>(std::move(records));
}

}  // namespace holdfast::stores::etcd
