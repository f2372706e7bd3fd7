// One acquisition in a consensus store as a pure step machine: state and event in, state and
// actions out. It reads no clock and calls no store; time is a number that comes with each event.
// The engine (engine.h) carries out the actions and brings the answers.
//
// The table shows where each event leads. "Decided" is any outcome of a decision: a question that
// the decision still needs, kWaiting, kHeld, or kRemoving for a caller that is refused. The full
// table is in acquisition_table.h; every step is checked against it wherever assert() is on.
//
//   State               request under way         event                   next state
//   Entering: no contender has been seen
//    kAwaitingSession   a session                 it is open              kCreating
//    kCreating          create, and list          created                 decided
//                                                 reply lost              kSearching
//                                                 surely not applied      kCreatePause
//    kSearching         list, latest              the contender is there  kListing
//                                                 it is not               kCreatePause
//                                                 reply lost              kSearchPause
//    kCreatePause       (pause)                   time                    kAwaitingSession
//    kSearchPause       (pause)                   time                    kSearching
//    kFinding           list with all details     the kept contender      kKeeping (adoption)
//   Deciding: the contender stands in the queue
//    kListing           list, perhaps watched     listed                  decided
//    kListingInFull     list with all details     listed                  decided (permits, try)
//    kReadingRecord     the lock's record         read                    decided
//    kReadingHead       the head of the queue     read                    decided
//    kReadingFate       the entry in doubt        read                    kStandingBy (try), or
//                                                                         decided
//    kReadingBlocker    the entry before; watch   still there             kWaiting
//                                                 gone, or weakened       kListing
//    kDropping          remove a blocker whose    removed, or not         kListing
//                       kept lease is over
//    kSettling          write the record          written                 as admitted: kMarking ...
//                                                 changed meanwhile       kListing
//    kPassingGate       another library's gate    passed                  kHeld
//                                                 closed                  kWaiting
//    kLearningNumber    the own entry             read                    kHeld, kMarking
//    kMarking           write the own details     written                 kHeld, kListingOthers
//    kListingOthers     list with all details     listed                  kHeld, kOutdatingOthers
//    kOutdatingOthers   write the record          written                 kHeld
//    kKeeping           a lease of its own        written                 kHeld
//                                                 changed meanwhile       kLearningNumber
//    kListingShrink     list with all details     listed                  kShrinking
//    kShrinking         remove it, with a new N   written                 kEnded
//    any of these                                 no answer               kLookPause
//   Waiting
//    kWaiting           (time of a kept blocker)  time                    kListing
//    kStandingBy        (watch, poll)             woken, time             kListing (try)
//    kWaiting           (watch)                   woken                   kListing
//                                                 handed off              kHeld
//                                                 heartbeat               kPolling
//    kPolling           the blocker               unchanged               kWaiting
//    kLookPause         (pause)                   time, woken             kListing
//    kSessionLost       (nothing)                 the session has ended   kEnded
//   kHeld               (see below)
//   Leaving
//    kRemoving          remove                    removed                 kEnded
//                                                 no answer               kRemovePause
//    kRemovePause       (pause)                   time                    kRemoving
//   kEnded
//
//   any but entering    release, cancel, lease over                         kRemoving
//   entering            release, cancel    unchanged, but unwanted: kRemoving once the contender
//                                          is seen, kEnded once it surely is not there
//   contender seen,     the session has ended, or the contender was taken   kEnded
//   or unwanted
//   perhaps kept        the session has ended                               kRemoving
//
// One that is to outlive its client (AcquireRequest::outlives_client) is kept from the grant on
// (acquisition_keep.cc). Then its session may end, and its own lease ends it at the store.
//
// While it holds, four requests run independently of the state: it shows others that a try holds
// (kShow), checks that its contender is still there (kCheck), weakens it in place (kRewrite), and
// renews its own lease (kKeep).
//
// Guarantee: kHeld only after the store has confirmed what admits it. A contender that may be in
// the store is not forgotten before its removal is confirmed or its session has ended.
// Not guaranteed: that an action is carried out in time, or at all; that the owner has not lost its
// lease meanwhile, which the session layer counts by itself.
// Thread-safety: one thread at a time. Time: boot time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/backend.h"
#include "src/contend/queue.h"
#include "src/machine/command.h"
#include "src/port/store.h"

