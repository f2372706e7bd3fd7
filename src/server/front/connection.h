// One client's socket: reads requests, keeps replies in order, writes them.
//
// Thread-safety: the loop's thread. Ownership: its handlers keep it alive; the front that made it
// outlives them.
#pragma once

#include <string.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/machine/types.h"
#include "src/server/access/account.h"
#include "src/server/front/calls.h"
#include "src/server/front/front.h"
#include "src/server/front/request_reader.h"
#include "src/server/front/stream.h"

namespace holdfast::server {

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;
class LeaderLink;
using LeaderLinkPtr = std::shared_ptr<LeaderLink>;

// A log-in that was right, for the servers that requests are forwarded to. The password is wiped
// with it.
struct KnownLogin {
  KnownLogin(std::string its_user, std::string its_password)
      : user(std::move(its_user)), password(std::move(its_password)) {}
  ~KnownLogin() { ::explicit_bzero(password.data(), password.size()); }
  KnownLogin(const KnownLogin&) = delete;
  KnownLogin& operator=(const KnownLogin&) = delete;

  const std::string user;
  std::string password;
};

// The front, as a connection sees it.
class ConnectionOwner {
 public:
  // Answers the request by reply() or by begin() and finish().
  virtual void on_request(Connection& connection, const Words& words) = 0;
  // Its client is known from now on.
  virtual void on_greeted(const Connection& connection) = 0;
  // It is closed: nothing of it may be used any more.
  virtual void on_closed(Connection& connection) = 0;
  // Its bytes are to be written when all that is at hand was done.
  virtual void flush_later(ConnectionPtr connection) = 0;
  // The bytes that it keeps: `before` until now, `now` from now on. False: too many in all.
  virtual bool account(std::size_t before, std::size_t now) = 0;
  virtual const FrontLimits& limits() const = 0;
  // Whether it is known who its client is. Until then it has the limits of a stranger.
  virtual bool knows(const Connection& connection) const = 0;
  // A place to read into, for the moment.
  virtual std::string& scratch() = 0;

  // How many requests this connection, which asks now, may have under way.
  std::size_t most_unanswered(const Connection& asking);

 protected:
  ~ConnectionOwner() = default;

 private:
  std::uint64_t asked_last_ = 0;  // A connection's number.
  base::BootInstant others_ask_until_{};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Number of a request on this connection.
  using Turn = std::uint64_t;

  Connection(Stream stream, ConnectionOwner& owner, std::uint64_t number, std::string address);

  void start();
  // From the first call on nothing is read, written or told.
  void close();
  bool closed() const { return !stream_.is_open(); }
  // Also where that has not been read yet, because the loop or a commit took so long. Not noticed:
  // who closed less than a second after the last byte.
  bool was_given_up() const { return closed() || stream_.was_given_up(kGivenUp); }
  // Reads no more requests.
  void stop_reading() { draining_ = true; }
  // For an answer of another server.
  bool waits_for_others() const { return !slots_.empty() && !links.empty(); }
  // Begins no request until resume(), which must not be called from within a request.
  void pause() { paused_ = true; }
  void resume();
  // The request at hand has looked at so many tickets. After many of them others come first: the
  // next request of this connection waits until the reply, which may be long, is written.
  void rest_after(std::size_t tickets) {
    if (tickets > kManyTickets) resting_ = true;
  }

  // --- Replies, in the protocol's form.
  void reply(std::string_view bytes);
  Turn begin() { return begin(answer_by); }
  // A reply that must wait for earlier ones until `by` is not written, unless it is an error. Its
  // connection is closed.
  Turn begin(base::BootInstant by);
  void finish(Turn turn, std::string bytes);
  // Whether it is the next reply to be written, and a call once it is.
  bool is_first(Turn turn) const { return turn == first_; }
  void when_first(Turn turn, std::function<void()> call);
  // Outside the order of the replies. Without a shard, the connection has every reply that is known
  // by now before it, because the message may be about a subscription.
  void push(std::string_view bytes);
  void push_message(std::string_view channel, std::string_view payload);
  // Closes once all replies so far are written.
  void close_after_replies();
  void flush();
  // The bytes of its requests that wait to be sent to another server were `before`, and are `now`.
  // Their bound is that of unread replies.
  void note_unsent(std::size_t before, std::size_t now);

  // --- Kept here for the front.
  const std::uint64_t number;
  const base::BootInstant since;
  const std::string address;  // The client's, without its port.
  int protocol = 2;
  bool attached = false;  // To its shard, for good.
  std::uint32_t shard = 0;
  bool greeted = false;            // It is no stranger any more.
  std::size_t first_requests = 0;  // A stranger's.
  AccountPtr account{};            // Once it is logged in.
  std::string name{};              // By CLIENT SETNAME.
  OwnerCache owners{};
  ClientName client{};  // A client of Holdfast that has asked here: all requests are of one.
  std::set<std::string, std::less<>> channels{};
  // Counts acquisitions and looks, also of its user. nullopt: there is room.
  std::optional<Error> refuse_rate(std::size_t count = 1);
  // False: nothing is refused because of who asks, or how often.
  bool has_limits() const { return account != nullptr || rate_.most() > 0; }
  // The newest acquisitions that a lock library took here.
  void note_taken(const machine::AcquisitionId& id);
  bool has_taken(const machine::AcquisitionId& id) const;

  // --- Kept here for the forwarder.
  bool forwarded = false;                     // Another server's: nothing of it is forwarded again.
  std::shared_ptr<const KnownLogin> login{};  // Where requests are forwarded.
  std::map<std::string, LeaderLinkPtr> links{};  // By the leader's address.
  // Channels that were joined at a leader.
  std::map<std::string, LeaderLinkPtr, std::less<>> distant_channels{};
  // The time for this server's own answer to the request at hand.
  base::BootInstant answer_by = base::BootInstant::max();
  std::size_t subscriptions() const { return channels.size() + distant_channels.size(); }

 private:
  static constexpr std::size_t kManyTickets = 256;
  static constexpr std::chrono::seconds kGivenUp{1};
  static constexpr std::size_t kRemembered = 64;

  struct Slot {
    bool ready = false;
    std::string bytes{};
    base::BootInstant by = base::BootInstant::max();
    std::function<void()> when_first{};
  };

  void wait_read();
  void wait_write();
  void on_readable();
  bool take(std::string_view bytes);
  void greet();
  bool has_asked_enough();
  bool full() const;
  void hand_over_ready();
  std::size_t unread() const { return out_.size() - sent_ + waiting_; }
  bool count_bytes();
  void refuse(const Error& why);

  Stream stream_;
  ConnectionOwner& owner_;
  RequestReader reader_;
  Rate rate_;
  Words words_;
  std::vector<machine::AcquisitionId> taken_;
  std::deque<Slot> slots_;  // Replies that wait for earlier ones.
  Turn first_ = 0;          // The request of the first of them.
  std::string out_;
  std::size_t sent_ = 0;     // So much of out_.
  std::size_t waiting_ = 0;  // The bytes of slots_.
  std::size_t unsent_ = 0;   // To other servers.
  std::size_t accounted_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool queued_ = false;  // For flush_later().
  bool paused_ = false;
  bool resting_ = false;
  bool rested_ = false;  // It goes on in the next turn of the loop.
  bool handing_over_ = false;
  bool draining_ = false;
  bool ending_ = false;
};

}  // namespace holdfast::server
