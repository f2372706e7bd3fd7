// A lock service of its own, in this process and over real sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "holdfast/server.h"
#include "src/server/tuning.h"
#include "src/stores/holdfast/holdfast_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {

// With its journal in SQLite, unless the test names another. It keeps its port over restarts.
class HoldfastSite : public Site {
 public:
  explicit HoldfastSite(server::ServerTuning tuning = {}, std::string journal = {},
                        std::uint32_t shards = 0)
      : tuning_(std::move(tuning)),
        journal_(journal.empty() ? "sqlite:" + folder_.file("data") : std::move(journal)),
        shards_(shards) {
    start();
  }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_holdfast_store(*port::StoreUrl::parse(server_->url()), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override {
    server_.reset();
    start();
  }
  std::string url() const { return server_->url(); }

 private:
  void start() {
    ServerOptions options;
    options.listen = "127.0.0.1:" + std::to_string(port_.number());
    options.journal = journal_;
    options.shards = shards_;
    auto started = server::ServerAccess::start(options, tuning_);
    if (!started) throw std::runtime_error(started.error().message());
    server_ = *std::move(started);
  }

  const server::ServerTuning tuning_;
  support::TempFolder folder_{"holdfast-site"};
  const std::string journal_;
  const std::uint32_t shards_;
  support::ReservedPort port_;
  std::optional<Server> server_;
};

// The same, but time passes when the test says so.
class TimedHoldfastSite final : public HoldfastSite {
 public:
  explicit TimedHoldfastSite(std::string journal = {}, std::uint32_t shards = 0)
      : TimedHoldfastSite(std::make_shared<std::atomic<std::int64_t>>(kStart), std::move(journal),
                          shards) {}

  void pass(Duration time) override { *now_ += time.count(); }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  static constexpr std::int64_t kStart = 1'000'000'000;

  TimedHoldfastSite(std::shared_ptr<std::atomic<std::int64_t>> now, std::string journal,
                    std::uint32_t shards)
      : HoldfastSite(tuning(now), std::move(journal), shards), now_(std::move(now)) {}

  static server::ServerTuning tuning(const std::shared_ptr<std::atomic<std::int64_t>>& now) {
    server::ServerTuning tuning;
    tuning.service.now = [now] { return base::BootInstant(Duration(now->load())); };
    return tuning;
  }

  const std::shared_ptr<std::atomic<std::int64_t>> now_;
};

}  // namespace holdfast::testing