namespace holdfast::contend {

enum class State : std::uint8_t {
  kAwaitingSession,
  kCreating,
  kSearching,
  kCreatePause,
  kSearchPause,
  kFinding,
  kListing,
  kListingInFull,
  kReadingRecord,
  kReadingHead,
  kReadingFate,
  kReadingBlocker,
  kDropping,
  kSettling,
  kPassingGate,
  kLearningNumber,
  kMarking,
  kListingOthers,
  kOutdatingOthers,
  kKeeping,
  kListingShrink,
  kShrinking,
  kStandingBy,
  kWaiting,
  kPolling,
  kLookPause,
  kSessionLost,
  kHeld,
  kRemoving,
  kRemovePause,
  kEnded,
};

// Facts that a step may use besides its event.
struct Context {
  base::BootInstant now{};
  SessionView session{};
};

// --- Events.

struct Begin {};
// The session is open, or could not be opened.
struct SessionOpened {
  Result<void> opened;
  std::optional<machine::AcquisitionId> id;  // Its new id, if the store reuses names.
};
// The caller asks again for the outcome.
struct Asked {
  base::BootInstant deadline{};
};
// The caller wants it to end.
struct End {
  base::BootInstant deadline{};
};
struct Leave {};  // The acquisition that it upgrades has left.
struct Weaken {   // Downgrade of an exclusive holder.
  base::BootInstant deadline{};
};
// Its holder lets it go: from now on it is kept for that time, with that value.
struct LetGo {
  std::uint64_t seq = 0;
  machine::Duration ttl{};
  std::optional<std::string> value{};
  base::BootInstant deadline{};
};
// The watched entry or folder may have changed.
struct Woken {};
// The entry `by` was given back by a holder with this token, and watched.
struct HandedOff {
  QueueEntry by;
  machine::Token last;
};
struct Notified {};  // Its contender may have been taken away.
struct SessionEnded {};
struct TimeIsUp {};  // next_due() has come.

// Requests that may be under way at the same time. Each slot numbers its own.
enum class Slot : std::uint8_t { kMain, kShow, kCheck, kRewrite, kKeep };
inline constexpr std::size_t kSlots = 5;

using Reply = std::variant<Result<Entered>, Result<Listing>,
                           Result<std::pair<Record, std::uint64_t>>, Result<std::optional<Read>>,
                           Result<std::optional<std::uint64_t>>, Result<Gate>, Result<bool>>;
struct Replied {
  Slot slot{};
  Reply reply;
  // This client has read the record of that listing before, and this version knows its form.
  bool record_known = false;
};

using Event = std::variant<Begin, SessionOpened, Asked, End, Leave, Weaken, LetGo, Woken, HandedOff,
                           Notified, SessionEnded, TimeIsUp, Replied>;

// --- Actions. They are moved more often than made, so large and rare parts are behind pointers.

enum class Watch : std::uint8_t {
  kKeep,     // Keep the present watch, if any.
  kNone,     // Drop it.
  kWake,     // Replace it: Woken on a change.
  kHandoff,  // Replace it: Woken, or HandedOff.
};

// Requests to the store. The engine adds the acquisition's lock, epoch, key and entry.
struct AwaitSession {};
struct Create {};
struct ListQueue {
  bool latest = false;
  Watch watch = Watch::kNone;
};
struct ListInFull {};
struct ReadRecord {};
struct ReadEntry {
  std::unique_ptr<QueueEntry> entry;
  Watch watch = Watch::kKeep;
};
struct WriteDetails {
  std::unique_ptr<Details> details;
};
struct Apply {
  std::unique_ptr<Change> change;
};
struct KeepEntry {
  std::unique_ptr<Details> details;
  std::unique_ptr<std::string> value;  // nullptr: it stays as it is.
};
struct DropEntry {
  std::unique_ptr<QueueEntry> entry;
};
struct PassGate {
  std::unique_ptr<Details> details;
};
struct Remove {
  bool handoff = false;
};
using Request = std::variant<AwaitSession, Create, ListQueue, ListInFull, ReadRecord, ReadEntry,
                             WriteDetails, Apply, KeepEntry, DropEntry, PassGate, Remove>;
struct Ask {
  Slot slot{};
  std::uint32_t number = 0;  // A reply counts while it is the newest of its slot (wants()).
  base::BootInstant deadline{};
  Request request;
};
// Answers the first `count` callers.
struct Answer {
  std::size_t count = 0;
  Result<port::AcquisitionState> result;
};
struct AnswerEnds {
  Result<port::EndStatus> result;
};
struct AnswerDowngrades {
  Result<port::AcquisitionState> result;
};
struct AnswerKeeps {
  Result<bool> result;
};
struct Tell {
  port::Push push;
};
struct NoteBroken {  // From now on its owner is told so whenever it asks.
  Error why;
};
struct NoteUnheard {  // No server has answered in time.
  Error why;
};
struct NoteKeptOut {  // By the entries of this queue, some of which may be unreadable.
  std::unique_ptr<Listing> listing;
};
struct NotifySessions {
  std::vector<std::string> tags;
};
struct Forget {};  // It has ended; answers follow.
using Action = std::variant<Ask, Answer, AnswerEnds, AnswerDowngrades, AnswerKeeps, Tell,
                            NoteBroken, NoteUnheard, NoteKeptOut, NotifySessions, Forget>;
using Actions = std::vector<Action>;

// Properties of a store that never change while it is open.
struct StoreTraits {
  std::string store;  // Its name, for errors.
  bool rewrites = true;
  bool gated = false;
  bool keeps = false;
};

class AcquisitionFsm {
 public:
  using BootInstant = base::BootInstant;

