// Locks on etcd against the raw limit of the same server: contest.h says how.
//
// The bare loop speaks HTTP/2 through nghttp2, from one thread.
#include <memory>
#include <string>

#include "bench/contest.h"
#include "bench/etcd_pairs.h"
#include "bench/etcd_wire.h"
#include "bench/figures.h"
#include "tests/support/etcd_server.h"

namespace holdfast::bench {
namespace {

// From before a deletion is asked for to its event.
class Watch final : public RawWatch {
 public:
  explicit Watch(const EtcdCluster& etcd) : wire_(etcd.port()) {
    wire::WatchRequest request;
    request.mutable_create_request()->set_key("watched");
    watch_.stream = true;
    wire_.start(watch_, "/etcdserverpb.Watch/Watch", request);
    wire_.next<wire::WatchResponse>(watch_);
  }

  double deletion_us() override {
    wire::PutRequest put;
    put.set_key("watched");
    wire_.ask<wire::PutResponse>("/etcdserverpb.KV/Put", put);
    wire_.next<wire::WatchResponse>(watch_);
    wire::DeleteRangeRequest request;
    request.set_key("watched");
    EtcdCall deletion;
    const auto begin = Clock::now();
    wire_.start(deletion, "/etcdserverpb.KV/DeleteRange", request);
    wire_.next<wire::WatchResponse>(watch_);
    const double took = micros_since(begin);
    while (!deletion.ended && wire_.turn()) {
    }
    return took;
  }

  double round_trip_us() override {
    wire::RangeRequest request;
    request.set_key("watched");
    const auto begin = Clock::now();
    wire_.ask<wire::RangeResponse>("/etcdserverpb.KV/Range", request);
    return micros_since(begin);
  }

 private:
  EtcdCall watch_;
  EtcdWire wire_;
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
