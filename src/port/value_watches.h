// The watchers of values beside locks, and the channels on which their changes are heard.
//
// Thread-safety: any thread. Watchers are called on the loop.
// Ownership: handles own nothing; the loop and the function that joins channels outlive the object.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/base/local_mutex.h"
#include "src/port/store.h"

namespace holdfast::port {

class ValueWatches : public std::enable_shared_from_this<ValueWatches> {
 public:
  // `join`: begins, or else ends, to hear a channel. Called with a mutex held.
  ValueWatches(Loop& loop, std::function<void(const std::string& channel, bool join)> join)
      : loop_(loop), join_(std::move(join)) {}

  WatchHandle add(const std::string& channel, Task changed) {
    auto watch = std::make_shared<Watch>(Watch{std::move(changed)});
    {
      const base::LocalLock lock(mutex_);
      if (!by_channel_.contains(channel)) join_(channel, true);
      by_channel_.emplace(channel, watch);
    }
    return {std::shared_ptr<void>(watch.get(), [watch, channel, all = weak_from_this()](void*) {
      if (const auto alive = all.lock()) alive->remove(channel, watch);
    })};
  }

  void tell(const std::string& channel) {
    const base::LocalLock lock(mutex_);
    const auto [first, last] = by_channel_.equal_range(channel);
    for (auto each = first; each != last; ++each) post(each->second);
  }

  void tell_all() {
    const base::LocalLock lock(mutex_);
    for (const auto& [channel, watch] : by_channel_) post(watch);
  }

 private:
  struct Watch {
    Task changed;
  };
  using WatchPtr = std::shared_ptr<Watch>;

  void post(const WatchPtr& watch) {
    loop_.post([weak = std::weak_ptr<Watch>(watch)] {
      if (const auto alive = weak.lock()) alive->changed();
    });
  }
  void remove(const std::string& channel, const WatchPtr& watch) {
    const base::LocalLock lock(mutex_);
    std::erase_if(by_channel_, [&](const auto& each) { return each.second == watch; });
    if (!by_channel_.contains(channel)) join_(channel, false);
  }

  Loop& loop_;
  const std::function<void(const std::string&, bool)> join_;
  base::LocalMutex mutex_;
  std::multimap<std::string, WatchPtr> by_channel_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::port