  // `now` is when the request arrived, not before its owner sent it. `upgrades` is the acquisition
  // to upgrade, or nullptr.
  AcquisitionFsm(const StoreTraits& traits, port::AcquireRequest request,
                 const AcquisitionFsm* upgrades, BootInstant now);
  // An acquisition without an owner: shrinks N of a permits lock by `by` in queue order.
  static AcquisitionFsm shrink(const StoreTraits& traits, const port::AcquisitionRequest& request,
                               std::uint32_t by, std::uint32_t from, BootInstant now);
  // Takes over a kept contender, of this client or of another one.
  static AcquisitionFsm adopt(const StoreTraits& traits, const port::RenewItem& item,
                              BootInstant came, BootInstant deadline);

  // Appends the actions in their order. A step may run while actions of an earlier one are still
  // pending; these are carried out first.
  void step(Event&& event, const Context& context, Actions& actions);
  // The answer to a renewal that arrived at `came`; nullopt if it comes later as an Answer, by the
  // deadline or soon after.
  std::optional<Result<port::AcquisitionState>> renew(const port::RenewItem& item, BootInstant came,
                                                      BootInstant deadline, const Context& context,
                                                      Actions& actions);
  // Whether that request is not outdated.
  bool wants(Slot slot, std::uint32_t number) const;
  BootInstant next_due() const;

  // Uses `known` as its owner if they differ in the time of the request only; otherwise `known`
  // becomes its owner. So all locks of one client share the text.
  void share_owner(machine::OwnerPtr& known);

