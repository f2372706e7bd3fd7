// Locks on etcd against the raw limit of the same server, in the same run. Both sides use gRPC's
// completion queue on one thread.
//
// PairsInFlight: 32 and 256 acquisitions in flight on as many names; pairs per second, beside what
//   the bare transaction that creates a key on one shared lease, and its deletion, reach with as
//   many in flight. The contestants of a round take turns; each figure is the median of the
//   rounds, the ratio the median of the rounds' ratios.
// HandOff: sixteen clients, each with a thread in a blocking acquire(), want one name. From the
// call
//   of release() to the next holder's return from acquire(). Beside it, in turn: a bare watch on a
//   key, from before its deletion is asked for to the event; and a bare read, which is a round
//   trip. `beyond_watch` is (hand-off - watch) / round trip, of the medians.
// Held: what the server is asked in ten seconds for 1 and for 10,000 locks that one client holds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>
#include <grpcpp/create_channel.h>

#include "holdfast/asio.h"
#include "holdfast/client.h"
#include "src/stores/etcd/rpc_impl.h"
#include "tests/support/etcd_server.h"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using support::EtcdCluster;
namespace wire = stores::etcd::wire;

constexpr int kRounds = 5;

double micros_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

EtcdCluster* server(benchmark::State& state) {
  if (const auto why = EtcdCluster::unavailable()) {
    state.SkipWithError(why->c_str());
    return nullptr;
  }
  static EtcdCluster one;
  return &one;
}

// --- Bare.

class Raw {
 public:
  explicit Raw(const EtcdCluster& etcd)
      : channel_(grpc::CreateChannel("ipv4:127.0.0.1:" + std::to_string(etcd.port()),
                                     grpc::InsecureChannelCredentials())) {}

