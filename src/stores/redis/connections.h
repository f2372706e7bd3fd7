// One Redis server as a store uses it: its connections, and what is known about it.
//
//   pipeline    the requests of all threads        direct     one thread that drives it itself
//   confirmed   those that replicas have to        renewer    renewals
//               confirm (null: nothing)            subscriber pushes
//
// Guarantee: run() and its kin send a script's hash only after the server has shown that it knows
// the script: a request that is refused for an unknown hash is sent again, and later requests would
// overtake it. An error that the server answers is a reply of kind kError.
// Thread-safety, blocking, time, errors: those of the connections.
// Ownership: the io_context and the requests outlive it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/stores/redis/confirming.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/renewer.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/subscriber.h"

namespace holdfast::stores::redis {

class Connections {
 public:
  struct Setup {
    asio::io_context& io;
    const Requests& requests;
    Confirmation confirmation;
    std::string channel;
    Subscriber::Events events;
    std::function<void(std::string)> alarm;
  };
  Connections(RemotePtr remote, Setup setup);

  const std::string& where() const noexcept { return where_; }
  const Remote& remote() const noexcept { return *remote_; }

  // Asks for the server's time, and with `rights` for missing permissions. The renewer gets the
  // time. Blocks. Errors: kUnavailable, kPermissionDenied.
  Result<void> greet(const ScriptCall& rights, base::BootInstant deadline);

  enum class Prefix : std::uint8_t { kNone, kAsking };
  void run(ScriptCall script, base::BootInstant deadline, port::Done<Reply> done,
           Prefix prefix = Prefix::kNone) {
    send(std::optional<ScriptCall>(std::move(script)), deadline, std::move(done), prefix);
  }
  // The same without a copy, for a caller that keeps the script.
  void run(std::shared_ptr<const ScriptCall> script, base::BootInstant deadline,
           port::Done<Reply> done, Prefix prefix) {
    send(std::move(script), deadline, std::move(done), prefix);
  }
  // As run(), and tells whether the replicas have confirmed it.
  using DoneConfirmed = std::function<void(Result<Reply>, const Missing&)>;
  void run_confirmed(ScriptCall script, base::BootInstant deadline, DoneConfirmed done);
  // Runs the script on the calling thread; nullopt if another thread is using this connection, or
  // if a crowd of others' requests is under way, which this one had better join.
  // `pushes_first` puts a PING before the script. The server writes its answers in the reverse
  // order in which they became due, and the PING makes this connection's answer due first. So the
  // next holder gets its grant before this caller gets its answer.
  std::optional<Result<Reply>> run_here(const ScriptCall& script, base::BootInstant deadline,
                                        bool pushes_first = false);
  // With one command before the script, or one after it; "": none.
  std::optional<Result<std::vector<Reply>>> call_here(const ScriptCall& script,
                                                      base::BootInstant deadline,
                                                      const std::string& before,
                                                      const std::string& after);
  void read(const std::vector<std::string_view>& words, base::BootInstant deadline,
            port::Done<Reply> done, Prefix prefix = Prefix::kNone);

  // By the permissions at the last check.
  std::atomic<bool>& may_write() noexcept { return may_write_; }
  bool confirms() const noexcept { return confirmed_ != nullptr; }
  Renewer& renewer() noexcept { return renewer_; }
  Subscriber& subscriber() noexcept { return subscriber_; }

  // As with Pipeline.
  void close();
  void abandon() noexcept;

 private:
  // `script` points to it.
  template <typename Pointer>
  void send(Pointer script, base::BootInstant deadline, port::Done<Reply> done, Prefix prefix);
  // Returns true if the script must be sent whole.
  bool note_known(const ScriptCall& script, const Result<Reply>& reply);
  std::atomic<bool>& known(const ScriptCall& script) {
    return known_[static_cast<std::size_t>(script.name())];
  }

  const std::string where_;
  const RemotePtr remote_;
  std::array<std::atomic<bool>, kScripts> known_{};  // To the server, by its answers.
  std::atomic<bool> may_write_{false};

  Pipeline pipeline_;
  const std::unique_ptr<Pipeline> confirmed_;
  DirectLink direct_;
  Renewer renewer_;  // After greet(), the renewal thread's.
  Subscriber subscriber_;
};

}  // namespace holdfast::stores::redis
