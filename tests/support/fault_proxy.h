// A TCP proxy between a client and a server that does to their connections what networks do.
//
//   FaultProxy proxy({.server_port = server.port(), .framing = Framing::kResp});
//   const int hold = proxy.add({.kind = Fault::Kind::kHold, .containing = "lock:a"});
//   ...                                              // The client, at proxy.port(), asks and
//   leaves. ASSERT_TRUE(proxy.wait_for_hits(hold)); proxy.remove(hold); // The zombie request
//   arrives now.
//
// Transparent while no fault is on. Faults may come and go at any time; more than one may hit a
// message, in the order of their addition. TLS passes through as any bytes do.
//
// Guarantee: what a client sends after add() has returned meets the fault. Bytes stay in order, and
// a connection that has lost some says nothing more in that direction: no TCP has gaps. Held bytes
// outlive the client that sent them.
// Not guaranteed: that a message is a request. With Framing::kRaw it is what one read() returned,
// be it half a request or twenty; a text that two reads share is found with the second of them.
//
// Thread-safety: safe.
// Time: delays run by the steady clock, to about a tenth of a millisecond.
// Blocking: only wait_for() does, for its limit at most.
// Errors: std::runtime_error when it cannot start.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/support/loopback.h"

namespace holdfast::support {

enum class Direction { kToServer, kToClient };

struct Fault {
  enum class Kind {
    kDelay,        // The message, and so all behind it, goes on `delay` later.
    kHold,         // The message and all behind it stay until the fault is removed.
    kBlackhole,    // The message and all behind it are gone.
    kDropReplies,  // The message goes on to the server, whose bytes are gone from then on.
    kReset,        // RST to both, `after_bytes` bytes behind the beginning of the message.
    kSplit,        // The message goes on byte by byte, `delay` (20 us at least) apart.
    kDuplicate,    // The message goes on, and a copy over a connection of its own.
  };

  Kind kind = Kind::kDelay;
  Direction direction = Direction::kToServer;
  std::string containing{};          // Only messages with this text; empty: every one.
  std::string on_connection_with{};  // Only connections whose client has ever sent this text.
  int times = 0;                     // At most so many messages; 0: no limit.
  std::chrono::microseconds delay{};
  std::size_t after_bytes = 0;
  std::string preamble{};  // kDuplicate: sent ahead of the copy, to authenticate for instance.
};

enum class Framing {
  kRaw,
  kResp,  // Requests are told apart, and each goes on when it is complete. Replies are as in kRaw.
};

// Bytes are counted per direction: at(bytes, Direction::kToServer).
struct ProxyStats {
  using Bytes = std::array<std::uint64_t, 2>;

  std::uint64_t accepted = 0;      // Connections, ever.
  std::uint64_t open = 0;          // Now, on either side.
  std::uint64_t clients_gone = 0;  // Counts all connections that the client has closed.
  std::uint64_t resets = 0;
  Bytes received{};
  Bytes forwarded{};
  Bytes dropped{};
  Bytes pending{};                        // Received, and neither forwarded nor dropped.
  std::uint64_t replies_to_the_gone = 0;  // Bytes the server sent to clients that had closed.
  std::uint64_t copies_sent = 0;          // By kDuplicate and replay().
  std::uint64_t copies_answered = 0;      // The server has closed their connection.
  std::string copies_replies;             // The text that it said there.
  std::map<int, std::uint64_t> hits;      // Messages that met a fault, by its number.
};

inline std::uint64_t at(const ProxyStats::Bytes& bytes, Direction direction) {
  return bytes[static_cast<std::size_t>(direction)];
}

struct ProxyOptions {
  std::uint16_t server_port = 0;
  std::string server_host = "127.0.0.1";
  Framing framing = Framing::kRaw;
};

class ProxyLinks;

class FaultProxy {
 public:
  using Condition = std::function<bool(const ProxyStats&)>;
  static constexpr std::chrono::milliseconds kPatience{20'000};

  explicit FaultProxy(const ProxyOptions& options);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const { return port_.number(); }

  // The fault's number, never 0.
  int add(const Fault& fault);
  // Held bytes go on. Lost bytes stay lost, and running delays continue.
  void remove(int fault);
  void remove_all();

  // Whether new connections are refused (ECONNREFUSED). Existing connections go on.
  void refuse(bool refused);
  // Where connections go from now on; those that exist stay.
  void retarget(std::uint16_t server_port);
  // Ends every connection, or those whose client has ever sent `text`: properly, or with RST. Bytes
  // that were held for a server are gone then.
  void close_all(const std::string& text = "");
  void reset_all(const std::string& text = "");
  // Sends the last message to the server that contains `text` once more, over a connection of its
  // own; false: there was none in the last kRemembered.
  bool replay(const std::string& text = "", const std::string& preamble = "");
  static constexpr std::size_t kRemembered = 256;

  ProxyStats stats() const;
  // Whether it came true within the limit. It must only look at what it is given.
  bool wait_for(const Condition& condition, std::chrono::milliseconds limit = kPatience) const;
  bool wait_for_hits(int fault, std::uint64_t hits = 1,
                     std::chrono::milliseconds limit = kPatience) const;

 private:
  void run();
  void do_tasks();
  void listen(bool wanted);
  // Runs it in the proxy's thread; returns when it is done.
  void ask(const std::function<void()>& task);

  const ReservedPort port_;
  const int wake_;
  int listener_ = -1;
  mutable std::mutex mutex_;  // Over all below; the thread lets go of it only while it polls.
  mutable std::condition_variable changed_;
  std::unique_ptr<ProxyLinks> links_;
  std::deque<const std::function<void()>*> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace holdfast::support
