// The cost that each layer adds to a lock and unlock in one process: the machine alone, the memory
// store's port, and the public API.
#include <memory>
#include <optional>
#include <string>

#include <benchmark/benchmark.h>

#include "holdfast/client.h"
#include "holdfast/observer.h"
#include "src/machine/lock_machine.h"
#include "src/session/loop/event_loop.h"
#include "src/stores/memory/memory_store.h"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

void Layer1Machine(benchmark::State& state) {
  machine::LockMachine machine(machine::Token{0, 1});
  machine::Effects effects;
  std::uint64_t number = 0;
  machine::Acquire acquire;
  acquire.name = "bench";
  acquire.ttl = 30s;
  acquire.waiter_ttl = 5s;
  acquire.owner = std::make_shared<machine::OwnerInfo>();
  for (auto _ : state) {
    const machine::Instant now{machine::Duration(static_cast<std::int64_t>(++number))};
    acquire.id = {1, number};
    effects.clear();
    benchmark::DoNotOptimize(machine.apply({now, acquire}, effects));
    benchmark::DoNotOptimize(
        machine.apply({now, machine::Release{"bench", acquire.id, {}}}, effects));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Layer1Machine);

class NobodyListens : public port::Listener {
  void on_push(const port::Push&) override {}
};

void Layer2MemoryStorePort(benchmark::State& state) {
  session::EventLoop loop([] {});
  NobodyListens listener;
  auto store = stores::make_memory_store(port::StoreUrl::parse("memory:").value(),
                                         {&loop, &listener, "bench"});
  port::AcquireRequest request;
  request.name = "bench";
  request.ttl = 30s;
  request.waiter_ttl = 5s;
  request.owner = std::make_shared<machine::OwnerInfo>();
  std::uint64_t number = 0;
  for (auto _ : state) {
    request.id = {1, ++number};
    request.deadline = base::BootClock::now() + 1s;
    benchmark::DoNotOptimize((*store)->acquire_inline(request));
    benchmark::DoNotOptimize((*store)->release_inline({"bench", request.id, request.deadline}));
  }
  state.SetItemsProcessed(state.iterations());
  (*store)->close(base::BootClock::now());
  loop.stop();
}
BENCHMARK(Layer2MemoryStorePort);

void try_acquire_and_release(benchmark::State& state, ClientOptions options) {
  auto client = Client::connect("memory:", std::move(options)).value();
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

void Layer3MutexTryAcquire(benchmark::State& state) { try_acquire_and_release(state, {}); }
BENCHMARK(Layer3MutexTryAcquire);

// The cost of an observer: its news go to another thread.
void Layer4Observed(benchmark::State& state) {
  ClientOptions options;
  options.observer = std::make_shared<Observer>();
  try_acquire_and_release(state, std::move(options));
}
BENCHMARK(Layer4Observed);

}  // namespace
}  // namespace holdfast
