// A client of the backend in a test: it asks on a loop of its own, and waits for each answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/consul/backend.h"
#include "tests/support/consul_server.h"
#include "tests/support/loop_thread.h"

namespace holdfast::stores::consul {

using namespace std::chrono_literals;
using base::BootClock;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::QueueEntry;

inline constexpr auto kSoon = 60s;  // Far above anything that is asserted.

class Party final : public contend::Events {
 public:
  explicit Party(const std::string& url) {
    auto parsed = port::StoreUrl::parse(url);
    context_.loop = &loop_;
    context_.owner = "test";
    context_.io = &loop_.io;
    backend_ = std::make_unique<ConsulBackend>(*parse_consul_url(*parsed), context_);
    on_loop([this] { backend_->start(this); });
  }
  ~Party() override {
    close();
    backend_.reset();
  }
  void close(BootClock::duration limit = 5s) { backend_->close(BootClock::now() + limit); }

  void on_session_ended(std::uint64_t epoch, const Error&) override {
    note([&] { ended_ = epoch; });
  }
  void on_notify() override {
    note([&] { ++notifications_; });
  }
  void on_alarm(const std::string&) override {}

  void on_loop(std::function<void()> task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void post(std::function<void()> task) { loop_.post(std::move(task)); }
  void with(const std::function<void(contend::Backend&)>& task) {
    on_loop([&] { task(*backend_); });
  }
  template <typename T>
  Result<T> ask(const std::function<void(contend::Backend&, port::Done<T>)>& call) {
    auto answer = std::make_shared<std::promise<Result<T>>>();
    auto future = answer->get_future();
    loop_.post([this, call, answer] {
      call(*backend_, [answer](Result<T> result) { answer->set_value(std::move(result)); });
    });
    if (future.wait_for(kSoon) != std::future_status::ready) throw std::runtime_error("no answer");
    return future.get();
  }

  contend::SessionView session() {
    auto view = ask<contend::SessionView>(
        [](auto& backend, auto done) { backend.ensure_session(BootClock::now() + 20s, done); });
    EXPECT_TRUE(view) << view.error().message();
    return view ? *view : contend::SessionView{};
  }
  Result<Entered> enter(const std::string& lock, std::uint64_t id,
                        BootClock::duration limit = 20s) {
    const auto epoch = session().epoch;
    Details details;
    details.session = "tag";
    return ask<Entered>([=](auto& backend, auto done) {
      backend.enter(epoch, lock, key(id), details, BootClock::now() + limit, done);
    });
  }
  Result<bool> remove(const std::string& lock, std::uint64_t id, std::uint64_t order = 0) {
    const auto epoch = session().epoch;
    return ask<bool>([=](auto& backend, auto done) {
      backend.remove(epoch, lock, QueueEntry{key(id), order}, BootClock::now() + 20s, done);
    });
  }
  // As one that held, with that token.
  Result<bool> handoff(const std::string& lock, std::uint64_t id, std::uint64_t order,
                       std::uint64_t token) {
    const auto epoch = session().epoch;
    return ask<bool>([=](auto& backend, auto done) {
      backend.handoff(epoch, lock, QueueEntry{key(id), order}, machine::Token{0, token},
                      BootClock::now() + 20s, done);
    });
  }
  Result<std::optional<contend::Read>> read(const std::string& lock, std::uint64_t id,
                                            std::uint64_t order,
                                            contend::WakerPtr waker = nullptr) {
    return ask<std::optional<contend::Read>>([=](auto& backend, auto done) {
      backend.read(lock, QueueEntry{key(id), order}, waker, BootClock::now() + 20s, done);
    });
  }
  Result<Listing> list(const std::string& lock, contend::WakerPtr waker = nullptr) {
    return ask<Listing>([=](auto& backend, auto done) {
      backend.list(lock, true, waker, BootClock::now() + 20s, done);
    });
  }
  std::string tag() {
    std::string tag;
    on_loop([&] { tag = backend_->session_tag(); });
    return tag;
  }
  bool await(const std::function<bool(Party&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kSoon, [&] { return condition(*this); });
  }
  // Counts how often it is called.
  contend::WakerPtr waker(int& count) {
    auto made = std::make_shared<contend::Waker>();
    made->wake = [this, &count] { note([&] { ++count; }); };
    return made;
  }

  // Belongs to a client that waits for a contender's end.
  contend::WakerPtr waker(int& woken, std::uint64_t& handed_off) {
    auto made = waker(woken);
    made->handed_off = [this, &handed_off](const machine::Token& last) {
      note([&] { handed_off = last.counter; });
    };
    return made;
  }

  static Key key(std::uint64_t id) { return contend::key_for({1, id}, {}, {}); }

  int notifications_ = 0;
  std::uint64_t ended_ = 0;

 private:
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  support::LoopThread loop_;
  port::StoreContext context_;
  std::unique_ptr<contend::Backend> backend_;
};

}  // namespace holdfast::stores::consul
