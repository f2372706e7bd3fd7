// Shared by the tests of this store: a folder of their own, a loop, a client with synchronous
// calls, and requests with sensible defaults.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/port/store.h"
#include "src/stores/sqlite/sqlite_store.h"

namespace holdfast::stores::sqlite::testing {

using namespace std::chrono_literals;
using machine::AcquisitionId;
using machine::Instant;
using machine::Mode;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

class TempFolder {
 public:
  // `in`: a folder on the file system to use; /tmp otherwise, or $TMPDIR.
  explicit TempFolder(std::string in = {}) {
    if (in.empty()) in = std::filesystem::temp_directory_path().string();
    std::string pattern = in + "/holdfast-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs what is posted, in order, on a thread of its own.
class TestLoop final : public port::Loop {
 public:
  TestLoop() : thread_([this] { serve(); }) {}
  ~TestLoop() override {
    post(nullptr);
    thread_.join();
  }
  void post(port::Task task) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    ready_.notify_one();
  }

 private:
  void serve() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      ready_.wait(lock, [this] { return !tasks_.empty(); });
      port::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<port::Task> tasks_;
  std::thread thread_;
};

class Pushes final : public port::Listener {
 public:
  void on_push(const port::Push& push) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.push_back(push);
    arrived_.notify_all();
  }
  // The first push about `id`, if one comes within `limit`.
  std::optional<port::Push> wait_for(AcquisitionId id, std::chrono::milliseconds limit = 5s) {
    std::unique_lock<std::mutex> lock(mutex_);
    std::optional<port::Push> found;
    arrived_.wait_for(lock, limit, [&] {
      for (const port::Push& push : seen_) {
        if (push.id == id) found = push;
        if (found) return true;
      }
      return false;
    });
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<port::Push> seen_;
};

inline AcquisitionId new_id() {
  const base::Random128 random = base::random_128();
  return {random.high, random.low};
}

inline base::BootInstant soon(std::chrono::milliseconds limit = 5s) {
  return base::BootClock::now() + limit;
}

inline machine::OwnerPtr owner_named(const std::string& name) {
  machine::OwnerInfo info;
  info.owner = name;
  info.host = "host";
  info.pid = 42;
  info.program = "test";
  info.reason = "because";
  info.since_unix_ms = 1'700'000'000'000;
  return std::make_shared<const machine::OwnerInfo>(info);
}

inline port::AcquireRequest request_for(std::string name, AcquisitionId id = new_id()) {
  port::AcquireRequest request;
  request.name = std::move(name);
  request.id = id;
  request.ttl = 30s;
  request.waiter_ttl = 5s;
  request.owner = owner_named("alice");
  request.deadline = soon();
  return request;
}

// A store with a loop of its own, and calls that wait for their completion.
class TestClient {
 public:
  static Result<std::unique_ptr<TestClient>> open(const std::string& path,
                                                  SqliteTuning tuning = {}) {
    std::unique_ptr<TestClient> client(new TestClient);
    port::StoreUrl url;
    url.scheme = "sqlite";
    url.path = path;
    auto store = make_sqlite_store_for_test(url, {&client->loop_, &client->pushes, "owner"},
                                            std::move(tuning));
    if (!store) return store.error();
    client->store = std::move(*store);
    return client;
  }
  ~TestClient() {
    if (store) store->close(soon(100ms));
  }

  template <typename T, typename Start>
  Result<T> wait(Start start) {
    struct Cell {
      std::mutex mutex;
      std::condition_variable ready;
      std::optional<Result<T>> result;
    };
    auto cell = std::make_shared<Cell>();
    start([cell](Result<T> result) {
      const std::lock_guard<std::mutex> lock(cell->mutex);
      if (cell->result) std::abort();  // Exactly once.
      cell->result = std::move(result);
      cell->ready.notify_all();
    });
    std::unique_lock<std::mutex> lock(cell->mutex);
    if (!cell->ready.wait_for(lock, 20s, [&] { return cell->result.has_value(); })) {
      return Error(Errc::kTimedOut, "test: no completion");
    }
    return *cell->result;
  }

  Result<AcquisitionState> acquire(port::AcquireRequest request) {
    return wait<AcquisitionState>([&](auto done) { store->acquire(std::move(request), done); });
  }
  Result<EndStatus> release(const std::string& name, AcquisitionId id) {
    return wait<EndStatus>([&](auto done) { store->release({name, id, soon()}, done); });
  }
  Result<EndStatus> cancel(const std::string& name, AcquisitionId id) {
    return wait<EndStatus>([&](auto done) { store->cancel({name, id, soon()}, done); });
  }
  Result<std::vector<Result<AcquisitionState>>> renew(std::vector<port::RenewItem> items) {
    return wait<std::vector<Result<AcquisitionState>>>(
        [&](auto done) { store->renew(std::move(items), soon(), done); });
  }
  Result<AcquisitionState> renew(const std::string& name, AcquisitionId id, std::uint64_t seq,
                                 machine::Duration ttl = 30s, machine::Token token = {}) {
    auto results = renew(std::vector<port::RenewItem>{{name, id, seq, ttl, 5s, token}});
    if (!results) return results.error();
    return results->at(0);
  }
  Result<std::optional<LockInfo>> inspect(const std::string& name) {
    return wait<std::optional<LockInfo>>([&](auto done) { store->inspect(name, soon(), done); });
  }
  Result<std::vector<LockInfo>> list(const std::string& prefix, std::size_t limit = 100) {
    return wait<std::vector<LockInfo>>(
        [&](auto done) { store->list(prefix, limit, soon(), done); });
  }

  // The loop goes first of the two: what is still in it may be a push.
  Pushes pushes;

 private:
  TestClient() = default;
  TestLoop loop_;

 public:
  std::unique_ptr<port::Store> store;
};

inline std::unique_ptr<TestClient> open_client(const std::string& path, SqliteTuning tuning = {}) {
  auto client = TestClient::open(path, std::move(tuning));
  if (!client) {
    ADD_FAILURE() << client.error().message();
    return nullptr;
  }
  return std::move(*client);
}

}  // namespace holdfast::stores::sqlite::testing
