// A connection that stays subscribed to its own channel, and to others between join() and leave().
//
//   State         ensure()                 attempt fails           connection lost
//   idle          connects, then as below  -                       -
//   connecting    waits                    those that wait fail;   connects again
//                                          tries again by itself
//   subscribed    done at once             -                       connects again; on_subscribed
//                                                                  when confirmed
//
// Guarantee: ensure() completes without an error only after the server has confirmed a subscription
// on a connection that is not known to be dead. on_subscribed reports every confirmation, so that
// the owner can ask for what it missed before. A silent peer is noticed within 15 s.
// Not guaranteed: that every message arrives, because Redis drops them with the connection.
//
// Thread-safety: ensure(), confirmed() from any thread; close() from any but the loop. All
// callbacks run on the loop, never inside a call. While a thread listens, on_message runs on that
// thread.
// Ownership: as with Pipeline. Time: boot time. Errors: kUnavailable (not subscribed; the deadline
// passed or an attempt failed), kPermissionDenied (password, certificate, or the ACL does not allow
// the channel), kClosed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/stores/redis/transport/remote.h"

namespace asio {
class io_context;
}

namespace holdfast::stores::redis {

class Subscriber {
 public:
  struct Events {
    std::function<void(std::string_view payload)> on_message;
    std::function<void(bool again)> on_subscribed;  // `again`: after a loss.
    std::function<void(const Error&)> on_lost;      // After it was confirmed.
    // Messages of that other channel arrive from now on.
    std::function<void(std::string_view channel)> on_batch{};
    // If set, a message on another channel comes here, and only there. Needs a subscriber without
    // a push reader.
    std::function<void(std::string_view channel)> on_other{};
    // If set, the other channels are sharded, and their messages come here. Needs a subscriber
    // whose push reader is not used.
    std::function<void(std::string_view channel, std::string_view payload)> on_shard{};
    // The server does not serve this sharded channel (any more), or the user may not use it. It is
    // not joined again by itself.
    std::function<void(std::string_view channel, const Error& why)> on_dropped{};
  };

  struct Timing {
    base::BootClock::duration ping_every = std::chrono::seconds(5);   // While the server is silent.
    base::BootClock::duration dead_after = std::chrono::seconds(15);  // The length of a silence.
  };

  Subscriber(asio::io_context& io, RemotePtr remote, std::string channel, Events events);
  Subscriber(asio::io_context& io, RemotePtr remote, std::string channel, Events events,
             Timing timing);
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // Calls on_message on the thread that listens. Lives as long as this object.
  port::PushReader& push_reader() noexcept;

  void ensure(base::BootInstant deadline, port::Done<void> done);
  // Whether ensure() would complete at once. This is a hint, and costs nothing.
  bool confirmed() const noexcept;

  // Subscribes to another channel, until leave(). A refusal of the server is not reported. From any
  // thread.
  void join(std::string channel);
  void leave(std::string channel);

  // As with Pipeline.
  void close();
  void abandon() noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
