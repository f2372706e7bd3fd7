// A backend whose loop is the test's own thread, so nothing happens unless the test runs it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/contend/backend.h"
#include "src/port/registry.h"
#include "src/port/store_url.h"
#include "src/stores/zookeeper/backend.h"

namespace holdfast::stores::zookeeper::testing {

using namespace std::chrono_literals;
using base::BootClock;
using base::BootInstant;

constexpr auto kLong = 60s;  // Longer than any answer takes, even on a slow machine.

class HandLoop final : public port::Loop {
 public:
  void post(port::Task task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_all();
  }
  // Whether an unrun task is posted within the limit.
  bool wait_for_post(std::chrono::milliseconds limit = kLong) {
    std::unique_lock lock(mutex_);
    return posted_.wait_for(lock, limit, [this] { return !tasks_.empty(); });
  }
  bool run_one() {
    port::Task task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<port::Task> tasks_;
};

class Rig final : public contend::Events {
 public:
  explicit Rig(const std::string& url) {
    auto parsed = port::StoreUrl::parse(url);
    if (!parsed) throw std::runtime_error(parsed.error().message());
    auto address = parse_zookeeper_url(*parsed);
    if (!address) throw std::runtime_error(address.error().message());
    backend_ = make_backend(*std::move(address), {&loop, nullptr, "", &io, ""});
    backend_->start(this);
    const auto session = wait<contend::SessionView>(
        [&](auto done) { backend_->ensure_session(soon(), std::move(done)); });
    if (!session) throw std::runtime_error(session.error().message());
    epoch = session->epoch;
  }
  ~Rig() override {
    if (backend_) close(nullptr);
  }
  // Closing waits for the loop until the backend has stopped, which is when `stopped` becomes true.
  // Later tasks run after the backend is gone; without `stopped`, before.
  void close(const std::function<bool()>& stopped) {
    std::atomic<bool> closed = false;
    std::thread closing([&] {
      backend_->close(BootClock::now());
      closed = true;
    });
    run_until([&] { return stopped ? stopped() : closed.load(); });
    closing.join();
    backend_.reset();
    while (loop.run_one()) {
    }
  }

  contend::Backend& backend() { return *backend_; }
  static BootInstant soon() { return BootClock::now() + kLong; }

  void run_timers() {
    io.restart();
    io.poll();
  }
  // False if the condition does not become true in time.
  template <typename Condition>
  bool run_until(Condition condition) {
    const BootInstant until = soon();
    while (!condition()) {
      if (BootClock::now() > until) return false;
      run_timers();
      if (loop.wait_for_post(1ms)) loop.run_one();
    }
    return true;
  }

  template <typename T>
  struct Answer {
    std::shared_ptr<std::optional<Result<T>>> result = std::make_shared<std::optional<Result<T>>>();
    bool given() const { return result->has_value(); }
    const Result<T>& get() const { return **result; }
    port::Done<T> done() const {
      return [result = result](Result<T> given) { result->emplace(std::move(given)); };
    }
  };
  template <typename T>
  const Result<T> wait(const std::function<void(port::Done<T>)>& ask) {
    const Answer<T> answer;
    ask(answer.done());
    if (!run_until([&] { return answer.given(); })) throw std::runtime_error("no answer");
    return answer.get();
  }

  // --- What the engine asks for.
  static contend::Key new_key(contend::Shape shape = contend::Shape::kExclusive) {
    const base::Random128 random = base::random_128();
    contend::Key key;
    key.id = {random.high, random.low};
    key.shape = shape;
    return key;
  }
  Answer<contend::Entered> enter(const std::string& lock, const contend::Key& key) {
    Answer<contend::Entered> answer;
    backend_->enter(epoch, lock, key, {}, soon(), answer.done());
    return answer;
  }
  Answer<bool> remove(const std::string& lock, const contend::QueueEntry& place) {
    Answer<bool> answer;
    backend_->remove(epoch, lock, place, soon(), answer.done());
    return answer;
  }
  template <typename T>
  void await(const std::vector<Answer<T>>& answers) {
    const auto given = [](const auto& each) { return each.given(); };
    if (!run_until([&] { return std::all_of(answers.begin(), answers.end(), given); })) {
      throw std::runtime_error("no answer");
    }
  }

  // --- Events.
  void on_session_ended(std::uint64_t ended, const Error&) override { ended_epoch = ended; }
  void on_notify() override {}
  void on_alarm(const std::string&) override {}

  asio::io_context io{1};
  HandLoop loop;  // Drops its tasks before `io` goes.
  std::uint64_t epoch = 0;
  std::uint64_t ended_epoch = 0;

 private:
  std::unique_ptr<contend::Backend> backend_;
};

}  // namespace holdfast::stores::zookeeper::testing
