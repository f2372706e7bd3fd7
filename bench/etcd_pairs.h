// Bare pairs on etcd: the transaction that creates a key on one shared lease, if it is not there,
// and its deletion, on one connection and one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "bench/etcd_wire.h"
#include "bench/figures.h"
#include "tests/support/etcd_server.h"

namespace holdfast::bench {

using support::EtcdCluster;

// Chains of create and delete.
class EtcdPairs final : public RawPairs {
 public:
  EtcdPairs(const EtcdCluster& etcd, int in_flight)
      : wire_(etcd.port()), lease_(grant()), calls_(static_cast<std::size_t>(in_flight)) {
    for (Call& call : calls_) {
      call.key = "raw/" + std::to_string(&call - calls_.data());
      call.then = [this, &call] { proceed(call); };
    }
  }

  double run(int pairs) override {
    left_ = pairs;
    running_ = 0;
    failed_ = false;
    const auto begin = Clock::now();
    for (Call& call : calls_) create(call);
    while (running_ > 0 && wire_.turn()) {
    }
    return failed_ || running_ > 0 ? 0 : pairs / seconds_since(begin);
  }

 private:
  struct Call : EtcdCall {
    std::string key;
    bool creating = false;
  };

  std::int64_t grant() {
    wire::LeaseGrantRequest request;
    request.set_ttl(600);
    return wire_.ask<wire::LeaseGrantResponse>("/etcdserverpb.Lease/LeaseGrant", request).id();
  }

  void proceed(Call& call) {
    --running_;
    if (!call.ok || (call.creating && !wire_.next<wire::TxnResponse>(call).succeeded())) {
      failed_ = true;
    } else if (call.creating) {
      remove(call);
    } else {
      create(call);
    }
  }

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
    wire_.start(call, "/etcdserverpb.KV/Txn", request);
    ++running_;
  }

  void remove(Call& call) {
    wire::DeleteRangeRequest request;
    request.set_key(call.key);
    call.creating = false;
    wire_.start(call, "/etcdserverpb.KV/DeleteRange", request);
    ++running_;
  }

  EtcdWire wire_;
  const std::int64_t lease_;
  std::vector<Call> calls_;
  int left_ = 0;
  int running_ = 0;
  bool failed_ = false;
};

}  // namespace holdfast::bench
