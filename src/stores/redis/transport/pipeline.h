// One connection to a Redis server for the requests of all threads.
//
// send() pushes onto a lock-free list, and only the push that finds it empty wakes the loop; each
// turn of the loop drains the list into one buffer and one write; replies are matched in order.
// Requests that arrive during a write gather for the next one.
//
// Guarantee: every operation completes exactly once, on the loop, never inside send().
// kUnavailable: the request did not leave this process whole, and never will. kOutcomeUnknown: it
// did, and no answer came (for a Command that only reads this is kUnavailable, too).
// Not guaranteed: that a request answered kOutcomeUnknown is not applied later.
//
// A request without an answer at its deadline ends alone, and its late answer is dropped. It ends
// its connection, with all other requests on it, in two cases: the request has not left whole, or
// the oldest one has waited for connect_timeout, or for as long as the most patient one would.
//
// While there is no connection, operations wait for one until their deadline. When an attempt fails
// at all addresses of the host, the waiting operations end with its error: kUnavailable, or
// kPermissionDenied for a wrong password or certificate. Attempts continue by themselves, with
// exponential backoff and full jitter (50 ms to 2 s). A server that is loading its data counts as
// not yet connected.
//
// With a `confirmation` each write ends with a question to the replicas (confirmation.h), and its
// requests complete with the answer to that. The next write follows, because WAIT blocks the
// connection. So requests that gain nothing from it (releases, cancellations) belong on another
// connection. kOutcomeUnknown then also means that the connection ended before that answer.
//
// Thread-safety: send() and connected() from any thread; close() from any but the loop; the
// callbacks run on the loop and may call send().
// Ownership: the io_context outlives the pipeline and is run by one thread, until after close().
// Time: boot time, one timer. Deadlines fire at most 2 ms late.
// Errors: also kQueueFull (more than `max_queued_bytes` in requests without an answer: send later),
// kClosed. An error that the server answers is a Reply of kind kError: see errors.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/transport/batch_part.h"
#include "src/stores/redis/transport/confirmation.h"
#include "src/stores/redis/transport/remote.h"

namespace asio {
class io_context;
}

namespace holdfast::stores::redis {

// One request that gets one reply.
struct Command {
  std::string wire;         // Written by append_command().
  bool reads_only = false;  // It changes nothing, so a missing answer is kUnavailable.
  BatchPart part = {};      // Whether and how it may join a batch.
  // `wire` has a request before this one (ASKING), whose answer is dropped.
  bool has_prefix = false;
};

struct PipelineOptions {
  std::size_t max_queued_bytes = std::size_t{64} << 20;
  ReplyLimits limits;
  Confirmation confirmation{};
};

class Pipeline {
 public:
  Pipeline(asio::io_context& io, RemotePtr remote, PipelineOptions options = {});
  ~Pipeline();  // Calls close() unless that was done.
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The first call also connects.
  void send(Command command, base::BootInstant deadline, port::Done<Reply> done);

  // For a request's callback, while it runs: why the replicas have not confirmed the request; empty
  // if they have, or were not asked.
  const std::string& missing() const noexcept;

  bool connected() const noexcept;
  // How many operations wait for their outcome; a hint.
  std::size_t under_way() const noexcept;

  // For tests and `doctor`: the number of writes, bytes and connections so far.
  struct Counts {
    std::uint64_t writes = 0;
    std::uint64_t commands = 0;
    std::uint64_t connections = 0;
  };
  Counts counts() const noexcept;

  // Ends the operations under way (kClosed), and returns when no callback runs any more. Later
  // operations complete with kClosed. May be repeated.
  void close();
  // In a forked child: closes the descriptors and sends nothing to the server. No callback runs.
  void abandon() noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
