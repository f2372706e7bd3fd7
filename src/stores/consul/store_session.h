// The client's one session at Consul: opened, kept, and known to have ended.
//
//   State     ensure()   opened    renewed in time   gone, or the deadline passed  close()
//   none      opening    -         -                 -                             closed
//   opening   waits      open      -                 none, who waits is told       closed
//   open      answered   -         open              none, on_ended()              closed
//
// The session lives by its TTL alone: no check of Consul's gossip can end it (lesson 39), and with
// it go its keys (Behavior "delete"). Two of them are its own: the fence, whose index is part of
// every write (writes.h), and the key by which others notify it.
//
// Gone: a renewal does not find it, and a consistent read does not find its fence.
//
// Guarantee: the deadline counts from the send of a renewal that Consul confirmed before the last
// deadline: what had passed is never revived. So the answer of a leader that was paused, and is
// none any more, extends nothing by more than the new leader grants: that one gives every session
// twice its TTL from its election on, and a client that heard of nobody since then has given up by
// half of that. A session that has ended is destroyed as soon as Consul answers, unless close()
// comes before.
// Thread-safety: the loop only. Time: boot time. Errors: told to those who wait, as errors.h has
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/boot_timer.h"
#include "src/stores/consul/keys.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

struct SessionTerms {
  std::string name;
  std::chrono::milliseconds ttl{};
  std::chrono::milliseconds lock_delay{};
};

class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  struct Events {
    std::function<void(std::uint64_t epoch, const Error& why)> on_ended;
    std::function<void()> on_notify;
    std::function<void(const std::string& line)> on_alarm;
  };
  using Done = std::function<void(Result<void>)>;

  StoreSession(asio::io_context& io, HttpLoop& http, const Keys& keys, SessionTerms terms,
               Events events);

  // `done` is called when it is open; not inline. At once where it is.
  void ensure(base::BootInstant deadline, Done done);

  bool open() const { return state_ == State::kOpen; }
  const std::string& id() const { return id_; }
  std::uint64_t epoch() const { return epoch_; }
  std::chrono::milliseconds ttl() const { return terms_.ttl; }
  base::BootInstant deadline() const { return deadline_; }
  // When the next renewal is sent.
  base::BootInstant renews_at() const { return renew_at_; }
  bool in_doubt() const { return failures_ > 0; }
  std::uint64_t fence() const { return fence_; }
  void set_fence(std::uint64_t index) { fence_ = index; }

  // Something hints that it has ended: asks Consul now.
  void suspect();
  // It is of no use any more: ends it, and tells so.
  void give_up(const Error& why);
  // Ends it at Consul; `done` when that is answered, or at the deadline.
  void close(base::BootInstant deadline, std::function<void()> done);
  // Calls nobody any more.
  void stop();
  void abandon() noexcept;

 private:
  enum class State : std::uint8_t { kNone, kOpening, kOpen, kClosed };

  void start_opening();
  void make_keys(const std::string& id, base::BootInstant sent, base::BootInstant until);
  void opened(std::string id, std::uint64_t fence, base::BootInstant sent);
  void answer_waiting(const Result<void>& result);
  void wait_for_next();
  void on_timer();
  void renew();
  void on_renewed(base::BootInstant sent, const Result<HttpReply>& reply);
  void not_renewed(const Error& why);
  void make_sure_of_the_end();
  void on_looked_for(const Result<HttpReply>& reply);
  void end(const Error& why);
  void see_off();
  void listen(std::uint64_t index);
  void on_heard(std::uint64_t index, const Result<HttpReply>& reply);

  HttpLoop& http_;
  const Keys keys_;
  const SessionTerms terms_;
  const Events events_;
  port::BootTimer timer_;
  port::BootTimer listen_timer_;
  port::BootTimer destroy_timer_;
  State state_ = State::kNone;
  std::vector<std::pair<base::BootInstant, Done>> waiting_;
  std::size_t attempts_ = 0;
  std::string id_;
  std::deque<std::string> ended_;  // And not known to be over at Consul.
  std::uint64_t epoch_ = 0;
  std::uint64_t fence_ = 0;
  base::BootInstant deadline_{};
  base::BootInstant renew_at_{};
  bool renewing_ = false;
  int failures_ = 0;
  std::uint64_t listening_ = 0;
};

}  // namespace holdfast::stores::consul
