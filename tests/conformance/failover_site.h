// A chain of two memory stores, whose record was written before: the first use of a new chain waits
// for two leases.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "src/stores/failover/failover_store.h"
#include "src/stores/failover/record.h"
#include "src/stores/failover/url.h"
#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

// Waits until the chain of a new store can be used.
inline Result<std::unique_ptr<port::Store>> when_usable(
    Result<std::unique_ptr<port::Store>> store) {
  if (!store) return store;
  for (const auto until = std::chrono::steady_clock::now() + kPatience;
       std::chrono::steady_clock::now() < until;) {
    const auto asked = std::make_shared<std::promise<bool>>();
    (*store)->inspect("nobody", soon(), [asked](const Result<std::optional<LockInfo>>& info) {
      asked->set_value(info.has_value());
    });
    if (asked->get_future().get()) return store;
    std::this_thread::sleep_for(5ms);
  }
  return Error(Errc::kUnavailable, "the chain did not become usable");
}

class MemoryPlace final : public Site {
 public:
  explicit MemoryPlace(std::string name) : name_(std::move(name)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_memory_store(*port::StoreUrl::parse("memory:" + name_), context);
  }
  void pass(Duration) override {}

 private:
  const std::string name_;
};

class FailoverSite final : public Site {
 public:
  FailoverSite() {
    const auto address = stores::failover::parse_chain_url(*port::StoreUrl::parse(url_));
    stores::failover::ChainRecord record{address->identity, "test", 100, 99, 0, false, 2000, 2000};
    write(last_client_, "../failover/record", to_text(record));
    write(first_client_, "../failover/stamp", stamp_of(record));
  }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::FailoverTuning tuning;
    tuning.chain = {&stores::make_memory_store, &stores::make_memory_store};
    return when_usable(stores::make_failover_store_for_test(*port::StoreUrl::parse(url_), context,
                                                            std::move(tuning)));
  }
  void pass(Duration time) override { std::this_thread::sleep_for(std::min<Duration>(time, 20ms)); }

 private:
  static void write(Client& client, const std::string& name, const std::string& value) {
    const AcquisitionId id{9, 9};
    EXPECT_TRUE(client.acquire({name, id}));
    EXPECT_TRUE(client.set_value(name, id, value));
    EXPECT_TRUE(client.release(name, id));
  }

  static inline int sites_ = 0;
  const std::string name_ = "chain" + std::to_string(++sites_);
  const std::string url_ =
      "failover:?authority=2s&chain=memory:" + name_ + "-first&chain=memory:" + name_ + "-last";
  MemoryPlace first_{name_ + "-first"};
  MemoryPlace last_{name_ + "-last"};
  Client first_client_{first_, "setup"};
  Client last_client_{last_, "setup"};
};

}  // namespace holdfast::testing
