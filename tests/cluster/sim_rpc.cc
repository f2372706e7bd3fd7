// The journal's way to etcd over the simulated network: src/stores/etcd/transport/rpc.h, defined
// anew. A call returns when it was answered, or when its time is over.
#include <memory>
#include <optional>
#include <utility>

#include "src/base/random.h"
#include "src/stores/etcd/store_session.h"
#include "src/stores/etcd/transport/errors.h"
#include "src/stores/etcd/transport/rpc.h"
#include "tests/cluster/fiber.h"
#include "tests/cluster/sim_etcd.h"

namespace holdfast::stores::etcd {

using simulation::Process;
using simulation::World;
using testing::cluster::Fiber;
using testing::cluster::SimEtcd;

std::int64_t fresh_lease() {
  return static_cast<std::int64_t>(base::random_128().high & INT64_MAX) | 1;
}

class Rpc::Impl {
 public:
  explicit Impl(Process& its) : process(its) {}

  Process& process;
  std::shared_ptr<bool> open = std::make_shared<bool>(true);
};

Rpc::Rpc(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rpc::~Rpc() { close(); }

Result<std::unique_ptr<Rpc>> Rpc::make(const EtcdAddress&, asio::io_context*) {
  return std::unique_ptr<Rpc>(new Rpc(std::make_shared<Impl>(*World::get().running)));
}

namespace {

Error no_answer(bool reads_only) {
  return {reads_only ? Errc::kUnavailable : Errc::kOutcomeUnknown, "etcd: no answer in time"};
}

Error denial() {
  return to_error({7, "etcdserver: permission denied"}, /*reads_only=*/false, "etcd");
}

}  // namespace

template <typename Request>
void Rpc::call(Request request, How how, Then<typename Method<Request>::Response> then) {
  using Response = typename Method<Request>::Response;
  World& world = World::get();
  Fiber* const fiber = Fiber::current();
  Process* const process = &impl_->process;
  // The journal does not retry after this one.
  if (fiber == nullptr || world.closing) return then(Error(Errc::kPermissionDenied, "closing"));
  const auto answer = std::make_shared<std::optional<Result<Response>>>();
  const auto finish = [answer, process, fiber](Result<Response> result) {
    if (*answer) return;
    answer->emplace(std::move(result));
    process->post(Process::kRenewal, [fiber] { fiber->resume(); });
  };
  world.at(process->to_true(how.deadline),
           [finish, reads_only = how.reads_only] { finish(no_answer(reads_only)); });
  if (world.loses && world.percent(1)) {
    world.after(world.upto(std::chrono::milliseconds(2)),
                [finish] { finish(Error(Errc::kUnavailable, "etcd: no connection")); });
  } else {
    // All copies of a request are denied, or none is.
    const auto denied = std::make_shared<std::optional<bool>>();
    SimEtcd::get().carry(*process, [request, process, finish, denied, reads_only = how.reads_only] {
      if (!*denied) *denied = SimEtcd::get().denies(*process);
      if (**denied) return simulation::Task([finish] { finish(denial()); });
      auto result = SimEtcd::get().apply(request);
      // As transport/errors.h has it.
      if (reads_only && !result && result.error().code() == Errc::kOutcomeUnknown) {
        result = Error(Errc::kUnavailable, result.error().message());
      }
      return simulation::Task([finish, result] { finish(result); });
    });
  }
  while (!*answer && !world.closing) fiber->block();
  then(*answer ? **answer : Result<Response>(no_answer(how.reads_only)));
}

template void Rpc::call(wire::RangeRequest, How, Then<wire::RangeResponse>);
template void Rpc::call(wire::TxnRequest, How, Then<wire::TxnResponse>);
template void Rpc::call(wire::CompactionRequest, How, Then<wire::CompactionResponse>);
template void Rpc::call(wire::LeaseGrantRequest, How, Then<wire::LeaseGrantResponse>);
template void Rpc::call(wire::LeaseRevokeRequest, How, Then<wire::LeaseRevokeResponse>);
template void Rpc::call(wire::StatusRequest, How, Then<wire::StatusResponse>);

// Nothing that is simulated depends on the members.
template <>
void Rpc::call(wire::MemberListRequest, How, Then<wire::MemberListResponse> then) {
  then(Error(Errc::kUnavailable, "etcd: no such call here"));
}

// It does not block: the loop calls it.
void Rpc::keep_alive(std::size_t, std::int64_t lease, base::BootInstant deadline,
                     Then<std::int64_t> then) {
  World& world = World::get();
  Process* const process = &impl_->process;
  const auto open = std::make_shared<bool>(true);
  const auto finish = [process, then = std::move(then), open,
                       ours = impl_->open](const Result<std::int64_t>& left) {
    if (!std::exchange(*open, false)) return;
    process->post(Process::kNotifier, [then, left, ours] {
      if (*ours) then(left);
    });
  };
  world.at(process->to_true(deadline), [finish] { finish(no_answer(/*reads_only=*/false)); });
  if (SimEtcd::get().confirms_alone(*process)) {
    return world.after(world.upto(std::chrono::milliseconds(2)), [finish] { finish(2); });
  }
  SimEtcd::get().carry(*process, [lease, finish] {
    return [finish, left = SimEtcd::get().keep_alive(lease)] { finish(left); };
  });
}

std::uint64_t Rpc::watch(std::string, std::string, std::function<void(const WatchNews&)>) {
  return 1;
}
void Rpc::end_watch(std::uint64_t) {}
std::size_t Rpc::servers() const { return 1; }
void Rpc::close() { *impl_->open = false; }

}  // namespace holdfast::stores::etcd
