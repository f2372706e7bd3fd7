// Locks on ZooKeeper against the raw limit of the same server: contest.h says how.
//
// A bare pair: zoo_acreate of an ephemeral sequential node without data and zoo_adelete of it, each
// chain in a folder of its own; the next request goes out of the library's own callback.
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include <zookeeper/zookeeper.h>

#include "bench/contest.h"
#include "bench/figures.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::bench {
namespace {

using support::ZookeeperServer;

// A handle of the library, connected.
class Handle {
 public:
  explicit Handle(const std::string& servers) {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_ = zookeeper_init(servers.c_str(), nullptr, 30'000, nullptr, nullptr, 0);
    make("/raw");
  }
  ~Handle() { zookeeper_close(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  zhandle_t* get() const { return handle_; }
  void make(const std::string& path) {
    while (zoo_create(handle_, path.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, nullptr,
                      0) == ZCONNECTIONLOSS) {
    }
  }

 private:
  zhandle_t* handle_ = nullptr;
};

class Pairs final : public RawPairs {
 public:
  Pairs(const std::string& servers, int in_flight)
      : chains_(static_cast<std::size_t>(in_flight)), handle_(servers) {
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      const std::string folder = "/raw/" + std::to_string(i);
      handle_.make(folder);
      chains_[i] = {this, folder + "/n-", {}};
    }
  }

  double run(int pairs) override {
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    left_ = pairs;
    running_ = static_cast<int>(chains_.size());
    for (Chain& each : chains_) next(each);
    done_.wait(lock, [this] { return running_ == 0; });
    return failed_ ? 0 : pairs / seconds_since(begin);
  }

 private:
  struct Chain {
    Pairs* all = nullptr;
    std::string prefix;
    std::string node;
  };

  // With the mutex, as everything here.
  void next(Chain& chain) {
    if (left_ == 0 || failed_) return end();
    --left_;
    if (zoo_acreate(handle_.get(), chain.prefix.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE,
                    ZOO_EPHEMERAL_SEQUENTIAL, &Pairs::created, &chain) != ZOK) {
      fail();
    }
  }
  static void created(int rc, const char* path, const void* data) {
    Chain& chain = *static_cast<Chain*>(const_cast<void*>(data));
    const std::lock_guard lock(chain.all->mutex_);
    if (rc != ZOK) return chain.all->fail();
    chain.node = path;
    if (zoo_adelete(chain.all->handle_.get(), path, -1, &Pairs::removed, &chain) != ZOK) {
      chain.all->fail();
    }
  }
  static void removed(int rc, const void* data) {
    Chain& chain = *static_cast<Chain*>(const_cast<void*>(data));
    const std::lock_guard lock(chain.all->mutex_);
    if (rc != ZOK) return chain.all->fail();
    chain.all->next(chain);
  }
  void fail() {
    failed_ = true;
    end();
  }
  void end() {
    if (--running_ == 0) done_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable done_;
  int left_ = 0;
  int running_ = 0;
  bool failed_ = false;
  std::vector<Chain> chains_;
  Handle handle_;  // Its callbacks use the rest: it goes first.
};

class Watch final : public RawWatch {
 public:
  explicit Watch(const std::string& servers) : asks_(servers), watches_(servers) {}

  double deletion_us() override {
    zoo_create(asks_.get(), kNode, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, nullptr, 0);
    told_ = false;
    zoo_wexists(watches_.get(), kNode, &Watch::tell, this, nullptr);
    const auto begin = Clock::now();
    zoo_adelete(
        asks_.get(), kNode, -1, [](int, const void*) {}, nullptr);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return told_; });
    return micros_since(begin);
  }

  double round_trip_us() override {
    const auto begin = Clock::now();
    zoo_exists(asks_.get(), "/raw", 0, nullptr);
    return micros_since(begin);
  }

 private:
  static constexpr const char* kNode = "/raw/watched";

  static void tell(zhandle_t*, int, int, const char*, void* self) {
    Watch& watch = *static_cast<Watch*>(self);
    const std::lock_guard lock(watch.mutex_);
    watch.told_ = true;
    watch.changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
  Handle asks_;
  Handle watches_;
};

class Zookeeper final : public Site {
 public:
  std::string url(const std::string& query) const override { return server_.url("/" + query); }
  pid_t process() const override { return server_.pid(); }
  std::unique_ptr<RawPairs> raw_pairs(int in_flight) override {
    return std::make_unique<Pairs>(server_.servers(), in_flight);
  }
  std::unique_ptr<RawWatch> raw_watch() override {
    return std::make_unique<Watch>(server_.servers());
  }
  double requests() const override {
    return static_cast<double>(server_.figure("zk_packets_received"));
  }

 private:
  ZookeeperServer server_{{.tick = std::chrono::milliseconds(1000)}};
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast;
  return bench::run_contest(argc, argv,
                            {.unavailable = support::ZookeeperServer::unavailable(),
                             .start = [] { return std::make_unique<bench::Zookeeper>(); },
                             .in_flight = {32, 256},
                             .pairs_per_round = 4'000});
}