  // One call, waited for.
  template <typename Response, typename Request>
  Response ask(const char* method, const Request& request) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::TemplatedGenericStub<Request, Response> stub(channel_);
    auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    Response response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.error_message().c_str());
    return response;
  }

  std::int64_t grant() {
    wire::LeaseGrantRequest request;
    request.set_ttl(600);
    return ask<wire::LeaseGrantResponse>("/etcdserverpb.Lease/LeaseGrant", request).id();
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

// Chains of create and delete, driven by one thread.
class RawChains {
 public:
  RawChains(Raw& raw, int chains) : raw_(raw), lease_(raw.grant()), calls_(chains) {
    for (int i = 0; i < chains; ++i)
      calls_[static_cast<std::size_t>(i)].key = "raw/" + std::to_string(i);
  }

  double run(int pairs) {
    left_ = pairs;
    running_ = 0;
    const auto begin = Clock::now();
    for (Call& call : calls_) create(call);
    void* tag = nullptr;
    bool ok = false;
    while (running_ > 0 && queue_.Next(&tag, &ok)) {
      Call& call = *static_cast<Call*>(tag);
      --running_;
      if (!call.status.ok()) return 0;
      if (call.creating) {
        remove(call);
      } else {
        create(call);
      }
    }
    return pairs / (micros_since(begin) / 1e6);
  }

 private:
  struct Call {
    std::string key;
    bool creating = false;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<wire::TxnResponse>> txn;
    std::unique_ptr<grpc::ClientAsyncResponseReader<wire::DeleteRangeResponse>> deletion;
    wire::TxnResponse created;
    wire::DeleteRangeResponse deleted;
    grpc::Status status;
  };

  void create(Call& call) {
    if (left_ == 0) return;
    --left_;
    wire::TxnRequest request;
    wire::Compare& compare = *request.add_compare();
    compare.set_target(wire::Compare::CREATE);
    compare.set_key(call.key);
    compare.set_create_revision(0);
    wire::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(call.key);
    put.set_lease(lease_);
    call.creating = true;
    call.context = std::make_unique<grpc::ClientContext>();
    call.created.Clear();
    grpc::TemplatedGenericStub<wire::TxnRequest, wire::TxnResponse> stub(raw_.channel());
    call.txn = stub.PrepareUnaryCall(call.context.get(), "/etcdserverpb.KV/Txn", request, &queue_);
    call.txn->StartCall();
    call.txn->Finish(&call.created, &call.status, &call);
    ++running_;
  }

  void remove(Call& call) {
    wire::DeleteRangeRequest request;
    request.set_key(call.key);
    call.creating = false;
    call.context = std::make_unique<grpc::ClientContext>();
    call.deleted.Clear();
    grpc::TemplatedGenericStub<wire::DeleteRangeRequest, wire::DeleteRangeResponse> stub(
        raw_.channel());
    call.deletion =
        stub.PrepareUnaryCall(call.context.get(), "/etcdserverpb.KV/DeleteRange", request, &queue_);
    call.deletion->StartCall();
    call.deletion->Finish(&call.deleted, &call.status, &call);
    ++running_;
  }

  Raw& raw_;
  const std::int64_t lease_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
  int left_ = 0;
  int running_ = 0;
};

// --- Holdfast.

class Chains {
 public:
  Chains(const Client& client, int chains) : leases_(static_cast<std::size_t>(chains)) {
    for (int i = 0; i < chains; ++i) mutexes_.push_back(client.mutex("bench/" + std::to_string(i)));
  }

  double run(int pairs) {
    left_ = pairs;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < leases_.size(); ++i) next(i);
    io_.restart();
    io_.run();
    return failed_ ? 0 : pairs / (micros_since(begin) / 1e6);
  }

 private:
  void next(std::size_t chain) {
    if (left_ == 0 || failed_) return;
    --left_;
    async_acquire(mutexes_[chain], asio::bind_executor(io_, [this, chain](Result<Lease> lease) {
                    if (!lease) return fail(lease.error());
                    leases_[chain] = *std::move(lease);
                    async_release(*leases_[chain],
                                  asio::bind_executor(io_, [this, chain](const Result<void>& done) {
                                    if (!done) return fail(done.error());
                                    next(chain);
                                  }));
                  }));
  }
  void fail(const Error& error) {
    if (!failed_) std::fprintf(stderr, "%s\n", error.message().c_str());
    failed_ = true;
  }

  asio::io_context io_{1};
  std::vector<Mutex> mutexes_;
  std::vector<std::optional<Lease>> leases_;
  int left_ = 0;
  bool failed_ = false;
};

void PairsInFlight(benchmark::State& state) {
  EtcdCluster* etcd = server(state);
  if (etcd == nullptr) return;
  const int in_flight = static_cast<int>(state.range(0));
  constexpr int kPairs = 4'000;
  auto client = Client::connect(etcd->url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Chains chains(*client, in_flight);
  Raw raw(*etcd);
  RawChains bare(raw, in_flight);
  chains.run(kPairs / 4);
  bare.run(kPairs / 4);
  std::vector<double> ours, theirs, ratios;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      theirs.push_back(bare.run(kPairs));
      ours.push_back(chains.run(kPairs));
      if (ours.back() == 0 || theirs.back() == 0) return state.SkipWithError("a pair failed");
      ratios.push_back(ours.back() / theirs.back());
    }
    state.SetIterationTime(kPairs / median(ours));
  }
  state.counters["pairs_per_s"] = median(ours);
  state.counters["bare_per_s"] = median(theirs);
  state.counters["of_bare"] = median(ratios);  // To be 0.9 at least.
}
BENCHMARK(PairsInFlight)
    ->Arg(32)
    ->Arg(256)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// --- Hand-off.

// From before a deletion is asked for to its event, on a watch of its own.
class RawWatch {
 public:
  explicit RawWatch(const EtcdCluster& etcd) : asks_(etcd), watches_(etcd) {
    grpc::TemplatedGenericStub<wire::WatchRequest, wire::WatchResponse> stub(watches_.channel());
    stream_ = stub.PrepareCall(&context_, "/etcdserverpb.Watch/Watch", &queue_);
    stream_->StartCall(nullptr);
    next();
    wire::WatchRequest request;
    request.mutable_create_request()->set_key("watched");
    stream_->Write(request, nullptr);
    next();
    read();
  }
  ~RawWatch() {
    context_.TryCancel();
    stream_->Finish(&status_, nullptr);
    next();
  }

