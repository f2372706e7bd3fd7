// The lock that `consul lock` takes, as a gate behind our own queue (?recipe=consul).
//
// `consul lock PATH` has one key, PATH/.lock, that the holder's session has acquired. Our
// contenders stand in their queue beside it, and the one that the queue admits acquires that key,
// too: then neither kind of client holds while the other does. Among ourselves we are served in
// order; whoever uses `consul lock` may overtake.
//
// Lock-delay: Consul keeps a key shut for a while when its holder's session ended without a
// release. It does not say how much of that is left; we know, where we saw the session end.
//
// Guarantee (rule 22): the key is acquired on the condition that it is as it was read, with the
// acquisition as its value, and given back in one step with the contender.
// Thread-safety: the loop only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/contend/backend.h"
#include "src/stores/consul/store_session.h"
#include "src/stores/consul/transport/messages.h"
#include "src/stores/consul/watches.h"
#include "src/stores/consul/writes.h"

namespace holdfast::stores::consul {

class LockGate {
 public:
  using Get = std::function<void(std::string target, base::BootInstant deadline,
                                 std::function<void(Result<HttpReply>)> done)>;
  using Alarm = std::function<void(const std::string& line)>;

  LockGate(const ConsulAddress& address, StoreSession& session, Writes& writes, Watches& watches,
           Get get, Alarm alarm)
      : address_(address),
        session_(session),
        writes_(writes),
        watches_(watches),
        get_(std::move(get)),
        alarm_(std::move(alarm)) {}

  bool on() const { return address_.recipe; }
  // Errors: kInvalidArgument (a name that `consul lock` could not have).
  Result<void> check_name(const std::string& lock) const;
  std::string key_of(const std::string& lock) const {
    return address_.shared_path + lock + "/.lock";
  }

  struct Pass {
    std::uint64_t epoch = 0;
    std::string lock;
    std::string contender;  // Its key.
    contend::Details details;
    std::weak_ptr<contend::Waker> waker;
    base::BootInstant deadline{};
    port::Done<contend::Gate> done;
  };
  void pass(Pass pass);

  // The contender before us, with its delay (a contender's key has it as its flags): should it
  // hold and die, that is what is left to wait.
  void note(const std::string& lock, const Pair& before);
  std::uint64_t flags() const {
    return on() ? static_cast<std::uint64_t>(address_.lock_delay.count()) : 0;
  }

  // Whether that contender is inside. Then its end is the key's, too.
  bool holds(const std::string& contender) const { return inside_.contains(contender); }
  void leave(const std::string& contender) { inside_.erase(contender); }
  void clear() { inside_.clear(); }

  // A holder inside that does not stand in the queue: shown, and broken, as a contender without an
  // id.
  void find_stranger(const std::string& lock, base::BootInstant deadline,
                     std::function<void(Result<std::optional<contend::QueueEntry>>)> done);

 private:
  using PassPtr = std::shared_ptr<Pass>;
  struct Delay {
    std::string session;  // The session of the last holder that was seen.
    std::chrono::milliseconds length{};
    std::optional<base::BootInstant> ended;  // When its end was seen.
    bool told = false;
  };

  void attempt(const PassPtr& pass, std::optional<std::uint64_t> index);
  void on_attempt(const PassPtr& pass, const Result<TransactionReply>& answer);
  void look(const PassPtr& pass);
  void on_look(const PassPtr& pass, const std::optional<Pair>& pair);
  void wait_for_holder(const PassPtr& pass, const Pair& pair);
  void wait_for_delay(const PassPtr& pass);

  const ConsulAddress& address_;
  StoreSession& session_;
  Writes& writes_;
  Watches& watches_;
  const Get get_;
  const Alarm alarm_;
  std::map<std::string, bool> inside_;   // Contenders.
  std::map<std::string, Delay> delays_;  // By lock.
};

}  // namespace holdfast::stores::consul
