// The reads of the backend, and the watches that stay behind them.
#include <algorithm>
#include <utility>

#include "src/stores/etcd/backend.h"
#include "src/stores/etcd/watched_read.h"

namespace holdfast::stores::etcd {

void EtcdBackend::read_watched(std::string key, std::string end, wire::RangeRequest request,
                               bool latest, contend::WakerPtr waker, BootInstant deadline,
                               Done<wire::RangeResponse> done) {
  when_settled(deadline, [=, this, request = std::move(request), done = std::move(done),
                          waker = std::move(waker)](const Result<void>& settled) mutable {
    if (!settled) return fail(done, settled.error());
    // What this member knows is enough when it is not older than what we have seen.
    request.set_serializable(!latest);
    std::function<void()> wake;
    if (waker) {
      wake = [this, weak = std::weak_ptr(waker)] {
        post([weak] {
          if (const auto wanted = weak.lock()) wanted->wake();
        });
      };
    }
    const auto read = std::make_shared<WatchedRead>(
        *rpc_, std::move(request), seen_, deadline,
        on_loop<wire::RangeResponse>([this, done](const Result<wire::RangeResponse>& range) {
          note(0, range, /*may_have_written=*/false);
          done(range);
        }),
        std::move(wake));
    const std::uint64_t watch = read->start(key, end);
    if (watch != 0) keep_watch(waker, watch);
  });
}

// With every new watch two old ones are looked at: those that nobody wants any more are ended.
void EtcdBackend::keep_watch(const contend::WakerPtr& waker, std::uint64_t watch) {
  watches_.emplace_back(waker, watch);
  for (int i = 0; i < 2; ++i) {
    if (swept_ >= watches_.size()) swept_ = 0;
    if (watches_[swept_].first.expired()) {
      rpc_->end_watch(watches_[swept_].second);
      watches_[swept_] = std::move(watches_.back());
      watches_.pop_back();
    } else {
      ++swept_;
    }
    if (watches_.empty()) break;
  }
}

}  // namespace holdfast::stores::etcd
