// A connection to the server that leads, for the requests of one client of a server that does not
// (docs/design/0075-forwarding.md).
//
//   connecting ─ (TLS) ─ greeting: HELLO, AUTH as the client's user, "HF1 forwarded" ─ open
//
// Guarantee: a request is sent once, or not at all. Before it is open, each request that fails is
// answered with an error, because it was surely not applied. Afterwards an answer that does not
// come, or comes after its time, closes the client's connection, and so does the end of this one.
// Not guaranteed: that the leader has not applied a request whose client was closed.
//
// Thread-safety: the loop's thread. Ownership: its handlers keep it alive; it lasts until close(),
// which the client's connection calls when it ends. All that LinkTools names outlives that.
// Time: boot time. Blocking: never.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/port/alarms.h"
#include "src/server/front/connection.h"
#include "src/server/front/dial.h"
#include "src/server/front/reply_splitter.h"
#include "src/server/front/stream.h"

namespace holdfast::server {

struct LinkTools {
  DialTools dial;
  port::Alarms& alarms;
  std::string& scratch;                // A place to read into, for the moment.
  std::chrono::milliseconds patience;  // For an answer.
};

class LeaderLink : public std::enable_shared_from_this<LeaderLink> {
 public:
  // `reply`: whole, in the client's version of the protocol.
  using Answered = std::function<void(Connection& client, std::string_view reply)>;

  LeaderLink(const LinkTools& tools, const ConnectionPtr& client, std::string leader);

  // Call it once, first.
  void open();
  // `answered` is called once, perhaps within the call, unless the client's connection closes. It
  // must answer the client, or do nothing.
  void send(std::string bytes, base::BootInstant by, Answered answered);
  void close();

 private:
  enum class State : std::uint8_t { kConnecting, kGreeting, kOpen, kClosed };
  struct Asked {
    base::BootInstant by{};
    Answered answered;
    std::string bytes{};  // Until it is open.
  };

  void begin(Stream stream);
  void on_greeting(std::string_view reply);
  void keep_up_with(const Connection& client);
  void put(std::string bytes, Asked asked);
  void count_unsent(std::size_t now);
  void flush();
  void wait_read();
  void on_readable();
  void take(std::string_view reply);
  void watch_time();
  void end(const std::string& why);
  void fail_all(std::string_view error);

  LinkTools tools_;
  const std::weak_ptr<Connection> client_;
  const std::string leader_;
  std::shared_ptr<Dial> dial_;
  std::optional<Stream> stream_;
  State state_ = State::kConnecting;
  std::string failure_;  // The answer to each request, if it could not be opened.
  ReplySplitter reader_;
  std::deque<Asked> asked_;  // In the order of the requests.
  // The client, as the leader knows it when it reads the next request.
  int protocol_ = 2;
  std::string name_;
  std::shared_ptr<const KnownLogin> login_;
  bool hello_answered_ = false;
  std::string out_;         // Until it is open, the greeting.
  std::size_t sent_ = 0;    // So much of out_.
  std::size_t unsent_ = 0;  // Bytes of requests.
  bool writing_ = false;
  std::optional<port::Alarms::Alarm> alarm_;
};

// The words as a request on the wire.
std::string request_bytes(const Words& words);

}  // namespace holdfast::server
