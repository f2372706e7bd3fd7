// One connection on the loop: addresses tried in turn, TLS, log-in; then bytes out and replies in.
//
//   State     start()     dialled, logged in   fails or is lost      stop()
//   down      dialling    -                    -                     -
//   dialling  -           up, on_up()          down, on_down(why)    down, nothing is called
//   up        -           -                    down, on_down(why)    down, nothing is called
//
// Guarantee: the owner's functions are called on the loop, never inside a function of the link;
// each start() ends in one on_down() or in stop(). A server that is loading its data is asked again
// until it is ready: it counts as dialling.
// Thread-safety: the loop only, but abandon(). Ownership: the owner outlives it or calls stop().
// While its replies are lent out on_reply() is not called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/boot_timer.h"
#include "src/stores/redis/transport/handshake.h"
#include "src/stores/redis/transport/wire.h"

namespace holdfast::stores::redis {

class LinkOwner {
 public:
  virtual void on_up() = 0;
  virtual void on_reply(Reply reply) = 0;
  virtual void
  on_written() = 0;  // The kernel has the bytes now that write() could not hand over at once.
  virtual void on_down(Error why) = 0;

 protected:
  ~LinkOwner() = default;
};

// The replies of a link that is up, while another thread than the loop's reads them.
//
// bench/redis_contention_bench (Handoff) shows what that brings: a handoff takes 1.8 to 2.2 round
// trips, and took 2.3 to 3.0 without this reader and without the PING before a release
// (docs/stores/redis.md).
//
// Thread-safety: safe. It is over when the link is, or takes it back: then it reads nothing more.
class LentReader {
 public:
  LentReader(int descriptor, std::unique_ptr<ReplyReader> reader);

  // To be polled. It may be over, and the number another's, at any time: read() knows.
  int descriptor() const noexcept { return descriptor_; }
  // Appends what has come, without waiting. false: the connection has ended, or makes no sense; the
  // loop, which is to take it back, will find the same.
  bool read(std::vector<Reply>& replies);

 private:
  friend class LoopLink;
  std::unique_ptr<ReplyReader> end();

  const int descriptor_;
  base::LocalMutex mutex_;
  std::unique_ptr<ReplyReader> reader_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<char> buffer_ HOLDFAST_GUARDED_BY(mutex_);
};

class LoopLink : public std::enable_shared_from_this<LoopLink> {
 public:
  LoopLink(asio::io_context& io, RemotePtr remote, LinkOwner& owner, ReplyLimits limits);

  void start();
  void stop();
  void abandon() noexcept;

  bool up() const noexcept { return state_ == State::kUp; }
  // Whether write() may be called: up, and the bytes before are with the kernel.
  bool can_write() const noexcept { return up() && out_sent_ == out_.size(); }
  // Takes the bytes; `bytes` gets an empty string with room in exchange.
  void write(std::string& bytes);
  // The number of bytes given to write() since on_up() that the kernel has. Kept when it goes down.
  std::uint64_t handed_over() const noexcept { return handed_over_; }
  std::uint64_t writes() const noexcept { return writes_; }

  // From now on the loop does not look for replies: who has the loan does. Writes go on as before.
  // nullptr: not now, or never (TLS keeps bytes of its own).
  std::shared_ptr<LentReader> lend();
  // Does nothing for a loan that is over. on_reply() may be called within.
  void take_back(const std::shared_ptr<LentReader>& loan);

  // Drops the connection; on_down(why) is called soon.
  void fail(Error why);

 private:
  enum class State : std::uint8_t { kDown, kResolving, kDialling, kGreeting, kUp, kFailing };

  void resolved(Result<Endpoints> endpoints);
  void try_next();
  void step_dial();
  void greet();
  void on_greeting(const Reply& reply);
  void on_timer();
  void on_readable();
  bool deliver(std::string_view bytes);
  void flush();
  void flush_late();
  void wait_for(Wire::Io what);
  void wait_read();
  void wait_write();
  void next_address(Error why);
  void close_wire();

  asio::io_context& io_;
  const RemotePtr remote_;
  LinkOwner* owner_;
  const ReplyLimits limits_;
  State state_ = State::kDown;
  // Where the resolver's helper leaves its answer; without a loop once stop() was called.
  struct Mailbox;
  std::shared_ptr<Mailbox> mailbox_;
  std::uint64_t generation_ = 0;  // The socket's generation: handlers of an older one do nothing.
  Endpoints endpoints_;
  std::size_t next_endpoint_ = 0;
  Error last_failure_{Errc::kUnavailable, "not connected"};

  Wire wire_;
  asio::posix::stream_descriptor descriptor_;
  port::BootTimer timer_;
  bool reading_ = false;
  bool writing_ = false;
  bool write_wants_read_ = false;
  bool read_wants_write_ = false;

  std::optional<Handshake> handshake_;
  bool loading_ = false;
  std::unique_ptr<ReplyReader> reader_;  // Lent with the loan.
  std::shared_ptr<LentReader> loan_;
  std::vector<char> buffer_;

  std::string out_;
  std::size_t out_sent_ = 0;
  std::uint64_t handed_over_ = 0;
  std::uint64_t writes_ = 0;
};

// Runs `task` on the loop and waits for its end; at once where this is the loop's thread. The loop
// must be running: from a thread that it waits for, this never ends.
void run_on_loop(asio::io_context& io, const std::function<void()>& task);

}  // namespace holdfast::stores::redis
