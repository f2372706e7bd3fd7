// A connection that its caller drives: no other thread takes part between request and answer.
//
// It has two uses: renewals, which no other request can delay here; and a single blocking caller,
// which saves two changes of thread. bench/redis_pipeline_bench shows the gain: a round trip takes
// 9 us here (direct_link_against_raw_socket) and 39 us or more over the pipeline
// (pipeline_one_at_a_time).
//
// Guarantee: any failure closes the connection, so no reply is taken for another request's.
// kUnavailable: no request left this process whole; kOutcomeUnknown otherwise. After a failure the
// next call pauses before it connects (Backoff), for at most an eighth of its time. The calling
// thread never looks up a name: it uses the last answer. A call ends when the primary
// moves, and the next one connects to the new one.
// Thread-safety: try_take() from any thread; a Turn belongs to one thread.
// Time: boot time. Blocking: call(), until its deadline. This includes connecting (at most
// connect_timeout for each address).
// Errors: those of Pipeline. An error that the server answers is a reply of kind kError.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

class DirectLink {
 public:
  // `dice` returns 64 random bits for the pauses.
  explicit DirectLink(RemotePtr remote, ReplyLimits limits = {},
                      std::function<std::uint64_t()> dice = {});
  ~DirectLink();
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;

  // The permission to use the link. The destructor gives it back.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    // Sends `wire` (one or more requests) and waits for `replies` replies. `reads_only`: a missing
    // answer is kUnavailable.
    Result<std::vector<Reply>> call(std::string_view wire, std::size_t replies,
                                    base::BootInstant deadline, bool reads_only = false);

   private:
    friend class DirectLink;
    explicit Turn(DirectLink* link) : link_(link) {}
    DirectLink* link_;
  };

  // nullopt if another thread has the link, or after close().
  std::optional<Turn> try_take() noexcept;

  // Whether a call would find a connection. This is a hint.
  bool connected() const noexcept;

  // Ends a call under way at once, as its deadline would. From any thread.
  void give_up() noexcept;
  // Waits for a call under way, which ends at once with kClosed (kOutcomeUnknown if it was sent).
  void close();
  // In a forked child: closes the descriptor and sends nothing to the server.
  void abandon() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
