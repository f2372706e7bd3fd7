// Bare pairs on etcd: the transaction that creates a key on one shared lease, if it is not there,
// and its deletion, on gRPC's completion queue and one thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/create_channel.h>

#include "bench/contest.h"
#include "bench/figures.h"
#include "src/stores/etcd/transport/rpc_impl.h"
#include "tests/support/etcd_server.h"

namespace holdfast::bench {

using support::EtcdCluster;
namespace wire = stores::etcd::wire;

class RawEtcd {
 public:
  explicit RawEtcd(const EtcdCluster& etcd)
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
class EtcdPairs final : public RawPairs {
 public:
  EtcdPairs(const EtcdCluster& etcd, int in_flight)
      : raw_(etcd), lease_(raw_.grant()), calls_(static_cast<std::size_t>(in_flight)) {
    for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i].key = "raw/" + std::to_string(i);
  }

  double run(int pairs) override {
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
    return pairs / seconds_since(begin);
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

  RawEtcd raw_;
  const std::int64_t lease_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
  int left_ = 0;
  int running_ = 0;
};

}  // namespace holdfast::bench
