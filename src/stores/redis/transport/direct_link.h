// A connection that its caller drives: no thread but his own between request and answer.
//
// Two uses: renewals, on a connection that nothing else can hold up; and a single blocking caller,
// who saves two changes of thread. bench/redis_pipeline_bench shows what that brings: a round trip
// takes 9 us here (direct_link_against_raw_socket) and 39 us or more over the pipeline
// (pipeline_one_at_a_time).
//
// Guarantee: a failure of any kind closes the connection, so that no reply is ever taken for
// another's. kUnavailable: surely none of the requests left whole; kOutcomeUnknown otherwise.
// After a failure the next call pauses before it connects: as of Backoff, an eighth of its time at
// most.
// A name is never looked up on the calling thread: the resolver's last answer serves.
// Thread-safety: try_take() from any thread; a Turn belongs to one thread.
// Time: boot time. Blocking: call() until its deadline, connecting included (at most
// connect_timeout for each address).
// Errors: as of Pipeline. Errors that the server answers are replies of kind kError.
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
  // `dice`: any 64 bits, for the pauses.
  explicit DirectLink(RemotePtr remote, ReplyLimits limits = {},
                      std::function<std::uint64_t()> dice = {});
  ~DirectLink();
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;

  // The right to use the link, given back by the destructor.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    // Sends `wire` (one or more requests) and waits for as many replies. `reads_only`: an answer
    // that does not come is kUnavailable.
    Result<std::vector<Reply>> call(std::string_view wire, std::size_t replies,
                                    base::BootInstant deadline, bool reads_only = false);

   private:
    friend class DirectLink;
    explicit Turn(DirectLink* link) : link_(link) {}
    DirectLink* link_;
  };

  // nullopt: another has it, or close() was called.
  std::optional<Turn> try_take() noexcept;

  // Whether a call would find a connection. A hint.
  bool connected() const noexcept;

  // A call under way ends at once, as at its deadline. From any thread.
  void give_up() noexcept;
  // Waits for a call under way: it ends at once with kClosed (kOutcomeUnknown when it was sent).
  void close();
  // In a forked child: closes the descriptor without a word to the server.
  void abandon() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
