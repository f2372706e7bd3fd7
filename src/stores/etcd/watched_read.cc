#include "src/stores/etcd/watched_read.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace holdfast::stores::etcd {
namespace {

// After the report. Between the last one and the server's own visit are 55 ms at most.
constexpr std::chrono::milliseconds kLookAgain[] = {std::chrono::milliseconds(15),
                                                    std::chrono::milliseconds(45)};
constexpr auto kReadAgain = std::chrono::seconds(2);

std::int64_t last_change(const wire::RangeResponse& range) {
  return range.kvs().empty() ? 0 : range.kvs(0).mod_revision();
}

}  // namespace

std::uint64_t WatchedRead::start(std::string key, std::string end) {
  auto self = shared_from_this();
  if (wake_) {
    const std::uint64_t watch = rpc_.watch(std::move(key), std::move(end),
                                           [self](const WatchNews& news) { self->on_news(news); });
    watch_ = watch;
    // The read ended before the watch had a number.
    if (over_) end_watch();
    rpc_.after(deadline_ - base::BootClock::now(), [weak = weak_from_this()] {
      const auto still = weak.lock();
      if (!still) return;
      still->tell(Error(Errc::kUnavailable, "etcd: no watch could be set up in time"));
    });
  }
  send_read();
  return watch_;
}

void WatchedRead::send_read() {
  rpc_.call(request_, How{deadline_, /*reads_only=*/true},
            [self = shared_from_this()](Result<wire::RangeResponse> range) {
              self->on_read(std::move(range));
            });
}

void WatchedRead::on_news(const WatchNews& news) {
  if (news.created && !watched_from_ && !news.refused) {
    watched_from_ = news.revision;
    if (!news.events.empty()) changed_ = true;
    return tell_when_whole();
  }
  // The key changed; or the stream broke, and a change may have been missed; or the watch is not
  // permitted, which the read will report.
  if (!watched_from_) watched_from_ = news.revision;
  changed_ = true;
  // Before the report nobody can be woken; tell() fires right after it.
  if (was_told_) return fire();
  tell_when_whole();
}

void WatchedRead::on_read(Result<wire::RangeResponse> range) {
  if (!range) return tell(std::move(range));
  range_ = *std::move(range);
  tell_when_whole();
}

void WatchedRead::tell_when_whole() {
  if (was_told_ || !range_ || (wake_ && !watched_from_)) return;
  // A change between an older read and the watch would be missed. The leader has the newest state.
  if (range_->header().revision() < std::max(least_, watched_from_.value_or(0))) {
    range_.reset();
    request_.set_serializable(false);
    return send_read();
  }
  tell(*std::move(range_));
}

void WatchedRead::tell(Result<wire::RangeResponse> range) {
  if (std::exchange(was_told_, true)) return;
  const bool failed = !range;
  if (range) told_change_ = last_change(*range);
  std::exchange(told_, nullptr)(std::move(range));
  if (failed) {
    over_ = true;
    end_watch();
  } else if (changed_) {
    fire();
  } else if (wake_ && request_.range_end().empty()) {
    look_again(0);
  }
}

void WatchedRead::look_again(std::size_t time) {
  if (time == std::size(kLookAgain)) return;
  const auto before = time > 0 ? kLookAgain[time - 1] : std::chrono::milliseconds(0);
  rpc_.after(kLookAgain[time] - before, [weak = weak_from_this(), time] {
    const auto self = weak.lock();
    if (!self || self->over_ || self->wanted_.expired()) return;
    self->request_.set_serializable(true);
    self->rpc_.call(self->request_, How{base::BootClock::now() + kReadAgain, /*reads_only=*/true},
                    [self, time](const Result<wire::RangeResponse>& range) {
                      if (range && self->changed_since(*range)) return self->fire();
                      self->look_again(time + 1);
                    });
  });
}

// A server that is behind shows an older state, which is no change.
bool WatchedRead::changed_since(const wire::RangeResponse& range) const {
  if (range.header().revision() < std::max(least_, watched_from_.value_or(0))) return false;
  return last_change(range) != told_change_;
}

void WatchedRead::fire() {
  if (over_.exchange(true)) return;
  if (wake_) wake_();  // First, because a waiter waits for it.
  end_watch();
}

void WatchedRead::end_watch() {
  const std::uint64_t watch = watch_;
  if (watch != 0) rpc_.end_watch(watch);
}

}  // namespace holdfast::stores::etcd
