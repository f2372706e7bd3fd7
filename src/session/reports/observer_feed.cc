#include "src/session/reports/observer_feed.h"

#include <utility>

namespace holdfast::session {
namespace {

struct Teller {
  Observer& observer;
  void operator()(const AcquireSeen& seen) const { observer.acquire_ended(seen); }
  void operator()(const HoldSeen& seen) const { observer.hold_ended(seen); }
  void operator()(const RenewalSeen& seen) const { observer.renewal_done(seen); }
  void operator()(const QueueSeen& seen) const { observer.queue_seen(seen); }
};

}  // namespace

bool ObserverFeed::add(News news) {
  const base::LocalLock lock(mutex_);
  if (news_.size() >= Observer::kMostKept) {
    ++missed_;
    return false;
  }
  news_.push_back(std::move(news));
  return news_.size() == 1;
}

void ObserverFeed::tell() {
  std::vector<News> news;
  std::size_t missed = 0;
  {
    const base::LocalLock lock(mutex_);
    news.swap(news_);
    missed = std::exchange(missed_, 0);
  }
  for (const News& each : news) std::visit(Teller{*observer_}, each);
  if (missed > 0) observer_->missed(missed);
}

}  // namespace holdfast::session
