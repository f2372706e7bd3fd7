// Calls that wait in a lock's queue until it is theirs (docs/design/0062-http-port.md).
//
// Guarantee: a call is answered once: granted in the order of the queue, refused, or given up when
// its time is over. One that was given up, or whose caller has gone, leaves the queue. It ends no
// hold that another call was answered with.
// Not guaranteed: an answer when the service ends before. The ticket then stays until its lease
// ends; a call with the same id goes on with it.
// Thread-safety: the loop only. Ownership: the loop outlives it. Blocking: never. Time: boot time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/port/alarms.h"
#include "src/server/service.h"

namespace holdfast::server {

// Told when the caller of a request under way has gone.
struct HttpDeparture {
  std::function<void()> then{};
  std::optional<std::uint32_t> shard{};  // The one that works on it; none: all of this server.
};

class HttpWaits {
 public:
  // At most so many calls wait, in all and of one address. Others need connections, too.
  HttpWaits(asio::io_context& io, std::size_t most, std::size_t most_of_address);

  // The client of every acquisition that comes over HTTP: pushes about them come here.
  const ClientName& client() const { return client_; }
  bool has_room(const std::string& address) const;

  struct Call {
    Service& service;
    std::string address;
    std::string user;                     // As in a Request.
    std::chrono::milliseconds at_most{};  // Counted from when it waits.
    std::shared_ptr<HttpDeparture> departure{};
  };
  // The outcomes are kHeld, kCancelled when the time is over, and those of the service.
  // `lease_end` counts from `at`, as in every answer.
  void enter(const Call& call, const machine::Acquire& wish, Done<Answer> done);
  // A call with this id waits, for the lock in another mode: it goes on waiting.
  bool has_in_other_mode(const std::string& lock, machine::AcquisitionId id,
                         const machine::Mode& mode) const;
  // Another call with this id goes on with the ticket: the older one is answered kClosed.
  void replace(const std::string& lock, machine::AcquisitionId id);
  // Its ticket is being released: a call that waits with it is answered kCancelled.
  void release(const std::string& lock, machine::AcquisitionId id);
  void on_push(const ClientName& client, const port::Push& push);
  // The service ends.
  void drop(const Service& service);
  void drop_all();

 private:
  struct Wait;
  using WaitPtr = std::shared_ptr<Wait>;
  using Key = std::pair<machine::AcquisitionId, std::string>;  // With the lock's name.

  bool is_on(const WaitPtr& wait) const;
  void arm(const WaitPtr& wait, std::chrono::nanoseconds after);
  void on_alarm(const WaitPtr& wait);
  void on_answer(const WaitPtr& wait, const Result<Answer>& answer);
  void lengthen(const WaitPtr& wait);
  void on_granted(const WaitPtr& wait);
  void shorten(const WaitPtr& wait, const Answer& held);
  void end_older(const std::string& lock, machine::AcquisitionId id, const Error& why);
  void end(const WaitPtr& wait, const Result<Answer>& answer);
  void give_up(const WaitPtr& wait, bool tell);
  void take_out(const WaitPtr& wait);
  Request request(const WaitPtr& wait, machine::Action action) const;

  // Nobody else has this name, so nobody else is told of these grants.
  const ClientName client_;
  const std::size_t most_;
  const std::size_t most_of_address_;
  port::Alarms alarms_;
  std::map<Key, WaitPtr> waits_;
  std::map<std::string, std::size_t> of_address_;
};

}  // namespace holdfast::server
