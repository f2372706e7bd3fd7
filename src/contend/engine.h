// Runs the tickets of one client on a backend: enters them, watches what blocks them, tells grants,
// ends them. Everything here is on the loop.
//
//   Stage      answer or event                          next
//   kEntering  entered, and admitted                    kHeld
//              entered, and not                         kWaiting; or kLeaving (would not wait,
//                                                       queue full, mismatch ...), once it is sure
//                                                       that somebody holds
//              no answer                                looks for its key; enters again if it is
//                                                       surely not there
//   kWaiting   what blocks it has gone or weakened      kHeld, or waits for the next one
//   any        release, cancel, its lease ended         kLeaving
//   any        the session ended, it was taken away     kEnded
//   kLeaving   the store confirmed                      kEnded
//
// A ticket whose outcome is not known stays with the engine until it is, or until its session has
// ended: nothing is left behind for nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/contend/backend.h"
#include "src/contend/loop_timer.h"
#include "src/contend/ticket.h"
#include "src/port/registry.h"

namespace holdfast::contend {

struct ListingOfAll;

class Engine final : public Events, public std::enable_shared_from_this<Engine> {
 public:
  using BootInstant = base::BootInstant;
  template <typename T>
  using Done = port::Done<T>;

  Engine(Backend& backend, const port::StoreContext& context, machine::Duration min_ttl);

  // `now`: when the request reached the store, no earlier than its owner sent it.
  void acquire(port::AcquireRequest request, BootInstant now, Done<port::AcquisitionState> done);
  void renew(const std::vector<port::RenewItem>& items, BootInstant now, BootInstant deadline,
             const Done<std::vector<Result<port::AcquisitionState>>>& done);
  void end(const port::AcquisitionRequest& request, Done<port::EndStatus> done);
  void downgrade(const port::AcquisitionRequest& request, Done<port::AcquisitionState> done);
  void inspect(const std::string& name, BootInstant deadline, Done<std::optional<LockInfo>> done);
  // What cannot be read is left out, and told once (Events::on_alarm).
  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done);
  // Also tells of what list() leaves out.
  void probe(BootInstant deadline, Done<std::vector<Finding>> done);
  void break_lock(port::BreakRequest request, const Done<bool>& done);
  void set_value(const port::AcquisitionRequest& request, std::string value, Done<bool> done);
  void get_value(const std::string& name, BootInstant deadline, Done<std::string> done);
  void resize(port::AcquisitionRequest request, std::uint32_t capacity, const Done<bool>& done);

  // Answers everything that is under way with kClosed; nothing is told or asked afterwards.
  void close();
  bool closed() const { return closed_; }

  // --- Events.
  void on_session_ended(std::uint64_t epoch, const Error& why) override;
  void on_notify() override;
  void on_alarm(const std::string& line) override;

 private:
  using TicketName = std::pair<std::string, machine::AcquisitionId>;
  using Stage = Ticket::Stage;

  // --- engine.cc: to come in.
  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  std::optional<Error> refuse_upgrade(const port::AcquireRequest& request) const;
  void enter(const TicketPtr& ticket);
  void enter_all(const TicketPtr& told, const Result<SessionView>& opened);
  void give_up_session(const TicketPtr& ticket);
  void enter_in(const TicketPtr& ticket, const SessionView& session);
  void choose_key(Ticket& ticket, std::uint64_t epoch);
  void on_entered(const TicketPtr& ticket, const Result<Entered>& entered);
  void find_again(const TicketPtr& ticket);
  void fail_entering(const TicketPtr& ticket, const Error& error);

  // --- engine_decide.cc: to hold, or to wait.
  void look(const TicketPtr& ticket);
  void look_with(const TicketPtr& ticket, bool watching);
  WakerPtr waker_for(const TicketPtr& ticket);
  void decide(const TicketPtr& ticket, Listing listing, bool watching);
  void decide_by(const TicketPtr& ticket, const Listing& listing, const Record& record,
                 bool watching);
  bool is_readable(const std::string& lock, std::uint64_t record_rev) const;
  void note_readable(const std::string& lock, std::uint64_t record_rev);
  void read_head(const TicketPtr& ticket, Listing listing, const Record& record, std::size_t head);
  void wait_for(const TicketPtr& ticket, const Place& blocker);
  void on_handed_on(const TicketPtr& ticket, const Place& by, const machine::Token& last);
  void stand_waiting(const TicketPtr& ticket);
  void tell_waiting(const TicketPtr& ticket);
  void look_at_blocker(const TicketPtr& ticket, BootInstant deadline);
  void settle(const TicketPtr& ticket, const Listing& listing, const Record& record);
  void admit(const TicketPtr& ticket, std::uint64_t record_rev);
  void learn_number(const TicketPtr& ticket, std::uint64_t record_rev);
  void mark(const TicketPtr& ticket, std::optional<machine::Token> token);
  void outdate_others(const TicketPtr& ticket);
  void pass_gate(const TicketPtr& ticket);
  void grant(const TicketPtr& ticket);
  void finish_shrink(const TicketPtr& ticket);
  void refuse_late(const TicketPtr& ticket, const Decision& decision, const Listing& listing,
                   const Record& record);
  void look_failed(const TicketPtr& ticket, const Error& error);
  // Whether the decision that was asked for is still wanted.
  bool still_looking(const TicketPtr& ticket) const;

