// Where the primary is now. This is the only place that decides it: every connection asks here
// before it connects, and closes when its generation is over.
//
//   kind               addresses           generation
//   Resolver           of one host         never changes
//   SentinelPrimary    by the Sentinels    grows with each switch
//   ServicePrimary     of one host         is the term of Holdfast's lock service
//
// Guarantee: a generation is one server's time as the primary, as far as this client was told.
// Watchers are called after generation() has grown.
// Not guaranteed: that the server there still is the primary. With proves_role() a new
// connection asks the server itself.
//
// Thread-safety: safe. Blocking: resolve(), until its deadline; no other function.
// Errors: kUnavailable, with what was asked and why it did not help.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"

namespace holdfast::stores::redis {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  // The certificate must carry this name, unless the URL says another. Empty: the URL's host.
  std::string name{};

  std::string display() const;  // "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock".
};
using Endpoints = std::vector<Endpoint>;
// Moves it to the front, if it is among them.
void put_first(const Endpoint& endpoint, Endpoints& endpoints);

struct Location {
  Endpoints endpoints;  // Empty: not known yet.
  std::uint64_t generation = 0;
};

class Primary {
 public:
  // Called on any thread, and not for long. It must not watch or stop watching.
  using OnSwitch = std::function<void()>;

  virtual ~Primary() = default;
  Primary(const Primary&) = delete;
  Primary& operator=(const Primary&) = delete;

  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  // Whether a server must say that it is a primary before a connection to it is used.
  virtual bool proves_role() const noexcept { return false; }

  // Whether a server must say which term of the lock service it serves before a connection to it is
  // used.
  virtual bool asks_term() const noexcept { return false; }
  // Judges what the server has said: the generation of the connection from now on. The caller notes
  // that first, and then calls enter().
  // Errors: kUnavailable: an earlier term. kCorruptState: another journal. kVersionMismatch. After
  // the latter two no other address is tried.
  virtual Result<std::uint64_t> judge_term(std::string_view attached) {
    static_cast<void>(attached);
    return generation();
  }
  // Raises generation() at least to this.
  virtual void enter(std::uint64_t generation) { static_cast<void>(generation); }

  // The last good answer, without asking.
  virtual Location cached() const = 0;
  // Asks again. Calls `done` once, inline or on another thread, also if that takes long: the caller
  // keeps its own time. The last good answer serves if there is no new one.
  virtual void refresh(std::function<void(Result<Location>)> done) = 0;
  // As refresh(), for a thread that may wait.
  Result<Location> resolve(base::BootInstant deadline);
  // Notes that a server has answered at this address.
  virtual void prefer(const Endpoint& endpoint) { static_cast<void>(endpoint); }

  // Ends with the watch. After its destructor no call is under way.
  class Watch {
   public:
    Watch() = default;
    Watch(Primary* primary, std::list<OnSwitch>::iterator at) : primary_(primary), at_(at) {}
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Primary* primary_ = nullptr;  // Outlives the watch.
    std::list<OnSwitch>::iterator at_{};
  };
  std::unique_ptr<Watch> watch(OnSwitch on_switch);

 protected:
  Primary() = default;
  void switch_to(std::uint64_t generation) {
    raise(generation);
    tell_switch();
  }
  void raise(std::uint64_t generation) {
    generation_.store(generation, std::memory_order_release);
  }
  void tell_switch();

  // The host for messages, without an answer in time.
  virtual std::string late() const = 0;

 private:
  std::atomic<std::uint64_t> generation_{0};
  base::LocalMutex watch_mutex_;
  std::list<OnSwitch> watchers_ HOLDFAST_GUARDED_BY(watch_mutex_);
};

}  // namespace holdfast::stores::redis
