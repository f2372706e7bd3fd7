// A connection that its caller drives: no other thread takes part between a request and its answer.
// A caller that is alone saves two changes of thread for each request.
//
// It connects to the address at which the client's main connection has found the server, so the
// calling thread never looks up a name. While that connection is down, so is this one.
//
// Guarantee: any failure closes the connection, so no reply is taken for another request's. A
// generation is never used again.
// Thread-safety: try_take(), close() and set_server() from any thread; a Turn belongs to one
// thread.
// Time: boot time, to about 20 ms. Blocking: ask(), until its deadline or for `patience`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <asio/ip/tcp.hpp>

#include "src/base/brief_spin.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/stores/memcached/link.h"
#include "src/stores/memcached/protocol/replies.h"

namespace holdfast::stores::memcached {

class DirectLink {
 public:
  explicit DirectLink(std::chrono::milliseconds patience) : patience_(patience) {}
  ~DirectLink();
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;

  // nullopt: the client has no connection at present.
  void set_server(std::optional<asio::ip::tcp::endpoint> server);

  // The permission to use the link. The destructor gives it back.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    // Connects where it must. The connection's number; 0: it cannot be had.
    std::uint64_t generation();
    Answer ask(std::string_view request, base::BootInstant deadline);

   private:
    friend class DirectLink;
    explicit Turn(DirectLink* link) : link_(link) {}
    DirectLink* link_;
  };

  // nullopt if another thread has the link, if the server is away, or after close().
  std::optional<Turn> try_take() noexcept;

  // Waits for a call under way, which ends at once, as if its answer were lost.
  void close();
  // In a forked child: closes the descriptor without a word to the server.
  void abandon() noexcept;

 private:
  bool connect();
  bool stale();
  void drop() HOLDFAST_EXCLUDES(mutex_);
  Answer lose(const std::string& why, bool sent);

  const std::chrono::milliseconds patience_;
  std::atomic<bool> taken_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> away_{true};

  // Held while the descriptor is opened and closed, so that others can shut it down.
  base::LocalMutex mutex_;
  std::optional<asio::ip::tcp::endpoint> server_ HOLDFAST_GUARDED_BY(mutex_);
  std::atomic<int> socket_{-1};

  // Used only by the thread that has the turn.
  std::uint64_t generation_ = 0;
  base::BootInstant used_{};
  ReplyReader reader_;
  base::BriefSpin spin_;
};

}  // namespace holdfast::stores::memcached
