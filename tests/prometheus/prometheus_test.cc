// A scrape after a day in the life of locks is compared with what the observer was told.
#include "holdfast/prometheus.h"

#include <cmath>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "holdfast/holdfast.h"
#include "tests/support/temp_folder.h"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

// "name{labels}" to its value, as a scrape would read it. Labels stand in the order of their names.
using Scrape = std::map<std::string, double>;

Scrape scrape(const ::prometheus::Registry& registry) {
  Scrape found;
  std::istringstream lines(::prometheus::TextSerializer().Serialize(registry.Collect()));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t gap = line.rfind(' ');
    found[line.substr(0, gap)] = std::stod(line.substr(gap + 1));
  }
  return found;
}

double at(const Scrape& found, const std::string& key) {
  const auto place = found.find(key);
  if (place != found.end()) return place->second;
  std::string all;
  for (const auto& [name, value] : found) all += "\n" + name;
  ADD_FAILURE() << "no " << key << " among" << all;
  return std::nan("");
}

// Passes everything on, and adds up what it should come to.
class Sums final : public Observer {
 public:
  explicit Sums(std::shared_ptr<Observer> next) : next_(std::move(next)) {}
  void acquire_ended(const AcquireSeen& seen) override {
    next_->acquire_ended(seen);
    const std::lock_guard guard(mutex_);
    wait_[seen.outcome] += seen.wait;
    ++waits_[seen.outcome];
  }
  void hold_ended(const HoldSeen& seen) override {
    next_->hold_ended(seen);
    const std::lock_guard guard(mutex_);
    held_ += seen.held;
    ++holds_;
  }
  void renewal_done(const RenewalSeen& seen) override {
    next_->renewal_done(seen);
    const std::lock_guard guard(mutex_);
    late_ += seen.lateness;
    trip_ += seen.round_trip;
    ++renewals_;
  }
  void queue_seen(const QueueSeen& seen) override {
    next_->queue_seen(seen);
    const std::lock_guard guard(mutex_);
    ahead_ += seen.ahead;
    ++queues_;
    queued_.notify_all();
  }
  void await_queued(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(queued_.wait_for(lock, 60s, [&] { return queues_ >= count; }));
  }

  std::mutex mutex_;
  std::condition_variable queued_;
  std::map<AcquireOutcome, std::chrono::nanoseconds> wait_;
  std::map<AcquireOutcome, int> waits_;
  std::chrono::nanoseconds held_{};
  std::chrono::nanoseconds late_{};
  std::chrono::nanoseconds trip_{};
  std::uint32_t ahead_ = 0;
  int holds_ = 0;
  int renewals_ = 0;
  int queues_ = 0;

 private:
  const std::shared_ptr<Observer> next_;
};

double in_seconds(std::chrono::nanoseconds length) {
  return std::chrono::duration<double>(length).count();
}

class PrometheusTest : public ::testing::TestWithParam<std::string> {
 protected:
  Client connect(std::shared_ptr<Observer> observer) const {
    ClientOptions options;
    options.observer = std::move(observer);
    const std::string path = folder_.file("locks.db");
    auto client = Client::connect(GetParam() == "sqlite" ? "sqlite://" + path : "memory:" + path,
                                  std::move(options));
    if (!client) ADD_FAILURE() << client.error().message();
    return client.value();
  }

  const support::TempFolder folder_{"prometheus"};
  std::shared_ptr<::prometheus::Registry> registry_ = std::make_shared<::prometheus::Registry>();
};

std::vector<std::string> stores() {
#if defined(HOLDFAST_STORE_SQLITE)
  return {"memory", "sqlite"};
#else
  return {"memory"};
#endif
}
INSTANTIATE_TEST_SUITE_P(Stores, PrometheusTest, ::testing::ValuesIn(stores()),
                         [](const auto& store) { return store.param; });

// A hold of 20 ms, a wait of 20 ms that ends with a handoff, a try in vain, a wait that ends in
// time, a loss, and a renewal.
void live_a_day(const Client& client, Sums& sums) {
  std::optional<Lease> first = client.mutex("orders/1").acquire().value();
  auto waiting =
      std::async(std::launch::async, [&] { return client.mutex("orders/1").acquire().value(); });
  sums.await_queued(1);
  std::this_thread::sleep_for(20ms);
  ASSERT_FALSE(client.mutex("orders/1").try_acquire().value());
  ASSERT_FALSE(client.mutex("orders/1").acquire({.wait = 10ms}));
  ASSERT_TRUE(first->release());
  ASSERT_TRUE(waiting.get().release());
  Lease renewed = client.mutex("orders/2").acquire({.ttl = 60s}).value();
  ASSERT_TRUE(renewed.renew());
  ASSERT_TRUE(renewed.release());
  const Lease lost = client.mutex("orders/3").acquire({.ttl = 150ms, .auto_renew = false}).value();
  while (lost.held()) std::this_thread::sleep_for(5ms);
  ASSERT_TRUE(client.acquire("readers", Mode::shared()).value().release());
}