  port::AcquisitionState status(const Context& context) const;
  State state() const { return state_; }
  const std::string& lock() const { return lock_; }
  const machine::AcquisitionId& id() const { return id_; }
  bool outlives_client() const { return outlives_client_; }
  QueueEntry entry() const { return {key(), entry_.order, {}, entry_.created, entry_.modified}; }
  const Key& key() const { return entry_.key; }
  // The contender is created with these. The engine adds the session's part (Details::lease,
  // session).
  Details details() const { return details_of(written_); }
  bool weakened() const { return written_.weakened; }
  machine::Token token() const { return {0, token_}; }
  std::uint64_t epoch() const { return epoch_; }
  bool held() const { return state_ == State::kHeld; }
  bool ended() const { return state_ == State::kEnded; }
  bool leaving() const;
  bool waits() const;  // It waits, and its owner was told so.
  // Its contender is exclusive and lives by the session, so this client is the first to know of its
  // end. A waiter of the same client that it blocks needs no watch at the store.
  bool can_be_followed() const;
  // Its token, if it held alone until the store has confirmed its removal (HandedOff::last).
  std::optional<machine::Token> handed_off() const;
  bool may_be_watching() const;
  bool system() const { return entry_.key.shape == Shape::kShrink; }
  // Perhaps it is not its session's any more.
  bool perhaps_kept() const { return keeping_ && keeping_->perhaps; }
  bool kept() const { return keeping_ && keeping_->until != BootInstant{}; }
  // As the store names it; empty: none.
  std::string kept_lease() const {
    return keeping_ && keeping_->kept ? keeping_->kept->lease : std::string();
  }

 private:
  // Times at which something is due, each at most once.
  enum Alarm : std::uint8_t { kStateAlarm, kLeaseAlarm, kShowAlarm, kCheckAlarm, kConfirmAlarm };
  static constexpr std::size_t kAlarms = 5;
  // The first two are always kept, and the others while one of them is set.
  static constexpr std::size_t kLastingAlarms = 2;

  // It has to remember this until it holds or leaves: what was asked for, and the known part of the
  // queue.
  struct View {
    port::AcquireRequest request;          // Without the owner.
    std::unique_ptr<const Error> unheard;  // kCreatePause: why it is surely not there.
    machine::Duration session_length{};
    std::optional<BootInstant> gate_opens_at;
    // The decision under way.
    Listing listing;
    Record record;
    Decision decision;
    std::size_t at = 0;               // The entry whose details are being read.
    bool watching = false;            // The folder is watched already.
    bool in_doubt = false;            // The entry at `at` is marked as a try.
    std::uint64_t record_rev = 0;     // The record's revision when the queue admitted it.
    std::vector<std::string> others;  // kShrinking: sessions to be notified.
    // Kept longer than a decision.
    BootInstant blocker_ends = BootInstant::max();  // If the store does not end a kept one.
    std::optional<QueueEntry> blocker;  // kWaiting: nothing, if it watches the folder or a gate.
    std::optional<QueueEntry> head;     // The head of the queue, read once.
  };

  // A holder has this while something is due besides the end of its lease.
  struct Beside {
    std::array<BootInstant, kAlarms - kLastingAlarms> due;
    BootInstant answer_from{};  // A renewal that waits for a later session deadline is answered
    BootInstant answer_by{};    // from the first time on as things are, and by the second at all.
  };
  Beside& beside();
  void forget_beside();  // If nothing of it is due.

  void on(const Begin&);
  void on(SessionOpened& event);
  void on(const Asked& event);
  void on(const End& event);
  void on(const Leave&);
  void on(const Weaken& event);
  void on(LetGo& event);
  void on(const Woken&);
  void on(const HandedOff& event);
  void on(const Notified&);
  void on(const SessionEnded&);
  void on(const TimeIsUp&);
  void on(Replied& event);
  void on_state_alarm();

  // The contender's details as they are written, less the owner, the session's part and the kept
  // lease.
  struct Written {
    bool weakened = false;
    bool marked = false;
    bool attempt = false;
    std::uint64_t token = 0;  // 0: none.
  };
  static Written written_in(const Details& details);
  static Details marks_of(const Written& written);   // With these parts only.
  Details details_of(const Written& written) const;  // With the owner and the kept lease.