  // --- engine_try.cc: for those who would not wait.
  void refuse_to_wait(const TicketPtr& ticket, const Listing& listing, const Record& record,
                      const Decision& decision);
  void ask_fate(const TicketPtr& ticket, Listing listing, const Record& record,
                const Decision& decision, std::size_t at);
  void stand_by(const TicketPtr& ticket);
  void look_at_fate(const TicketPtr& ticket);
  void show_hold(const TicketPtr& ticket);

  // --- engine_end.cc: to leave.
  void leave(const TicketPtr& ticket, Result<port::AcquisitionState> verdict);
  void remove(const TicketPtr& ticket);
  void remove_again(const TicketPtr& ticket);
  void look_whether_there(const TicketPtr& ticket);
  void find_out_why(const TicketPtr& ticket);
  void on_removed(const TicketPtr& ticket, const Result<bool>& removed);
  void ended(const TicketPtr& ticket, const Result<port::EndStatus>& how);
  void give_up_unsent(const TicketPtr& ticket);
  Error unheard(const Ticket& ticket) const;
  void left_unheard(const TicketPtr& ticket, const Error& error);
  void taken_away(const TicketPtr& ticket);
  TicketPtr upgrade_of(const TicketPtr& ticket) const;

  // --- engine_look.cc: for people.
  void look_into(Locks locks, BootInstant deadline, std::function<void(ListingOfAll& all)> done);
  void list_next(const std::shared_ptr<ListingOfAll>& all);
  void tell_of(const Unknown& unknown);
  void tell_of(const std::string& lock, const Listing& listing);
  void tell_of(const std::string& lock, const std::string& trouble);
  // To who is kept out by it: what was read of the lock may not be all.
  void tell_who_is_kept_out(const std::string& lock, const Listing& listing);

  // --- engine_views.cc: by people, and values.
  void break_as_listed(const std::shared_ptr<port::BreakRequest>& request, const Done<bool>& done,
                       int attempts);
  void break_in(const std::shared_ptr<port::BreakRequest>& request, const Done<bool>& done,
                int attempts, const Listing& listing);
  void resize_as_listed(const std::shared_ptr<port::AcquisitionRequest>& request,
                        std::uint32_t capacity, const Done<bool>& done, int attempts);
  void resize_in(const std::shared_ptr<port::AcquisitionRequest>& request, std::uint32_t capacity,
                 const Done<bool>& done, int attempts, const Listing& listing);
  void queue_shrink(const port::AcquisitionRequest& request, std::uint32_t by, std::uint32_t from,
                    const Done<bool>& done);

  std::optional<Result<port::AcquisitionState>> renew_one(const port::RenewItem& item,
                                                          BootInstant now,
                                                          const SessionView& session);
  void await_session(const TicketPtr& ticket, const port::RenewItem& item, BootInstant now,
                     BootInstant deadline);
  void answer_when_confirmed(const TicketPtr& ticket);
  port::AcquisitionState state_of(const Ticket& ticket) const;
  static machine::Duration lease_of(const Ticket& ticket, const SessionView& session);
  static std::optional<machine::Duration> more_in(const Ticket& ticket, const SessionView& session);
  static BootInstant told_until(const Ticket& ticket, const SessionView& session);
  void answer(const TicketPtr& ticket, const Result<port::AcquisitionState>& result);
  void push(const TicketPtr& ticket, port::Push::Kind kind);
  void hint(const std::vector<TicketPtr>& tickets);
  TicketPtr find(const std::string& name, const machine::AcquisitionId& id) const;

  // At that time, unless the ticket has ended.
  Dues::iterator at(BootInstant when, const TicketPtr& ticket,
                    void (Engine::*then)(const TicketPtr&));
  void watch_lease(const TicketPtr& ticket);
  void on_lease_end(const TicketPtr& ticket);
  void enter_again(const TicketPtr& ticket);
  BootInstant lease_end(const Ticket& ticket) const;
  void on_timer();
  BootInstant soon() const;

  // A question has failed, or was answered; a session was confirmed: told to people as it changes.
  void note_failure(const Error& error);
  void note_answer();
  void note_session(const SessionView& session);
  static Error keepalives_unanswered();

  Backend& backend_;
  port::Listener* listener_;
  const machine::Duration min_ttl_;
  LoopTimer timer_;
  std::map<TicketName, TicketPtr> tickets_;
  std::map<TicketName, Error> broken_;  // What their holders are told, once.
  // The newest record of each lock that was read, and was of a form that is known.
  std::unordered_map<std::string, std::uint64_t> readable_;
  Dues due_;
  std::vector<TicketPtr> awaiting_session_;  // In the order in which they came.
  std::uint64_t last_issue_ = 0;
  std::string told_of_keys_;                                    // That no lock has.
  std::unordered_map<std::string, std::string> told_of_locks_;  // What cannot be read of them.
  bool answered_ = false;                                       // The store, once at least...
  bool away_ = false;  // ...and not since that was told, when the session was so:
  SessionView away_since_{};
  // What the names of this session's contenders begin with, where they come again.
  std::uint64_t names_ = 0;
  std::uint64_t names_epoch_ = 0;
  bool closed_ = false;
};

}  // namespace holdfast::contend
