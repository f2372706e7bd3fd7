// The store in front: it lets one contender after the other pass to the arbiter.
//
//   Ticket     entered by            left by
//   kAsking    enter(), ask()        the filter's answer, or its silence
//   kWaiting   "wait"                a push, a poll or a renewal that says "yours"
//   kPassed    "yours"               leave(), or its lease ended
//   kOver      leave(), or no answer -
//
// Guarantee: whatever the filter says, or fails to say, affects speed only: the caller asks the
// arbiter before it believes anything. A request that the filter does not answer in time ends the
// ticket with kNone, and for a second or so no further one is made.
// Thread-safety: the loop only, but open(), close() and abandon_after_fork(). A thread of its own
// sends renewals, which may block, and opens the store again.
// Ownership: the loop and the listener outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/jitter.h"
#include "src/base/local_mutex.h"
#include "src/contend/loop_timer.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores::hybrid {

class Filter : public std::enable_shared_from_this<Filter>, private port::Listener {
 public:
  enum class News : std::uint8_t {
    kWaiting,
    kPassed,
    kBusy,  // For a ticket that does not wait.
    kNone,  // The filter is of no use now.
  };
  using Hear = std::function<void(News)>;

  struct Settings {
    std::chrono::milliseconds timeout{};
    std::chrono::milliseconds lease{};
  };

  struct Ticket;
  using TicketPtr = std::shared_ptr<Ticket>;

  Filter(port::StoreFactory factory, port::StoreUrl url, const port::StoreContext& context,
         const Settings& settings);
  ~Filter() override;

  // Tries to connect. A filter that cannot be reached is opened later, by itself.
  // Errors: kInvalidArgument and kUnsupported: the URL must be changed.
  Result<void> open();

  // `hear` is called on the loop, not inline, until the ticket is over. nullptr: the filter is out.
  TicketPtr enter(const std::string& name, bool may_wait, port::OwnerPtr owner, Hear hear);
  // Asks again for a ticket that waits: hear() is called with what the filter says.
  void ask(const TicketPtr& ticket);
  void leave(const TicketPtr& ticket);

  void probe(base::BootInstant deadline, port::Done<std::vector<Finding>> done);

  // On the loop; then close().
  void stop();
  void close();
  void abandon_after_fork() noexcept;

 private:
  void on_push(const port::Push& push) override;
  void on_pushes_missed() override;

  void send(const TicketPtr& ticket);
  void on_answer(const TicketPtr& ticket, port::AcquisitionId id,
                 const Result<port::AcquisitionState>& answer);
  void begin_anew(const TicketPtr& ticket);
  void pass(const TicketPtr& ticket);
  void tell(const TicketPtr& ticket, News news);
  void end(const TicketPtr& ticket, News news);
  void on_failed(const std::string& why);
  void on_beat();
  void on_beaten(const std::vector<TicketPtr>& asked,
                 const Result<std::vector<Result<port::AcquisitionState>>>& answers);
  void adopt(std::unique_ptr<port::Store> store);
  void open_later();
  void run(port::Task job) HOLDFAST_EXCLUDES(mutex_);
  void work() HOLDFAST_EXCLUDES(mutex_);
  void alarm(const std::string& line);

  const port::StoreFactory factory_;
  const port::StoreUrl url_;
  const Settings settings_;
  port::StoreContext context_;
  port::Listener* const listener_;
  const std::string shown_;  // The URL without secrets.

  // The loop's.
  std::unique_ptr<port::Store> store_;
  port::Duration ttl_{};
  std::map<port::AcquisitionId, TicketPtr> tickets_;
  contend::LoopTimer beat_timer_;
  base::BootInstant out_until_{};
  bool out_ = false;
  bool beating_ = false;
  bool opening_ = false;
  bool stopped_ = false;
  std::uint64_t last_issue_ = 0;
  base::Jitter jitter_;

  base::LocalMutex mutex_;
  base::LocalCondition wanted_;
  port::Task job_ HOLDFAST_GUARDED_BY(mutex_);
  bool end_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace holdfast::stores::hybrid