TEST_P(PrometheusTest, AScrapeSaysWhatHappened) {
  auto made = make_prometheus_observer(registry_, {.labels = {{"service", "billing"}}});
  ASSERT_TRUE(made) << made.error().message();
  const auto sums = std::make_shared<Sums>(*made);
  live_a_day(connect(sums), *sums);  // The client goes: all is told.

  const Scrape found = scrape(*registry_);
  const std::string store = ",store=\"" + GetParam() + "\"}";
  const std::string lock = "{service=\"billing\",mode=\"exclusive\"" + store;
  const auto outcome = [&](const char* name, const char* word) {
    return std::string(name) + "{service=\"billing\",mode=\"exclusive\",outcome=\"" + word + "\"" +
           store;
  };
  EXPECT_EQ(at(found, outcome("holdfast_acquire_wait_seconds_count", "granted")), 4);
  EXPECT_EQ(at(found, outcome("holdfast_acquire_wait_seconds_count", "busy")), 1);
  EXPECT_EQ(at(found, outcome("holdfast_acquire_wait_seconds_count", "timed_out")), 1);
  EXPECT_NEAR(at(found, outcome("holdfast_acquire_wait_seconds_sum", "timed_out")),
              in_seconds(sums->wait_[AcquireOutcome::kTimedOut]), 1e-6);
  EXPECT_GE(at(found, outcome("holdfast_acquire_wait_seconds_sum", "granted")), 0.03);
  EXPECT_EQ(at(found, "holdfast_handoffs_total" + lock), 1);
  EXPECT_EQ(at(found, "holdfast_hold_seconds_count" + lock), 4);
  EXPECT_GE(at(found, "holdfast_hold_seconds_sum" + lock), 0.03 + 0.13);
  EXPECT_EQ(at(found,
               "holdfast_losses_total{service=\"billing\",mode=\"exclusive\","
               "reason=\"expired\"" +
                   store),
            1);
  EXPECT_EQ(
      at(found,
         "holdfast_losses_total{service=\"billing\",mode=\"exclusive\",reason=\"broken\"" + store),
      0);
  EXPECT_EQ(at(found, "holdfast_queue_length_count" + lock), sums->queues_);
  EXPECT_EQ(at(found, "holdfast_queue_length_sum" + lock), sums->ahead_);
  EXPECT_EQ(at(found, "holdfast_renewal_lateness_seconds_count" + lock), sums->renewals_);
  EXPECT_GE(sums->renewals_, 1);
  EXPECT_NEAR(at(found, "holdfast_renewal_lateness_seconds_sum" + lock), in_seconds(sums->late_),
              1e-6);
  EXPECT_NEAR(at(found, "holdfast_renewal_round_trip_seconds_sum" + lock), in_seconds(sums->trip_),
              1e-6);
  EXPECT_EQ(at(found,
               "holdfast_renewals_total{service=\"billing\",mode=\"exclusive\","
               "result=\"extended\"" +
                   store),
            sums->renewals_);
  EXPECT_EQ(at(found, "holdfast_hold_seconds_count{service=\"billing\",mode=\"shared\"" + store),
            1);
  EXPECT_EQ(at(found, "holdfast_observations_missed_total{service=\"billing\"}"), 0);
  for (const auto& [name, value] : found) {
    EXPECT_EQ(name.find("orders"), name.npos) << "a lock's name is no label: " << name;
  }
}

TEST_P(PrometheusTest, NamesAreLabelsOnlyAsTheFunctionSaysAndOnlySoMany) {
  PrometheusOptions options;
  options.label_of_name = [](std::string_view name) {
    return std::string(name.substr(0, name.find('/')));
  };
  options.most_names = 2;
  const auto observer = make_prometheus_observer(registry_, options).value();
  {
    const Client client = connect(observer);
    for (const char* name : {"orders/1", "orders/2", "stock/1", "third/1", "fourth/1", "stock/2"}) {
      ASSERT_TRUE(client.mutex(name).acquire().value().release());
    }
  }
  const Scrape found = scrape(*registry_);
  const auto count = [&](const std::string& label) {
    return at(found, "holdfast_hold_seconds_count{lock=\"" + label +
                         "\",mode=\"exclusive\",store=\"" + GetParam() + "\"}");
  };
  EXPECT_EQ(count("orders"), 2);
  EXPECT_EQ(count("stock"), 2);
  EXPECT_EQ(count("other"), 2);
}

TEST_P(PrometheusTest, SeveralClientsShareARegistry) {
  for (int i = 0; i < 2; ++i) {
    const Client client = connect(make_prometheus_observer(registry_).value());
    ASSERT_TRUE(client.mutex("orders").acquire().value().release());
  }
  EXPECT_EQ(at(scrape(*registry_),
               "holdfast_hold_seconds_count{mode=\"exclusive\",store=\"" + GetParam() + "\"}"),
            2);
}

TEST(PrometheusOptionsTest, LabelsThatCannotBeAreRefused) {
  const auto registry = std::make_shared<::prometheus::Registry>();
  for (const char* label : {"no label", "mode", "__own", "le", ""}) {
    const auto made = make_prometheus_observer(registry, {.labels = {{label, "x"}}});
    ASSERT_FALSE(made) << label;
    EXPECT_EQ(made.error().code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(make_prometheus_observer(nullptr).error().code(), Errc::kInvalidArgument);
}

TEST(PrometheusOptionsTest, MissedObservationsAreCounted) {
  const auto registry = std::make_shared<::prometheus::Registry>();
  const auto observer = make_prometheus_observer(registry).value();
  observer->missed(3);
  observer->missed(4);
  EXPECT_EQ(at(scrape(*registry), "holdfast_observations_missed_total"), 7);
}

}  // namespace
}  // namespace holdfast
