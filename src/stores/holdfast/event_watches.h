// The watches of one client of the lock service: which channel belongs to each, and what is told.
//
//   begin ─ join the channel ─ confirmed by the server ─ events ─ end
//                                                          └ lost ─ joined again: kMissed, events
//
// Guarantee: after a loss kMissed comes before the events that follow it, and once.
// Thread-safety: all calls, from any thread; on_event(), lost() and joined() one at a time.
// Ownership: handles may outlive it. Sinks are called on the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/lock_info.h"
#include "src/base/local_mutex.h"
#include "src/port/store.h"

namespace holdfast::stores::holdfast {

std::string watch_channel(std::string_view prefix);  // "hf1:w:<prefix>"

// The payload of such a channel. nullopt: it is none.
struct WatchedEvent {
  std::size_t prefix = 0;  // So many bytes of the name are the channel's.
  LockEvent event;
};
std::optional<WatchedEvent> event_of(std::string_view payload);

class EventWatches : public std::enable_shared_from_this<EventWatches> {
 public:
  // `hear`: begins, or else ends, to listen to a channel. Called with a mutex held.
  EventWatches(port::Loop& loop, std::function<void(const std::string& channel, bool join)> hear)
      : loop_(loop), hear_(std::move(hear)) {}

  port::WatchHandle begin(std::string prefix, port::EventSink sink);
  // The server has not confirmed that watch in time. When it does, kMissed comes first.
  void miss(const port::WatchHandle& watch);

  // False: it is no event of a watch.
  bool on_event(std::string_view payload);
  void lost();
  std::vector<std::string> prefixes();  // Each once.
  // The server confirms that its messages come from now on.
  void joined(std::string_view channel);

 private:
  struct Watch;
  using WatchPtr = std::shared_ptr<Watch>;

  bool has(const std::string& prefix) HOLDFAST_REQUIRES(mutex_);
  void end(const WatchPtr& watch);
  void tell(const WatchPtr& watch, LockEvent event);

  port::Loop& loop_;
  const std::function<void(const std::string&, bool)> hear_;
  base::LocalMutex mutex_;
  std::vector<WatchPtr> watches_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::holdfast
