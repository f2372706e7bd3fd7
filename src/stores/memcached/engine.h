// The steps of a client: which commands run when, on which lock, and what becomes of them when a
// race, a connection or a reply is lost.
//
// Commands about one lock run in the order in which they were submitted, one step at a time; those
// that come meanwhile go into the next step together. A step reads the lock's document, runs the
// machine here, and writes the document if it is still the one that was read; else it begins anew.
// A step does not read where it can guess: the document is as this client wrote it last, or there
// is none. A guess is believed only when the write that follows from it succeeds. The commonest two
// steps do not run the machine (alone.h).
//
// Waiters: one question per lock and client, however many wait, for the document's cas number; the
// document itself is read when that has changed, or when a lease in it has run out.
//
// Guarantee: each operation ends exactly once, on the loop: with an answer, by `fail`, or with
// kClosed. kUnavailable only when nothing of it was applied or can be.
//
// Thread-safety: submit(), look(), ask() and the two *_here() from any thread; everything else on
// the loop.
// Ownership: the listener and the loop outlive it. Time: boot time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/jitter.h"
#include "src/base/local_mutex.h"
#include "src/machine/lock_machine.h"
#include "src/port/boot_timer.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/memcached/document.h"
#include "src/stores/memcached/inline_steps.h"
#include "src/stores/memcached/link.h"
#include "src/stores/memcached/protocol/command.h"
#include "src/stores/memcached/sightings.h"
#include "src/stores/memcached/waiting.h"

namespace holdfast::stores::memcached {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  struct Tuning {
    std::function<machine::Instant()> now{};  // Instead of boot time.
    std::shared_ptr<Sightings> sightings{};
  };
  // nullopt: there is no document.
  using Seen = std::function<void(Result<std::optional<Document>>)>;
  using Replied = std::function<void(Result<Reply>)>;

  Engine(const MemcachedAddress& address, const port::StoreContext& context, Tuning tuning);

  std::string address() const { return address_.display(); }
  machine::Instant now() const;

  // The server has been found fit: from now on losses of the connection are told.
  void opened() { opened_ = true; }
  void submit(CommandPtr command);
  // Reads a document.
  void look(std::string name, base::BootInstant deadline, Seen seen);
  // Sends a request that changes nothing.
  void ask(std::string request, base::BootInstant deadline, Replied replied);

  // On the calling thread, where nobody uses the lock and no other thread is doing the same.
  // nullopt: use submit(). Blocking: until the request's deadline.
  InlineSteps::Acquired acquire_here(const port::AcquireRequest& request);
  InlineSteps::Ended release_here(const port::AcquisitionRequest& request);

  // From a thread that is not the loop: ends what is under way, kClosed; releases have until the
  // deadline.
  void close(base::BootInstant deadline);
  void abandon() noexcept;

 private:
  // A document's cas number, with the connection that told it: it counts nowhere else.
  struct Version {
    std::size_t link = 0;
    std::uint64_t generation = 0;
    std::uint64_t number = 0;  // 0: there is no document.
    friend bool operator==(const Version&, const Version&) = default;
  };
  // A document as this client wrote it last. It is kept encoded, because a client may hold 10,000
  // locks. Its lease's end is among the sightings.
  struct Known {
    Version version;
    std::string bytes;  // Empty: not known.
    // Until then this acquisition can be released without the machine (leave_alone()).
    machine::AcquisitionId holder{};
    machine::Instant lease_end{};
  };
  struct Lock {
    std::vector<CommandPtr> waiting;
    Known known;
    bool busy = false;
    bool idle() const { return !busy && waiting.empty() && known.bytes.empty(); }
  };
  using Locks = std::unordered_map<std::string, Lock>;
  struct Ran;
  struct Step;
  using StepPtr = std::shared_ptr<Step>;

  std::uint64_t floor();
  void on_loop(port::Task task);
  void take_in();
  void enlist(const CommandPtr& command);
  void fail_closed(const CommandPtr& command);
  void enqueue(CommandPtr command);
  void start_next(Locks::iterator lock);
  void begin(const StepPtr& step);
  bool guess(const StepPtr& step);
  void read(const StepPtr& step);
  void on_read(const StepPtr& step, Version version, const Answer& answer);
  void run(const StepPtr& step, Version version, Document document);
  bool acquire_alone(Step& step);
  bool release_alone(Step& step, const Known& known);
  bool run_machine(Step& step);
  Applied apply(const Command& command, Ran& ran);
  void make_document(Step& step) const;
  void write(const StepPtr& step);
  void on_written(const StepPtr& step, const Answer& answer);
  void refuse_large(const StepPtr& step);
  void remember(Step& step);
  void forget_all();
  void answer_all(const StepPtr& step);
  void tell_waiters(const Ran& ran);
  void again(const StepPtr& step, const Answer* lost);
  void finish(const std::string& name);
  void fail_all(const StepPtr& step, const Error& why);
  void fail(const CommandPtr& command, const std::string& why);
  void settle(const Command& command, machine::Outcome outcome);
  void refuse_later(const std::string& name, machine::AcquisitionId id);
  void watch_deadlines();
  void expire_waiting();
  void at(base::BootInstant when, port::Task task);
  void run_timers();
  base::BootInstant deadline_of(const Step& step) const;
  std::size_t link_of(const Step& step) const;
  bool take(const CommandPtr& command);  // False: it has ended.

  void poll();
  void arm_poll(base::BootInstant when);
  void set_due(const std::string& name);
  void on_polled(const std::string& name, const Version& version, const Answer& answer);
  void look_for_waiters(const std::string& name);
  bool ran_out(const WaitingTickets<Version>::Lock& lock) const;
  Error corrupt(const std::string& name, const Error& why) const;

  asio::io_context& io_;
  port::Loop* const loop_;
  port::Listener* const listener_;
  const MemcachedAddress address_;
  const Tuning tuning_;
  const std::shared_ptr<Sightings> sightings_;

  base::LocalMutex mutex_;
  base::LocalCondition ended_one_;
  std::size_t ends_under_way_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::vector<CommandPtr> inbox_ HOLDFAST_GUARDED_BY(mutex_);  // For the loop's next turn.

  std::vector<machine::AcquisitionId> late_here_ HOLDFAST_GUARDED_BY(mutex_);  // As late_.
  std::atomic<std::uint64_t> floor_{0};
  InlineSteps here_;

  // The loop's, but for opened_.
  std::vector<CommandPtr> live_;
  Locks locks_;  // Locks that are not idle.
  std::size_t known_ = 0;
  std::string bytes_;  // The document that is being written.
  rows::EndedIds ended_{8192};
  rows::EndedIds late_{8192};  // Their requests may still arrive.
  WaitingTickets<Version> waiting_;
  std::multimap<base::BootInstant, port::Task> timers_;
  base::Jitter jitter_;
  std::atomic<bool> opened_{false};
  bool closed_ = false;
  bool lost_ = false;      // The connection, and nobody has been told that it is back.
  bool expiring_ = false;  // expire_waiting() is to come.
  std::optional<base::BootInstant> poll_at_;
  port::BootTimer timer_;
  std::array<std::shared_ptr<Link>, 2> links_;  // For everything; for renewals.
};

}  // namespace holdfast::stores::memcached