  // --- acquisition.cc: entering and leaving.
  void on_created(Result<Entered>& entered, bool record_known);
  void search();
  void on_searched(const Result<Listing>& listing);
  void fail_entering(const Error& error);
  void leave_unheard(const Error& error);
  Error unheard() const;
  void leave(Result<port::AcquisitionState> verdict);
  void set_verdict(Result<port::AcquisitionState> verdict) {
    verdict_ = std::make_unique<Result<port::AcquisitionState>>(std::move(verdict));
  }
  void remove();
  void on_removed(const Result<bool>& removed);
  void end(const Result<port::EndStatus>& how);
  void taken_away();

  // --- acquisition_decide.cc: deciding whether to hold or to wait.
  void on_decision_reply(Replied& event);
  void look();
  void list(bool watching);
  void decide(Listing listing, bool watching, bool record_known);
  void decide_by();
  void refuse(machine::Outcome outcome);
  void read_head(std::size_t head);
  void note_kept_out(const Listing& listing);
  void wait_for(const QueueEntry& blocker);
  void on_blocker(const Result<std::optional<Read>>& read);
  void drop(const QueueEntry& entry, const Read& read);
  void enter_waiting();
  void poll(BootInstant deadline);
  void on_polled(const Result<std::optional<Read>>& read);
  void stand_waiting();
  void tell_waiting();
  void look_failed(const Error& error);
  // For callers that do not wait.
  void refuse_to_wait();
  void on_fate(const Result<std::optional<Read>>& read);
  void stand_by();

  // --- acquisition_hold.cc: the grant, and holding.
  void settle();
  void on_settled(const Result<std::optional<std::uint64_t>>& applied);
  void admit(std::uint64_t record_rev);
  void on_number(const Result<std::optional<Read>>& read);
  void mark(std::optional<machine::Token> token);
  void on_marked(const Result<std::optional<Read>>& written);
  void on_others_listed(const Result<Listing>& listing);
  void pass_gate();
  void on_gate(const Result<Gate>& gate);
  void on_shrink_listed(const Result<Listing>& listing);
  void on_shrunk(const Result<std::optional<std::uint64_t>>& applied);
  void grant();
  Written& begin_writing();  // Starts from what is written, without the mark of a try.
  void adopt_written(const Read& read);
  void show();
  void on_shown(const Result<std::optional<Read>>& written);
  void check();
  void on_checked(const Result<std::optional<Read>>& read);
  void on_reason(const Result<std::pair<Record, std::uint64_t>>& record);
  void on_weakened(const Result<std::optional<Read>>& written);
  void await_session(const port::RenewItem& item, BootInstant came, BootInstant deadline);
  void answer_when_confirmed();
  BootInstant told_until() const;

  // --- acquisition_keep.cc: holding without the session.
  void find_kept();
  void on_found(const Result<Listing>& listing);
  void fail_adoption(const Error& error);
  void keep_at_grant();
  void on_kept_at_grant(const Result<std::optional<Read>>& kept);
  KeepEntry next_keep();
  void note_kept(const Read& read);
  bool overtaken(const Details& details);
  void keep_beside(BootInstant deadline);
  void on_kept(const Result<std::optional<Read>>& reply);
  void on_reread(const Result<std::optional<Read>>& read);
  void fail_keeping(const Error& error);
  void lose_kept();
  void leave_in_doubt();
  port::AcquisitionState kept_state(port::AcquisitionState state) const;

  // --- Actions, and time.
  BootInstant soon() const;
  BootInstant due(Alarm alarm) const;
  void set(Alarm alarm, BootInstant when);
  void clear(Alarm alarm) { set(alarm, BootInstant::max()); }
  bool take_due(Alarm alarm);
  void enter(State state);
  template <typename What>
  void act(What&& what) {
    actions_->emplace_back(std::forward<What>(what));
  }
  void ask(State state, BootInstant deadline, Request request);
  void ask_beside(Slot slot, BootInstant deadline, Request request);
  void answer(const Result<port::AcquisitionState>& result);
  void tell(port::Push::Kind kind);
  Change change_by(const Listing& listing, const Record& record) const;
  BootInstant lease_end() const;
  void watch_lease();
  void on_lease_alarm();
  bool held_alone() const;

