// One connection to the server, on the client's loop: requests in a pipeline, replies in order.
//
// Guarantee: every request's `done` is called exactly once, on the loop and never inside send(),
// unless close() comes first. kNotSent: the request did not leave this process and never will.
// kUnknown: the server may have carried it out, or may do so later. A request whose deadline passes
// without a reply ends the connection, so that no reply is ever taken for another's.
// generation() changes with every connection: the cas numbers of a server that restarted begin
// anew, so one counts only on the connection that told it.
//
// While there is no connection, requests wait for it. When an attempt fails, those that wait end
// with the reason; the next attempt waits for the next request, and for a pause that grows.
//
// Thread-safety: the loop only, but abandon(). Ownership: the loop outlives it; what the callbacks
// use outlives close(). Time: boot time, to about 20 ms. A host's name is looked up by the system
// on a thread of Asio's, which the end of the loop waits for.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "holdfast/errc.h"
#include "src/base/clock.h"
#include "src/port/boot_timer.h"
#include "src/stores/memcached/protocol/replies.h"
#include "src/stores/memcached/url.h"

namespace holdfast::stores::memcached {

enum class Fate : std::uint8_t { kDone, kNotSent, kUnknown };

struct Answer {
  Fate fate{};
  Reply reply{};                   // kDone
  std::string why;                 // Otherwise, for people.
  Errc code = Errc::kUnavailable;  // The same for programs.
};

struct Call {
  std::string bytes;
  base::BootInstant deadline{};
  std::function<void(Answer)> done;
  std::uint64_t generation = 0;  // Not 0: to be sent on that connection or not at all.
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  struct Hooks {
    std::function<void()> on_connected{};
    std::function<void(const std::string& why)> on_lost{};
  };

  Link(asio::io_context& io, const MemcachedAddress& address, Hooks hooks);

  void send(Call call);
  // The present connection's number; 0: there is none.
  std::uint64_t generation() const { return state_ == State::kUp ? generation_ : 0; }

  // The address that the present connection leads to.
  asio::ip::tcp::endpoint server() const;

  // Nothing is called back afterwards.
  void close();
  // In a forked child: closes the descriptor without a word to the server or the parent's loop.
  void abandon() noexcept;

 private:
  enum class State : std::uint8_t { kDown, kConnecting, kUp };
  using Endpoints = asio::ip::tcp::resolver::results_type;

  void begin();
  void connect_to(const std::vector<asio::ip::tcp::endpoint>& endpoints, std::size_t at);
  void connected();
  void attempt_failed(const std::string& why, Errc code = Errc::kUnavailable);
  void schedule_flush();
  void flush();
  void read();
  bool take_replies();
  void drop(const std::string& why);
  void tick();
  void arm_tick();

  asio::io_context& io_;
  const MemcachedAddress address_;
  Hooks hooks_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;
  port::BootTimer timer_;
  State state_ = State::kDown;
  bool closed_ = false;
  bool ticking_ = false;
  bool flush_posted_ = false;
  bool writing_ = false;
  std::uint64_t generation_ = 0;  // The number of the connection, or of the attempt.
  int failures_ = 0;
  base::BootInstant next_try_{};
  base::BootInstant connect_by_{};
  std::deque<Call> waiting_;  // Not given to the socket.
  std::deque<Call> sent_;
  std::string out_;  // For the socket.
  ReplyReader reader_;
  std::array<char, 16 * 1024> buffer_{};
};

}  // namespace holdfast::stores::memcached
