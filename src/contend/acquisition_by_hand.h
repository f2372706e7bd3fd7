// An acquisition that a test answers step by step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "src/contend/acquisition.h"

namespace holdfast::contend {

using namespace std::chrono_literals;
using machine::Mode;
using port::AcquisitionState;

constexpr auto kTtl = 6s;

class ByHand {
 public:
  explicit ByHand(const Mode& mode = Mode::exclusive(), bool may_wait = true, bool outlives = false)
      : acquisition_(traits_, request(mode, may_wait, outlives), nullptr, now) {
    step(Begin{});
    step(SessionOpened{{}, {}});
    EXPECT_TRUE(asks<Create>());
  }

  void step(Event event) {
    actions_.clear();
    acquisition_.step(std::move(event), context(), actions_);
  }
  template <typename T>
  void answer(T what, Slot slot = Slot::kMain) {
    step(Replied{slot, Result<T>(std::move(what)), /*record_known=*/true});
  }
  // The queue when it came: those, and itself.
  void created(std::vector<QueueEntry> others) {
    others.push_back({acquisition_.key(), kMine});
    Entered entered{kMine, {}};
    entered.listing.queue = std::move(others);
    answer(std::move(entered));
  }
  void still_there(const Details& details = {}) { answer(std::optional(Read{details, 50, 50})); }
  void pass(std::chrono::nanoseconds time) {
    now += time;
    step(TimeIsUp{});
  }

  // The action of that kind, if the last step had one.
  template <typename T>
  const T* acted() const {
    for (const Action& action : actions_) {
      if (const T* found = std::get_if<T>(&action)) return found;
    }
    return nullptr;
  }
  template <typename T>
  const T* asks() const {
    const Ask* ask = acted<Ask>();
    return ask != nullptr ? std::get_if<T>(&ask->request) : nullptr;
  }
  State state() const { return acquisition_.state(); }
  // The store has done what it asked for.
  void kept(Slot slot = Slot::kMain) {
    const auto* keep = asks<KeepEntry>();
    ASSERT_NE(keep, nullptr);
    answer(std::optional(Read{*keep->details, kMine, ++modified}), slot);
  }
  std::optional<Result<AcquisitionState>> renew(std::uint64_t seq, machine::Duration ttl = kTtl) {
    actions_.clear();
    return acquisition_.renew({"lock", {1, 1}, seq, ttl, kTtl, {}}, now, now + 1s, context(),
                              actions_);
  }

  static constexpr std::uint64_t kMine = 100;
  base::BootInstant now{1h};
  std::uint64_t epoch = 1;
  std::uint64_t modified = 200;
  base::BootInstant session_deadline = now + 3s;

 private:
  static port::AcquireRequest request(const Mode& mode, bool may_wait, bool outlives) {
    port::AcquireRequest request;
    request.name = "lock";
    request.id = {1, 1};
    request.mode = mode;
    request.may_wait = may_wait;
    request.outlives_client = outlives;
    request.ttl = request.waiter_ttl = kTtl;
    request.deadline = base::BootInstant(1h) + 2s;
    return request;
  }
  Context context() const { return {now, {epoch, false, 3s, session_deadline, {}}}; }

  StoreTraits traits_{"store", true, false, true};
  Actions actions_;
  AcquisitionFsm acquisition_;
};

inline QueueEntry other(Shape shape = Shape::kExclusive) {
  QueueEntry entry;
  entry.key = {{2, 1}, shape, 1, 1, {}};
  entry.order = 50;
  return entry;
}

}  // namespace holdfast::contend