  const StoreTraits* traits_;
  std::string lock_;
  machine::AcquisitionId id_;
  machine::Duration ttl_{};
  BootInstant deadline_{};  // The acquire's own, later that of the end.
  // Its contender, as QueueEntry: `order` once it is known.
  struct OwnEntry {
    Key key;
    std::uint64_t order = 0;
    std::uint64_t created = 0;
    std::uint64_t modified = 0;
  };
  OwnEntry entry_;
  machine::OwnerPtr owner_;  // Perhaps another acquisition's, with another time.
  std::int64_t owner_since_unix_ms_ = 0;
  std::array<BootInstant, kLastingAlarms> due_;
  std::uint64_t epoch_ = 0;
  std::uint64_t token_ = 0;

  // For an acquisition that outlives its client, or is let go.
  struct Keeping {
    BootInstant from{};    // The request for the present lease...
    BootInstant until{};   // ...and the end that is counted on. Not set: it is not kept yet.
    bool perhaps = false;  // A request to keep it was made.
    bool adopts = false;   // It was found, not created.
    bool busy = false;     // Beside kHeld: a request is under way...
    bool reading = false;  // ...which reads what the contender is now.
    int attempts = 0;      // Since the last answer.
    BootInstant deadline{};
    BootInstant sent{};
    std::uint64_t seq = 0;  // The request under way writes these.
    machine::Duration ttl{};
    machine::Duration theirs{};          // The lease that was found, perhaps another client's.
    std::shared_ptr<const Kept> kept{};  // As it is written.
    bool weakens = false;
    bool lets_go = false;
    std::unique_ptr<LetGo> letting_go;
  };

  // The newest request of its owner, and when it reached us.
  std::uint64_t seq_ = 0;
  BootInstant seq_at_{};
  BootInstant told_until_{};  // The session deadline that its owner was told of.

  std::uint32_t asks_ = 0;       // Not answered yet.
  std::uint32_t asks_seen_ = 0;  // The part of them that came before the store was asked last.
  std::array<std::uint32_t, kSlots> numbers_{};  // The newest request in each slot.

  Written written_;
  State state_ = State::kAwaitingSession;
  bool outlives_client_ = false;
  bool ends_asked_ = false;

  // Facts of its history that matter later.
  bool unwanted_ = false;            // Entering: remove it once it is seen.
  bool told_ = false;                // Its owner was told that it waits.
  bool queued_ = false;              // It counted as a waiter, so others may watch it.
  bool look_again_ = false;          // Woken during a decision.
  bool marked_late_ = false;         // Others must know its token before it holds.
  bool rewriting_ = false;           // A downgrade is under way.
  bool perhaps_weakened_ = false;    // It may not have held alone all the time.
  bool was_held_ = false;            // Leaving: it held.
  bool removal_unanswered_ = false;  // A removal that failed was perhaps applied.
  bool removed_ = false;             // The store has removed it, for this client.

  // A program may hold 100,000 locks, so the members that a holder does not need are behind these.
  std::unique_ptr<View> view_;        // Until it holds or leaves.
  std::unique_ptr<Beside> beside_;    // While it holds and something beside that is due.
  std::unique_ptr<Written> writing_;  // kMarking, kPassingGate, kRewrite: what is written.
  std::unique_ptr<Keeping> keeping_;
  std::unique_ptr<const Result<port::AcquisitionState>> verdict_;  // To callers at its end.

  // Set while a step runs.
  const Context* context_ = nullptr;
  Actions* actions_ = nullptr;
};

}  // namespace holdfast::contend
