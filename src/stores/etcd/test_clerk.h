// The backend on a real server, without the engine. Tests call it from their own thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/contend/record.h"
#include "src/port/store_url.h"
#include "src/stores/etcd/backend.h"
#include "tests/support/loop_thread.h"

namespace holdfast::stores::etcd {

using namespace std::chrono_literals;
using base::BootClock;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::QueueEntry;
using contend::Shape;

constexpr auto kSoon = 30s;  // Far longer than any asserted time.

// Not called Answer: the store has a template of that name.
template <typename T>
class Awaited {
 public:
  port::Done<T> done() const {
    return [promise = promise_](Result<T> result) { promise->set_value(std::move(result)); };
  }
  Result<T> wait() {
    if (future_.wait_for(kSoon) != std::future_status::ready) {
      throw std::runtime_error("no answer");
    }
    return future_.get();
  }

 private:
  std::shared_ptr<std::promise<Result<T>>> promise_ = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> future_ = promise_->get_future();
};

class Ending final : public contend::Events {
 public:
  bool wait() { return future_.wait_for(kSoon) == std::future_status::ready; }

 private:
  void on_session_ended(std::uint64_t, const Error&) override {
    if (!std::exchange(ended_, true)) promise_.set_value();
  }
  void on_notify() override {}
  void on_alarm(const std::string&) override {}

  bool ended_ = false;
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

class Clerk {
 public:
  explicit Clerk(const std::string& url) {
    auto parsed = port::StoreUrl::parse(url);
    auto address = parse_etcd_url(*parsed);
    auto rpc = Rpc::make(*address, &loop_.io);
    if (!rpc) throw std::runtime_error(rpc.error().message());
    port::StoreContext context;
    context.loop = &loop_;
    context.io = &loop_.io;
    context.owner = "tester";
    backend_ = std::make_unique<EtcdBackend>(*std::move(address), *std::move(rpc), context);
    Awaited<contend::SessionView> opened;
    loop_.post([&] {
      backend_->start(&events_);
      backend_->ensure_session(BootClock::now() + kSoon, opened.done());
    });
    const auto session = opened.wait();
    if (!session) throw std::runtime_error(session.error().message());
    epoch_ = session->epoch;
  }
  ~Clerk() { backend_->close(BootClock::now() + 1s); }

  using Asked = std::pair<std::string, std::uint64_t>;  // The lock and the contender's number.

  // Asks for all of them in one turn of the loop.
  std::vector<Result<Entered>> enter(const std::vector<Asked>& all,
                                     std::chrono::milliseconds patience = 10s) {
    std::vector<Awaited<Entered>> answers(all.size());
    loop_.post([&] {
      for (std::size_t i = 0; i < all.size(); ++i) {
        backend_->enter(epoch_, all[i].first, key(all[i].second), Details{},
                        BootClock::now() + patience, answers[i].done());
      }
    });
    return told(answers);
  }
  std::vector<Result<bool>> remove(const std::vector<std::pair<std::string, QueueEntry>>& all) {
    std::vector<Awaited<bool>> answers(all.size());
    loop_.post([&] {
      for (std::size_t i = 0; i < all.size(); ++i) {
        backend_->remove(epoch_, all[i].first, all[i].second, BootClock::now() + 10s,
                         answers[i].done());
      }
    });
    return told(answers);
  }
  // Lists a lock for which nobody has asked.
  void list(const std::string& lock, base::BootInstant deadline, const Awaited<Listing>& answer) {
    loop_.post([this, lock, deadline, done = answer.done()] {
      backend_->list(lock, /*latest=*/false, nullptr, deadline, done);
    });
  }
  std::string session() {
    Awaited<std::string> tag;
    loop_.post([&] { tag.done()(backend_->session_tag()); });
    return *tag.wait();
  }

  // Waits for the end of the session.
  bool wait_for_end() { return events_.wait(); }

  static QueueEntry place(std::uint64_t which, std::uint64_t created) {
    return {key(which), created};
  }

 private:
  static Key key(std::uint64_t which) { return {{7, which}, Shape::kExclusive}; }
  template <typename T>
  static std::vector<Result<T>> told(std::vector<Awaited<T>>& answers) {
    std::vector<Result<T>> all;
    all.reserve(answers.size());
    for (auto& each : answers) all.push_back(each.wait());
    return all;
  }

  Ending events_;
  support::LoopThread loop_;
  std::unique_ptr<EtcdBackend> backend_;
  std::uint64_t epoch_ = 0;
};

}  // namespace holdfast::stores::etcd
