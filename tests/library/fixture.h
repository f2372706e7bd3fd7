// The tests of the public library share this: one fresh place per test, on every store.
#pragma once

#include <algorithm>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/holdfast.h"
#include "src/base/clock.h"

namespace holdfast::testing {

using namespace std::chrono_literals;

// No answer may take so long; a test that waits this long fails.
constexpr auto kPatience = 10s;

// A directory that goes with its owner. In memory where the host has that, since these tests time
// leases, and a disk that is busy with a build can stand still for longer than those last.
class TempDirectory {
 public:
  TempDirectory() {
    const std::string memory = "/dev/shm";
    const bool in_memory = ::access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        (in_memory ? memory : std::filesystem::temp_directory_path().string()) + "/holdfast-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Client connect_or_die(const std::string& url, ClientOptions options = {}) {
  auto client = Client::connect(url, std::move(options));
  if (!client) {
    ADD_FAILURE() << url << ": " << client.error().message();
    std::abort();
  }
  return *std::move(client);
}

// Not below the session's length, where leases live by sessions.
inline std::chrono::milliseconds shortest_ttl(const Client& client, std::chrono::milliseconds ttl) {
  return client.guarantees().bound_to_client ? std::max(ttl, client.guarantees().min_ttl) : ttl;
}

template <typename T>
::testing::AssertionResult fails_with(const Result<T>& result, Errc code) {
  if (result) return ::testing::AssertionFailure() << "it did not fail";
  if (result.error().code() == code) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << errc_name(result.error().code()) << ": " << result.error().message();
}

// True once the token fires; false when it does not in time.
inline bool fires(std::stop_token token, std::chrono::milliseconds within = kPatience) {
  std::promise<void> fired;
  const std::stop_callback note(std::move(token), [&] { fired.set_value(); });
  return fired.get_future().wait_for(within) == std::future_status::ready;
}

// Where the locks of one test live.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::string url() const = 0;
};

// Each program tests its own places: local_places.cc and redis_places.cc define them.
std::vector<std::string> stores_under_test();
std::unique_ptr<Place> make_place(const std::string& store);
// Why there can be none here; empty: there can.
std::string no_place_because();
// Why these stores cannot support a case ("LeaseTest.ADetachedLeaseRunsOut"); empty: they can.
std::string not_supported_because(const std::string& test_case);

// The parameter is the scheme of the store.
class LibraryTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = no_place_because(); !why.empty())
      GTEST_SKIP() << "SKIPPED: " << why;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string suite = test->test_suite_name();  // "Stores/LeaseTest"
    const std::string name = test->name();              // "ADetachedLeaseRunsOut/etcd"
    const std::string why = not_supported_because(suite.substr(suite.find('/') + 1) + "." +
                                                  name.substr(0, name.find('/')));
    if (!why.empty()) GTEST_SKIP() << "skipped by capability: " << why;
    place_ = make_place(GetParam());
  }
  // Several clients of one test meet in the same place.
  std::string url() const { return place_->url(); }
  // With one more option.
  std::string url(const std::string& option) const {
    return url() + (url().find('?') == std::string::npos ? "?" : "&") + option;
  }
  Client connect(ClientOptions options = {}) const {
    return connect_or_die(url(), std::move(options));
  }
  // Two clients in the same place, connected when first named, on whichever thread.
  Client& one() { return connected(one_); }
  Client& two() { return connected(two_); }
  static Lease take(Mutex mutex, AcquireOptions options = {}) {
    auto lease = mutex.acquire(std::move(options));
    if (!lease) {
      ADD_FAILURE() << lease.error().message();
      std::abort();
    }
    return *std::move(lease);
  }
  static bool is_free(Mutex mutex) {
    auto tried = mutex.try_acquire();
    EXPECT_TRUE(tried) << tried.error().message();
    if (!tried || !*tried) return false;
    // Waited for: a later look of the same client must not find this one.
    EXPECT_TRUE((*tried)->release());
    return true;
  }

 private:
  std::unique_ptr<Place> place_;
  Client& connected(std::optional<Client>& client) {
    const std::lock_guard lock(connecting_);
    return client ? *client : client.emplace(connect());
  }

  std::mutex connecting_;
  std::optional<Client> one_;
  std::optional<Client> two_;
};

#define HOLDFAST_ON_EVERY_STORE(Suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(Stores, Suite,                                                 \
                           ::testing::ValuesIn(::holdfast::testing::stores_under_test()), \
                           [](const auto& store) { return store.param; })

}  // namespace holdfast::testing
