// Operations under way, each until its deadline.
//
// Guarantee: each is answered once; later answers are dropped. Thread-safety: the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/loop_timer.h"

namespace holdfast::stores::zookeeper {

class Pendings;

class PendingBase {
 public:
  virtual ~PendingBase() = default;
  virtual void fail(Error error) = 0;
  bool over() const { return over_; }

  // Set when a writing request was sent: it may be applied even if no answer comes.
  bool sent_to_write = false;
  base::BootInstant deadline{};

 protected:
  friend class Pendings;
  bool over_ = false;
  std::optional<std::multimap<base::BootInstant, std::shared_ptr<PendingBase>>::iterator> slot_;
  Pendings* all_ = nullptr;
};

class Pendings {
 public:
  explicit Pendings(asio::io_context& io) : timer_(io, [this] { on_timer(); }) {}

  void add(const std::shared_ptr<PendingBase>& pending, base::BootInstant deadline) {
    pending->deadline = deadline;
    pending->all_ = this;
    pending->slot_ = all_.emplace(deadline, pending);
    timer_.arm(deadline);
  }
  void remove(PendingBase& pending) {
    if (pending.slot_) all_.erase(*std::exchange(pending.slot_, std::nullopt));
  }
  void fail_all(const Error& error) {
    while (!all_.empty()) {
      const auto pending = all_.begin()->second;
      pending->fail(error);
    }
  }
  void stop() { timer_.stop(); }

 private:
  void on_timer() {
    const auto now = base::BootClock::now();
    while (!all_.empty() && all_.begin()->first <= now) {
      const auto pending = all_.begin()->second;
      pending->fail(Error(pending->sent_to_write ? Errc::kOutcomeUnknown : Errc::kUnavailable,
                          "zookeeper: no answer in time"));
    }
    if (!all_.empty()) timer_.arm(all_.begin()->first);
  }

  std::multimap<base::BootInstant, std::shared_ptr<PendingBase>> all_;
  contend::LoopTimer timer_;
};

template <typename T>
class Pending final : public PendingBase {
 public:
  explicit Pending(std::function<void(Result<T>)> done) : done_(std::move(done)) {}

  void complete(Result<T> result) {
    if (std::exchange(over_, true)) return;
    const auto done = std::exchange(done_, nullptr);
    all_->remove(*this);
    done(std::move(result));
  }
  void fail(Error error) override { complete(std::move(error)); }

 private:
  std::function<void(Result<T>)> done_;
};

}  // namespace holdfast::stores::zookeeper
