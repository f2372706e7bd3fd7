// Calls that wait in a lock's queue until it is theirs (docs/design/0062-http-port.md).
//
// Guarantee: a call is answered once: granted in the order of the queue, refused, or given up when
// its time is over. One that was given up, or whose caller has gone, leaves the queue.
// Not guaranteed: an answer when the service ends before. The ticket then stays until its lease
// ends; a call with the same id goes on with it.
// Thread-safety: the loop only. Ownership: the loop outlives it. Blocking: never. Time: boot time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>

#include "src/port/alarms.h"
#include "src/server/service.h"

namespace holdfast::server {

// Told when the caller of a request under way has gone.
struct HttpDeparture {
  std::function<void()> then{};
};

class HttpWaits {
 public:
  explicit HttpWaits(asio::io_context& io);

  // The outcomes are kHeld, kBusy when the time is over, and those of the service. `lease_end`
  // counts from `at`, as in every answer. Another call with its id ends a call: kClosed.
  void enter(Service& service, const machine::Acquire& wish, std::chrono::milliseconds at_most,
             const std::shared_ptr<HttpDeparture>& departure, Done<Answer> done);
  void on_push(const ClientName& client, const port::Push& push);
  // The service ends.
  void drop_all();
  std::size_t count() const { return waits_.size(); }

 private:
  struct Wait;
  using WaitPtr = std::shared_ptr<Wait>;

  bool is_on(const WaitPtr& wait) const;
  void on_answer(const WaitPtr& wait, const Result<Answer>& answer);
  void shorten(const WaitPtr& wait, machine::Token token);
  void end(const WaitPtr& wait, const Result<Answer>& answer);
  void give_up(const WaitPtr& wait, bool tell);
  void take_out(const WaitPtr& wait);

  // Nobody else has this name, so nobody else is told of these grants.
  const ClientName client_;
  port::Alarms alarms_;
  std::map<machine::AcquisitionId, WaitPtr> waits_;
};

}  // namespace holdfast::server
