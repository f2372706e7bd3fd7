#include "src/stores/consul/watches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace holdfast::stores::consul {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr milliseconds kWait = 2min;
constexpr milliseconds kTick = 500ms;
constexpr milliseconds kFirstRest = 100ms;
constexpr milliseconds kLongestRest = 5s;

}  // namespace

void Watches::add(std::string target, std::uint64_t index, const contend::WakerPtr& waker,
                  Judge judge) {
  if (stopped_ || waker == nullptr) return;
  for (auto& [shared, watch] : watches_) {
    if (watch.target != target || watch.index != index || watch.query == 0) continue;
    return watch.wakers.push_back(waker);
  }
  const std::uint64_t number = ++last_;
  watches_.emplace(number, Watch{std::move(target), index, {waker}, 0, {}, std::move(judge)});
  ask(number);
  if (!std::exchange(ticking_, true)) timer_.arm(kTick, [this] { tick(); });
}

void Watches::wake(const contend::WakerPtr& waker) {
  asio::post(io_, [weak = std::weak_ptr(waker)] {
    if (const auto still = weak.lock()) still->wake();
  });
}

void Watches::wake_after(const contend::WakerPtr& waker, std::chrono::milliseconds time) {
  if (stopped_ || waker == nullptr) return;
  watches_.emplace(++last_, Watch{{}, 0, {waker}, 0, steady_clock::now() + time, {}});
  ticking_ = true;
  tick();
}

void Watches::ask(std::uint64_t number) {
  Watch& watch = watches_.at(number);
  HttpRequest request{
      .target = watch.target + "&wait=" + std::to_string(kWait.count()) +
                "ms&index=" + std::to_string(std::max<std::uint64_t>(1, watch.index)),
      .reads = true,
      .waits = true,
      .limit = kWait + kWait / 16 + 10s};
  watch.query = http_.send(std::move(request),
                           [weak = weak_from_this(), number](const Result<HttpReply>& reply) {
                             if (const auto self = weak.lock()) self->on_answer(number, reply);
                           });
}

void Watches::on_answer(std::uint64_t number, const Result<HttpReply>& reply) {
  const auto found = watches_.find(number);
  if (stopped_ || found == watches_.end()) return;
  Watch& watch = found->second;
  watch.query = 0;
  if (!is_wanted(watch)) return end(number);
  const bool answered = reply && (reply->status == 200 || reply->status == 404);
  if (!answered) {
    // The keys may have changed, so the waker is woken, but after a pause that limits the load.
    const milliseconds pause = std::min(kLongestRest, kFirstRest * (1 << std::min(failures_, 6)));
    ++failures_;
    watch.wake_at = steady_clock::now() + pause;
    return tick();
  }
  failures_ = 0;
  Seen seen;
  if (watch.judge) {
    seen = watch.judge(*reply);
  } else {
    seen.same = reply->status == 200 && reply->index == watch.index;
  }
  if (seen.same) {
    watch.index = reply->index;
    return ask(number);
  }
  const Watch over = std::move(watch);
  watches_.erase(found);
  wake_all(over, seen.handed_off);
}

bool Watches::is_wanted(const Watch& watch) {
  return std::any_of(watch.wakers.begin(), watch.wakers.end(),
                     [](const auto& waker) { return !waker.expired(); });
}

void Watches::wake_all(const Watch& watch, const std::optional<machine::Token>& handed_off) {
  for (const auto& weak : watch.wakers) {
    const auto waker = weak.lock();
    if (waker == nullptr) continue;
    if (handed_off && waker->handed_off) {
      waker->handed_off(*handed_off);
    } else {
      waker->wake();
    }
  }
}

void Watches::end(std::uint64_t number) {
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  if (found->second.query != 0) http_.drop(found->second.query);
  watches_.erase(found);
}

void Watches::tick() {
  const auto now = steady_clock::now();
  std::vector<std::uint64_t> over;
  std::vector<Watch> due;
  for (const auto& [number, watch] : watches_) {
    const bool is_due = watch.query == 0 && watch.wake_at <= now;
    if (is_due || !is_wanted(watch)) over.push_back(number);
    if (is_due) due.push_back(watch);
  }
  for (const std::uint64_t number : over) end(number);
  ticking_ = !watches_.empty();
  milliseconds next = kTick;
  for (const auto& [number, watch] : watches_) {
    if (watch.query != 0) continue;
    const auto left = std::chrono::ceil<milliseconds>(watch.wake_at - now);
    next = std::min(next, std::max(milliseconds(1), left));
  }
  if (ticking_) timer_.arm(next, [this] { tick(); });
  for (const Watch& watch : due) wake_all(watch);
}

void Watches::stop() {
  stopped_ = true;
  timer_.stop();
  watches_.clear();
}

}  // namespace holdfast::stores::consul