  double deletion_us() {
    wire::PutRequest put;
    put.set_key("watched");
    asks_.ask<wire::PutResponse>("/etcdserverpb.KV/Put", put);
    read();
    wire::DeleteRangeRequest request;
    request.set_key("watched");
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::TemplatedGenericStub<wire::DeleteRangeRequest, wire::DeleteRangeResponse> stub(
        asks_.channel());
    wire::DeleteRangeResponse response;
    grpc::Status status;
    const auto begin = Clock::now();
    auto call = stub.PrepareUnaryCall(&context, "/etcdserverpb.KV/DeleteRange", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    read();
    const double took = micros_since(begin);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return took;
  }

  double round_trip_us() {
    wire::RangeRequest request;
    request.set_key("watched");
    const auto begin = Clock::now();
    asks_.ask<wire::RangeResponse>("/etcdserverpb.KV/Range", request);
    return micros_since(begin);
  }

 private:
  void next() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }
  void read() {
    wire::WatchResponse response;
    stream_->Read(&response, nullptr);
    next();
  }

  Raw asks_;
  Raw watches_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<wire::WatchRequest, wire::WatchResponse>> stream_;
};

void HandOff(benchmark::State& state) {
  EtcdCluster* etcd = server(state);
  if (etcd == nullptr) return;
  constexpr int kWaiters = 16;
  constexpr int kSamples = 800;
  std::mutex mutex;
  std::vector<double> samples, watches, trips;
  std::atomic<Clock::time_point> released{};
  std::atomic<bool> stop = false;
  RawWatch bare(*etcd);
  std::vector<std::thread> crowd;
  for (auto _ : state) {
    for (int i = 0; i < kWaiters; ++i) {
      crowd.emplace_back([&] {
        auto client = Client::connect(etcd->url());
        if (!client) return;
        Mutex hot = client->mutex("hot");
        while (!stop) {
          auto lease = hot.acquire({.wait = 30s});
          const auto now = Clock::now();
          if (!lease) return;
          const std::lock_guard lock(mutex);
          const auto from = released.load();
          if (from != Clock::time_point{}) {
            samples.push_back(std::chrono::duration<double, std::micro>(now - from).count());
          }
          trips.push_back(bare.round_trip_us());
          watches.push_back(bare.deletion_us());
          if (samples.size() >= kSamples) stop = true;
          released = Clock::now();
          static_cast<void>(lease->release());
        }
      });
    }
    for (std::thread& each : crowd) each.join();
    state.SetIterationTime(median(samples) / 1e6);
  }
  state.counters["hand_off_us_p50"] = median(samples);
  state.counters["watch_us_p50"] = median(watches);
  state.counters["round_trip_us_p50"] = median(trips);
  state.counters["beyond_watch"] =
      (median(samples) - median(watches)) / median(trips);  // 2 at most.
}
BENCHMARK(HandOff)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void Held(benchmark::State& state) {
  EtcdCluster* etcd = server(state);
  if (etcd == nullptr) return;
  auto client = Client::connect(etcd->url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  std::vector<Lease> leases;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    auto lease = client->mutex("held/" + std::to_string(i)).acquire();
    if (!lease) return state.SkipWithError(lease.error().message().c_str());
    leases.push_back(*std::move(lease));
  }
  const auto asked = [&] { return etcd->metric("grpc_server_msg_received_total"); };
  double before = 0;
  for (auto _ : state) {
    before = asked();
    std::this_thread::sleep_for(10s);
    state.SetIterationTime(10);
  }
  state.counters["requests_in_10_s"] = asked() - before;
}
BENCHMARK(Held)->Arg(1)->Arg(10'000)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace holdfast::bench

BENCHMARK_MAIN();
