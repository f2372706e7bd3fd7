// One connection to one server of etcd: HTTP/2 by nghttp2, with the calls of gRPC on it (RFC 9113;
// gRPC's "PROTOCOL-HTTP2").
//
// A link connects once. When it has ended its owner makes another one.
//
// Guarantee: a call ends exactly once, by its deadline at the latest, never inside open(); a call
// that is dropped never ends. Its refusal is `unsent` only if the server has seen nothing of it. A
// server that says nothing for 15 s while calls are under way has its link ended. An answer
// is cut off at kLongestMessage.
// Not guaranteed: that a call that ended by its deadline is not carried out.
//
// Thread-safety: the loop only. Ownership: the io_context outlives it.
// Time: boot time; deadlines fire at most 2 ms late.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "src/base/clock.h"
#include "src/port/answer_limit.h"
#include "src/port/boot_timer.h"
#include "src/stores/etcd/transport/byte_stream.h"
#include "src/stores/etcd/transport/errors.h"

namespace holdfast::stores::etcd {

// While a message is read, its bytes alone take twice their length.
inline constexpr std::size_t kLongestMessage = port::kMostAnswerMemory / 2;

// A message as gRPC sends it: one byte for compression and four for the length before it.
template <typename Message>
std::string framed(const Message& message) {
  std::string bytes(5, '\0');
  message.AppendToString(&bytes);
  const std::size_t length = bytes.size() - 5;
  for (std::size_t i = 0; i < 4; ++i) bytes[4 - i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

template <typename Message>
bool parse(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

class Http2Link : public std::enable_shared_from_this<Http2Link> {
 public:
  struct Call {
    const char* path = "";
    std::string token{};   // The log-in; empty: none.
    std::string out{};     // Framed messages.
    bool streams = false;  // More messages may follow in either direction.
    base::BootInstant deadline = base::BootInstant::max();
    std::function<void(std::string_view message)> on_message{};
    std::function<void(const Refusal& refusal)> on_end{};  // Code 0: no refusal.
  };
  // `was_up`: the server had answered before.
  using Ended = std::function<void(const Refusal& why, bool was_up)>;

  // With calls under way. etcd allows a ping every five seconds.
  struct Patience {
    std::chrono::nanoseconds before_ping = std::chrono::seconds(10);
    std::chrono::nanoseconds answer = std::chrono::seconds(5);
  };

  Http2Link(asio::io_context& io, port::Endpoint server, std::shared_ptr<TlsSettings> tls,
            Patience patience);
  ~Http2Link();
  Http2Link(const Http2Link&) = delete;
  Http2Link& operator=(const Http2Link&) = delete;

  void start(std::chrono::milliseconds connect_timeout, Ended ended);
  // Whether open() may be called.
  bool usable() const;
  // Whether it is usable and past connecting, which has a time limit of its own.
  bool up() const { return state_ == State::kUp && !leaving_; }
  std::uint64_t open(Call call);
  // One more framed message on a streaming call. Does nothing for a call that has ended.
  void write(std::uint64_t number, std::string_view message);
  void drop(std::uint64_t number);
  // Ends all calls soon, with this refusal.
  void fail(const Refusal& why);
  // Drops all calls.
  void close();

 private:
  enum class State : std::uint8_t { kConnecting, kGreeting, kUp, kEnded };
  struct Flight {
    Call call;
    std::uint64_t number = 0;
    std::int32_t stream = -1;  // Negative: none yet, or it is closed.
    std::size_t out_sent = 0;
    bool seen = false;  // The server may have seen a part of it.
    bool done = false;  // Its end is due.
    int http_status = 0;
    std::string in{};
    std::string said{};  // By the server, with its status.
    Refusal refusal{status::kUnknown, "the server ended the call without a status", false,
                    /*ours=*/true};
  };
  // A message or an end that a read has brought. It is told after nghttp2 has returned.
  struct Due {
    std::uint64_t number = 0;
    std::string message{};
    bool ends = false;
  };
  struct Callbacks;

  void on_connected(const std::string& why);
  void read_more();
  void on_read(std::size_t bytes);
  void on_up();
  void tell_due();
  void submit(Flight& flight);
  void flush();
  void flush_soon();
  void go_on_later();
  void on_timer();
  void arm(base::BootInstant at);
  base::BootInstant check_calls(base::BootInstant now);
  base::BootInstant check_silence(base::BootInstant now);
  void on_data(Flight& flight, std::string_view bytes);
  void on_header(Flight& flight, std::string_view name, std::string_view value);
  void on_leave();
  void end_call(Flight& flight);
  void leave_when_idle();
  void end_session();
  Flight* flight_of(std::int32_t stream) const;
  void shut();

  asio::io_context& io_;
  const port::Endpoint server_;
  const bool secure_;
  const Patience patience_;
  const std::string authority_;
  std::shared_ptr<ByteStream> bytes_;
  Ended ended_;
  State state_ = State::kConnecting;
  bool leaving_ = false;  // No more calls are opened on it.
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::uint64_t, std::unique_ptr<Flight>> flights_;
  std::vector<std::uint64_t> waiting_;  // For the connection.
  std::uint64_t last_number_ = 0;
  std::vector<Due> due_;
  std::vector<char> in_;
  std::string out_;
  bool writing_ = false;
  bool flush_posted_ = false;
  port::BootTimer timer_;
  base::BootInstant armed_ = base::BootInstant::max();
  base::BootInstant connect_by_;
  base::BootInstant heard_;
  base::BootInstant answer_ping_by_ = base::BootInstant::max();
};

}  // namespace holdfast::stores::etcd
