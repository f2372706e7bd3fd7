// A part of include/holdfast/asio.h: an asynchronous call under way, and how its handler comes to
// its executor. Not for programs: it may change with any version.
//
// Guarantee: the handler runs once, on its executor, in a turn of its own.
// Not guaranteed: an order among the handlers of several calls.
// Thread-safety: complete() may be called on several threads; the first outcome counts. Ownership:
// in the memory of the handler's associated allocator.
// Source: docs/design/0006-async.md.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/execution/outstanding_work.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/system_executor.hpp>

#include "holdfast/detail/async.h"
#include "holdfast/export.h"
#include "holdfast/result.h"

namespace holdfast::detail {

// Keeps the executor's context at work. Not by asio's guard: that lets go of the work first and of
// the executor then, when the context may have ended, and a strand needs it to be let go of.
template <typename Executor>
auto at_work(const Executor& executor) {
  return asio::prefer(executor, asio::execution::outstanding_work.tracked);
}

template <typename Executor>
using AtWork = std::decay_t<decltype(at_work(std::declval<const Executor&>()))>;

// It is what all operations have in common whose handlers run on executors of one type.
template <typename Executor>
class ReadyOn : public Ready {
 public:
  bool same_executor(const Ready& other) const noexcept final {
    return other.kind() == kind() && static_cast<const ReadyOn&>(other).work_ == work_;
  }
  const void* kind() const noexcept final {
    static constexpr char kKind = 0;
    return &kKind;
  }

 protected:
  explicit ReadyOn(const Executor& executor) : work_(at_work(executor)) {}

  AtWork<Executor> work_;
};

template <typename Handler>
using ExecutorOf = asio::associated_executor_t<Handler, asio::system_executor>;

template <typename T, typename Handler>
class Operation final : public Receiver<T>, public ReadyOn<ExecutorOf<Handler>> {
 public:
  using Allocator = asio::associated_allocator_t<Handler>;

  explicit Operation(Handler handler)
      : ReadyOn<ExecutorOf<Handler>>(
            asio::get_associated_executor(handler, asio::system_executor())),
        handler_(std::move(handler)) {}

  void complete(ReceiverPtr<T> self, Result<T> result) override {
    if (answered_.exchange(true)) return;
    result_.emplace(std::move(result));
    ReadyPtr ready = std::static_pointer_cast<Operation>(std::move(self));
    if (!gather(ready)) post(std::move(ready), {});
  }

  void post(ReadyPtr self, std::vector<ReadyPtr> others) override {
    // Until post() has returned the context must not end, although the handler may have run by
    // then: the work is let go of last.
    const auto work = std::move(this->work_);
    Delivery mine{std::static_pointer_cast<Operation>(std::move(self))};
    if (others.empty()) {
      asio::post(work, std::move(mine));
    } else {
      asio::post(work, Deliveries{std::move(mine), std::move(others)});
    }
  }

 private:
  // The handler's turn, on its executor. Memory and slot are free again before the handler runs.
  struct Delivery {
    using allocator_type = Allocator;
    allocator_type get_allocator() const noexcept {
      return asio::get_associated_allocator(operation->handler_);
    }
    void operator()() {
      asio::get_associated_cancellation_slot(operation->handler_).clear();
      Handler handler(std::move(operation->handler_));
      Result<T> result(*std::move(operation->result_));
      operation.reset();
      std::move(handler)(std::move(result));
    }
    std::shared_ptr<Operation> operation;
  };

  // The first of several. It posts the others from the executor's own thread, which is awake: the
  // library's thread woke it once for all. They have turns of their own, on any of its threads.
  struct Deliveries {
    using allocator_type = Allocator;
    allocator_type get_allocator() const noexcept { return mine.get_allocator(); }
    void operator()() {
      for (ReadyPtr& other : std::exchange(others, {})) {
        Ready& each = *other;
        each.post(std::move(other), {});
      }
      mine();
    }
    Delivery mine;
    std::vector<ReadyPtr> others;
  };

  Handler handler_;
  std::optional<Result<T>> result_;
  std::atomic<bool> answered_{false};
};

}  // namespace holdfast::detail
