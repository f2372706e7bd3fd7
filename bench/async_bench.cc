// The core's own cost per acquire and release through the asynchronous calls, on the memory store:
// one caller, 256 in flight from one thread, and the same with every request by way of the loop
// (as for stores behind a socket). The blocking pair stands beside them, for the ratio.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <benchmark/benchmark.h>

#include "holdfast/asio.h"
#include "src/session/core.h"
#include "src/stores/memory/memory_store.h"

namespace holdfast {
namespace {

void BlockingPair(benchmark::State& state) {
  auto client = Client::connect("memory:").value();
  Mutex mutex = client.mutex("bench");
  for (auto _ : state) {
    auto lease = mutex.try_acquire();
    if (!lease || !*lease || !(*lease)->release()) {
      state.SkipWithError("a free lock was not granted and released");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BlockingPair)->UseRealTime();

// A caller that takes and releases its own name again and again.
struct Caller {
  Mutex mutex;
  asio::io_context& io;
  std::int64_t& left;

  void next() {
    if (left <= 0) return;
    --left;
    async_acquire(mutex, AcquireOptions(), asio::bind_executor(io, [this](Result<Lease> got) {
                    if (!got) std::abort();
                    async_release(*got, asio::bind_executor(io, [this](const Result<void>& done) {
                      if (!done) std::abort();
                      next();
                    }));
                  }));
  }
};

void AsyncPairs(benchmark::State& state) {
  constexpr std::int64_t kPairs = 4096;
  auto client = Client::connect("memory:").value();
  asio::io_context io(1);
  std::int64_t left = 0;
  std::vector<Caller> callers;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    callers.push_back({client.mutex("bench/" + std::to_string(i)), io, left});
  }
  for (auto _ : state) {
    left = kPairs;
    for (Caller& caller : callers) caller.next();
    io.run();
    io.restart();
  }
  state.SetItemsProcessed(state.iterations() * kPairs);
}
BENCHMARK(AsyncPairs)->Arg(1)->Arg(256)->UseRealTime();

// The memory store as if it were far away: every request by way of the loop.
class FarStore final : public port::Store {
 public:
  explicit FarStore(std::unique_ptr<port::Store> store) : store_(std::move(store)) {}
  Guarantees guarantees() const override { return store_->guarantees(); }
  void acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) override {
    store_->acquire(std::move(request), std::move(done));
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<std::vector<Result<port::AcquisitionState>>> done) override {
    store_->renew(std::move(items), deadline, std::move(done));
  }
  void release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override {
    store_->release(std::move(request), std::move(done));
  }
  void cancel(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override {
    store_->cancel(std::move(request), std::move(done));
  }
  void close(base::BootInstant deadline) override { store_->close(deadline); }
  void abandon_after_fork() noexcept override {}
  // Not asked for here.
  void downgrade(port::AcquisitionRequest, port::Done<port::AcquisitionState>) override {}
  void inspect(std::string, base::BootInstant, port::Done<std::optional<LockInfo>>) override {}
  void list(std::string, std::size_t, base::BootInstant,
            port::Done<std::vector<LockInfo>>) override {}
  void break_lock(port::BreakRequest, port::Done<bool>) override {}
  void probe(base::BootInstant, port::Done<std::vector<Finding>>) override {}
  void set_value(port::AcquisitionRequest, std::string, port::Done<bool>) override {}
  void get_value(std::string, base::BootInstant, port::Done<std::string>) override {}
  void resize(port::AcquisitionRequest, std::uint32_t, port::Done<bool>) override {}

 private:
  std::unique_ptr<port::Store> store_;
};

Result<std::unique_ptr<port::Store>> make_far(port::StoreUrl url,
                                              const port::StoreContext& context) {
  auto near = stores::make_memory_store(std::move(url), context);
  if (!near) return near.error();
  return std::unique_ptr<port::Store>(std::make_unique<FarStore>(*std::move(near)));
}

// A bare user of the core: what asio.h adds is in AsyncPairs.
struct FarCaller {
  session::Core& core;
  std::string name;
  asio::io_context& io;
  std::int64_t& left;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{};

  void start() {
    work.emplace(io.get_executor());
    next();
  }
  void next() {
    if (left <= 0) return work.reset();
    --left;
    core.acquire(name, Mode::exclusive(), {}, /*may_wait=*/true,
                 [this](Result<session::Core::AcquisitionPtr> got) {
                   asio::post(io, [this, held = *std::move(got)] { release(held); });
                 });
  }
  void release(const session::Core::AcquisitionPtr& held) {
    core.release(held, [this, held](const Result<void>&) {
      held->core = nullptr;
      asio::post(io, [this] { next(); });
    });
  }
};

void CorePairsByTheLoop(benchmark::State& state) {
  constexpr std::int64_t kPairs = 4096;
  auto core =
      session::Core::make(&make_far, port::StoreUrl::parse("memory:").value(), {"memory:", {}, {}})
          .value();
  asio::io_context io(1);
  std::int64_t left = 0;
  std::vector<FarCaller> callers;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    callers.push_back({*core, "bench/" + std::to_string(i), io, left});
  }
  for (auto _ : state) {
    left = kPairs;
    for (FarCaller& caller : callers) caller.start();
    io.run();
    io.restart();
  }
  state.SetItemsProcessed(state.iterations() * kPairs);
}
BENCHMARK(CorePairsByTheLoop)->Arg(1)->Arg(256)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace holdfast
