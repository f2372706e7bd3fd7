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

void Watches::add(std::string target, std::uint64_t index, const contend::WakerPtr& waker) {
  if (stopped_ || waker == nullptr) return;
  const std::uint64_t number = ++last_;
  watches_.emplace(number, Watch{std::move(target), index, waker, 0, {}});
  ask(number);
  if (!std::exchange(ticking_, true)) timer_.arm(kTick, [this] { tick(); });
}

void Watches::wake(const contend::WakerPtr& waker) {
  asio::post(io_, [weak = std::weak_ptr(waker)] {
    if (const auto still = weak.lock()) still->wake();
  });
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
  const auto waker = watch.waker.lock();
  if (waker == nullptr) return end(number);
  const bool answered = reply && (reply->status == 200 || reply->status == 404);
  if (!answered) {
    // Not sure whether it has changed: told, but at no pace that would be a burden.
    const milliseconds pause = std::min(kLongestRest, kFirstRest * (1 << std::min(failures_, 6)));
    ++failures_;
    watch.wake_at = steady_clock::now() + pause;
    timer_.arm(std::min(pause, kTick), [this] { tick(); });
    return;
  }
  failures_ = 0;
  if (reply->status == 200 && reply->index == watch.index) return ask(number);
  watches_.erase(found);
  waker->wake();
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
  std::vector<contend::WakerPtr> due;
  for (const auto& [number, watch] : watches_) {
    auto waker = watch.waker.lock();
    const bool is_due = watch.query == 0 && watch.wake_at <= now;
    if (waker == nullptr || is_due) over.push_back(number);
    if (waker != nullptr && is_due) due.push_back(std::move(waker));
  }
  for (const std::uint64_t number : over) end(number);
  ticking_ = !watches_.empty();
  if (ticking_) timer_.arm(kTick, [this] { tick(); });
  for (const auto& waker : due) waker->wake();
}

void Watches::stop() {
  stopped_ = true;
  timer_.stop();
  watches_.clear();
}

}  // namespace holdfast::stores::consul
