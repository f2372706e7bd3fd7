// One connection to a Redis server for the requests of all threads.
//
// send() pushes onto a lock-free list, and only the push that finds it empty wakes the loop; each
// turn of the loop drains the list into one buffer and one write; replies are matched in order.
// What is sent while a write is under way gathers for the next.
//
// Guarantee: every operation completes exactly once, on the loop, never inside send(). A connection
// with a request that got no answer in time is closed, never used again. kUnavailable: the request
// did not leave this process whole, and never will. kOutcomeUnknown: it did, and no answer came
// (a Command that reads only is kUnavailable then, too).
// Not guaranteed: that a request answered kOutcomeUnknown is not applied later.
//
// While there is no connection, operations wait for it until their deadline; when an attempt (all
// addresses of the host) fails, those that wait end with why: kUnavailable, or kPermissionDenied
// for a wrong password or certificate. Attempts go on by themselves, with exponential backoff and
// full jitter (50 ms to 2 s). A server that is loading its data counts as not yet connected.
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
#include "src/stores/redis/transport/remote.h"

namespace asio {
class io_context;
}

namespace holdfast::stores::redis {

// One request that gets one reply.
struct Command {
  std::string wire;         // As append_command() writes it.
  bool reads_only = false;  // Cannot change anything: without an answer it is kUnavailable.
  BatchPart part = {};      // Whether it may go as one with others.
};

struct PipelineOptions {
  std::size_t max_queued_bytes = std::size_t{64} << 20;
  ReplyLimits limits;
};

class Pipeline {
 public:
  Pipeline(asio::io_context& io, RemotePtr remote, PipelineOptions options = {});
  ~Pipeline();  // close(), where it was not called.
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The first one connects.
  void send(Command command, base::BootInstant deadline, port::Done<Reply> done);

  bool connected() const noexcept;

  // For tests and `doctor`: writes and bytes so far, and connections made.
  struct Counts {
    std::uint64_t writes = 0;
    std::uint64_t commands = 0;
    std::uint64_t connections = 0;
  };
  Counts counts() const noexcept;

  // Ends what is under way (kClosed) and returns when no callback runs any more. What is sent after
  // its begin completes with kClosed. May be repeated.
  void close();
  // In a forked child: lets go of the descriptors without a word to the server. No callback runs.
  void abandon() noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
