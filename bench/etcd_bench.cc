// Locks on etcd against the raw limit of the same server: contest.h says how.
//
// Both sides use gRPC's completion queue on one thread.
#include <memory>
#include <string>

#include "bench/contest.h"
#include "bench/etcd_pairs.h"
#include "bench/figures.h"
#include "tests/support/etcd_server.h"

namespace holdfast::bench {
namespace {

// From before a deletion is asked for to its event, on a watch of its own.
class Watch final : public RawWatch {
 public:
  explicit Watch(const EtcdCluster& etcd) : asks_(etcd), watches_(etcd) {
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
  ~Watch() override {
    context_.TryCancel();
    stream_->Finish(&status_, nullptr);
    next();
  }

  double deletion_us() override {
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

  double round_trip_us() override {
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

  RawEtcd asks_;
  RawEtcd watches_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<wire::WatchRequest, wire::WatchResponse>> stream_;
};

class Etcd final : public Site {
 public:
  std::string url(const std::string& query) const override { return etcd_.url(query); }
  pid_t process() const override { return etcd_.pid(); }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<EtcdPairs>(etcd_, in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override { return std::make_unique<Watch>(etcd_); }
  double requests() const override { return etcd_.metric("grpc_server_msg_received_total"); }

 private:
  EtcdCluster etcd_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  return bench::run_contest(argc, argv,
                            {.unavailable = support::EtcdCluster::unavailable(),
                             .start = [] { return std::make_unique<bench::Etcd>(); },
                             .in_flight = {32, 256},
                             .pairs_per_round = 4'000});
}
