// One connection on the loop. It tries the addresses in turn, does TLS and log-in, and then writes
// bytes and reads replies.
//
//   State     start()     dialled, logged in   fails or is lost      stop()
//   down      dialling    -                    -                     -
//   dialling  -           up, on_up()          down, on_down(why)    down, nothing is called
//   up        -           -                    down, on_down(why)    down, nothing is called
//
// Guarantee: the owner's functions are called on the loop, never inside a function of the link;
// each start() ends with one on_down() or with stop(). A connection ends with its generation
// (primary.h): nothing more is written or read on it then, and on_moved() follows on_down(). A
// server that loads its data is asked again until it is ready, and counts as dialling.
// Thread-safety: the loop only, except abandon(). Ownership: the owner outlives it or calls stop().
// While another thread reads the replies (LentReader), on_reply() is not called.
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
#include "src/stores/redis/transport/failed_round.h"
#include "src/stores/redis/transport/handshake.h"
#include "src/stores/redis/transport/wire.h"

namespace holdfast::stores::redis {

class LinkOwner {
 public:
  virtual void on_up() = 0;
  virtual void on_reply(Reply reply) = 0;
  // The kernel now has the bytes that write() could not hand over at once.
  virtual void on_written() = 0;
  virtual void on_down(Error why) = 0;
  // The link is down, and the primary has moved: it is worth connecting at once.
  virtual void on_moved() = 0;

 protected:
  ~LinkOwner() = default;
};

// The replies of a link that is up, lent to a thread that is not the loop's.
//
// bench/redis_contention_bench shows the gain, in one run with this reader (Handoff) and without it
// (HandoffWithoutPushReader): 1.4 to 1.9 round trips a handoff, and 1.8 to 2.4 without.
//
// Thread-safety: safe. The loan ends with the link, or when the link takes it back; then it reads
// nothing more.
class LentReader {
 public:
  LentReader(int descriptor, std::uint64_t located, std::unique_ptr<ReplyReader> reader);

  // For poll(). The loan may end at any time, and the number may then belong to another file.
  // read() notices that.
  int descriptor() const noexcept { return descriptor_; }
  // The link's located(), while it was lent.
  std::uint64_t located() const noexcept { return located_; }
  // Appends the replies that have arrived, without waiting. false: the connection has ended or sent
  // garbage. The caller has the loop take the loan back, and the loop finds the same.
  bool read(std::vector<Reply>& replies);

 private:
  friend class LoopLink;
  std::unique_ptr<ReplyReader> end();

  const int descriptor_;
  const std::uint64_t located_;
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
  // Whether write() may be called: the link is up, and the kernel has all earlier bytes.
  // The URL and the endpoint that was tried last, for messages.
  const std::string& where() const noexcept { return wire_.where(); }
  bool can_write() const noexcept {
    return up() && out_sent_ == out_.size() && !outdated();
  }
  // Takes the bytes. In exchange `bytes` becomes an empty string with spare room.
  void write(std::string& bytes);
  // How many of the bytes given to write() since on_up() the kernel has taken. Stays when the link
  // goes down.
  std::uint64_t handed_over() const noexcept { return handed_over_; }
  std::uint64_t writes() const noexcept { return writes_; }

  // Lends the replies: from now on the borrower reads them, and the loop does not. Writes work as
  // before. nullptr: not now, or never (TLS buffers bytes of its own).
  std::shared_ptr<LentReader> lend();
  // Does nothing for a loan that has ended. May call on_reply().
  void take_back(const std::shared_ptr<LentReader>& loan);

  // The primary's generation that the connection belongs to, or the last one did.
  std::uint64_t located() const noexcept { return located_; }

  // Drops the connection, and calls on_down(why) soon.
  void fail(Error why);

 private:
  enum class State : std::uint8_t { kDown, kResolving, kDialling, kGreeting, kUp, kFailing };

  void resolved(Result<Location> found);
  bool outdated() const noexcept { return located_ != remote_->primary->generation(); }
  Error moved_error() const {
    return {Errc::kUnavailable, remote_->address.display() + ": the primary has moved"};
  }
  void watch();
  void on_switch();
  void went_down(Error why);
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
  // Takes answers and news of the primary to the loop. After stop() it has no loop.
  struct Mailbox;
  std::shared_ptr<Mailbox> mailbox_;
  std::uint64_t generation_ = 0;  // Counts sockets: handlers of an older one do nothing.
  std::uint64_t located_ = 0;       // The primary's generation of endpoints_ and of the connection.
  bool moved_ = false;            // on_moved() is due after on_down().
  std::unique_ptr<Primary::Watch> watch_;
  Endpoints endpoints_;
  std::size_t next_endpoint_ = 0;
  FailedRound failures_;

  Wire wire_;
  asio::posix::stream_descriptor descriptor_;
  port::BootTimer timer_;
  bool reading_ = false;
  bool writing_ = false;
  bool write_wants_read_ = false;
  bool read_wants_write_ = false;

  std::optional<Handshake> handshake_;
  bool loading_ = false;
  std::unique_ptr<ReplyReader> reader_;  // Null while it is lent.
  std::shared_ptr<LentReader> loan_;
  std::vector<char> buffer_;

  std::string out_;
  std::size_t out_sent_ = 0;
  std::uint64_t handed_over_ = 0;
  std::uint64_t writes_ = 0;
};

// Runs `task` on the loop and waits for its end; on the loop's thread it runs at once. The loop
// must be running, and must not wait for the calling thread.
void run_on_loop(asio::io_context& io, const std::function<void()>& task);

}  // namespace holdfast::stores::redis
