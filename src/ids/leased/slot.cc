#include "src/ids/leased/slot.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/ids/record_text.h"
#include "src/ids/segments/names.h"
#include "src/ids/segments/served.h"

namespace holdfast::ids {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Record;
using port::Records;
using std::chrono::milliseconds;

constexpr std::string_view kSlotKind = "worker";
constexpr std::uint64_t kMostWorkers = 1'024;
// Above the last id's time, where that is ahead of the clock.
constexpr milliseconds kSmallStep{1'000};
// A write meets another version only when an earlier one of the same holder, or one of the holder
// before it, came late.
constexpr int kMostTries = 5;

Error unfit(const std::string& what) { return {Errc::kInvalidArgument, what}; }

Result<std::size_t> rounds_of(const LeasedWorkersSpec& spec) {
  const auto tried = Snowflake::make({.layout = spec.layout, .policy = spec.policy});
  if (!tried) return tried.error();
  if (spec.policy.back != ClockPolicy::Back::kRounds) return std::size_t{0};
  const std::uint64_t values = std::uint64_t{1} << spec.layout.sequence_bits();
  return spec.policy.round_size != 0 ? values / spec.policy.round_size : spec.policy.rounds;
}

Result<void> check(const LeasedWorkersSpec& spec) {
  if (spec.workers == 0 || spec.workers > std::min(kMostWorkers, spec.layout.workers())) {
    return unfit("a namespace has 1 to " + std::to_string(kMostWorkers) +
                 " workers, and no more than its layout: that has " +
                 std::to_string(spec.layout.workers()));
  }
  const auto now = base::wall_now().time_since_epoch();
  if (spec.layout.spec().epoch > now) {
    return unfit("the layout's epoch lies in the future of this clock");
  }
  if (spec.layout.end() <= std::chrono::duration_cast<milliseconds>(now)) {
    return unfit(
        "the layout's times have ended already: give its time more bits, a longer unit or a later "
        "epoch");
  }
  const auto rounds = rounds_of(spec);
  if (!rounds) return rounds.error();
  constexpr std::size_t kMostRounds = 64;  // Their marks fit a record.
  if (*rounds > kMostRounds) {
    return unfit("a slot keeps at most " + std::to_string(kMostRounds) + " rounds of a sequence");
  }
  return {};
}

std::string slot_text(const std::string& name, std::uint64_t worker) {
  return "the record of worker " + std::to_string(worker) + " of the ids '" + name + "'";
}

Error lost_data(const std::string& where, const std::string& how) {
  return {Errc::kCorruptState, where + " " + how +
                                   ": the store lost data, so it is not known which ids were "
                                   "given: make a new namespace"};
}

// A record of a new incarnation, which nobody knows of yet: so an answer that is lost is read back.
Result<void> make_record(Records& records, const std::string& key, const std::string& text,
                         BootInstant by) {
  const auto made = records.create(key, text, by);
  if (made) return *made ? Result<void>() : Error(Errc::kStoreInUse, "'" + key + "' is there");
  if (made.error().code() != Errc::kOutcomeUnknown) return made.error();
  const auto found = records.read(key, by);
  if (!found) return found.error();
  if (*found && (*found)->text == text) return {};
  return Error(Errc::kUnavailable, "the store did not keep a new record: try again");
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string WorkersHead::slot_key(std::uint64_t worker) const {
  return head_key(name) + "/" + incarnation + "/" + std::to_string(worker);
}

std::string WorkersHead::lock_name(std::uint64_t worker) const {
  return "holdfast-ids/" + name + "/" + std::to_string(worker);
}

std::string WorkersHead::text() const {
  RecordText record{std::string(kWorkersKind)};
  record.add("incarnation", incarnation)
      .add("layout", spec.layout.to_string())
      .add("policy", spec.policy.to_string())
      .add_number("workers", spec.workers);
  if (served) record.add("served", "1");
  return record.text();
}

Result<WorkersHead> WorkersHead::parse(const std::string& name, const std::string& text) {
  const std::string where = "the namespace '" + name + "' of ids";
  const auto record = RecordText::parse(text, kWorkersKind, where);
  if (!record) return record.error();
  const auto layout = Layout::parse(record->value("layout").value_or(""));
  const auto policy = ClockPolicy::parse(record->value("policy").value_or(""));
  const auto workers = record->number<std::uint64_t>("workers");
  const std::string incarnation = record->value("incarnation").value_or("");
  if (!layout || !policy || !workers || *workers == 0 || *workers > layout->workers() ||
      incarnation.empty()) {
    return Error(Errc::kCorruptState, where + ": its layout, policy or workers make no sense");
  }
  return WorkersHead{
      name, incarnation, {*layout, *policy, *workers}, record->value("served") == "1"};
}

std::string SlotState::text() const {
  RecordText record{std::string(kSlotKind)};
  record.add("incarnation", incarnation)
      .add_number("worker", worker)
      .add("token", token.to_string())
      .add_number("number", number)
      .add_number("reserved_until", bounds.reserved_until)
      .add("host", host)
      .add_number("pid", pid)
      .add_number("since_ms", since_ms);
  if (bounds.rounds) {
    std::string marks;
    for (const std::int64_t mark : bounds.rounds->used_up_to) {
      marks += (marks.empty() ? "" : ",") + std::to_string(mark);
    }
    record.add_number("round", bounds.rounds->current).add("rounds", marks);
  }
  return record.text();
}

Result<SlotState> SlotState::parse(const std::string& text, const std::string& incarnation,
                                   std::uint64_t worker, const std::string& where) {
  const auto record = RecordText::parse(text, kSlotKind, where);
  if (!record) return record.error();
  const auto token = Token::parse(record->value("token").value_or(""));
  const auto number = record->number<std::uint64_t>("number");
  const auto reserved = record->number<std::int64_t>("reserved_until");
  const bool own = record->value("incarnation") == incarnation &&
                   record->number<std::uint64_t>("worker") == worker;
  if (!own || !token || !number || !reserved) {
    return Error(Errc::kCorruptState, where + ": it is another slot's, or makes no sense");
  }
  SlotState state{.incarnation = incarnation,
                  .worker = worker,
                  .token = *token,
                  .number = *number,
                  .bounds = {*reserved, {}},
                  .host = record->value("host").value_or(""),
                  .pid = record->number<std::int64_t>("pid").value_or(0),
                  .since_ms = record->number<std::int64_t>("since_ms").value_or(0)};
  const auto marks = record->value("rounds");
  if (!marks) return state;
  Rounds rounds{record->number<std::uint32_t>("round").value_or(0), {}};
  for (std::size_t at = 0; at <= marks->size();) {
    const std::size_t end = std::min(marks->find(',', at), marks->size());
    const auto mark = detail::parse_number<std::int64_t>(marks->substr(at, end - at));
    if (!mark) return Error(Errc::kCorruptState, where + ": its rounds make no sense");
    rounds.used_up_to.push_back(*mark);
    at = end + 1;
  }
  state.bounds.rounds = std::move(rounds);
  return state;
}

Result<void> create_workers(Records& records, const std::string& name,
                            const LeasedWorkersSpec& spec, BootInstant by) {
  if (auto good = check_namespace(name); !good) return good;
  if (auto good = check(spec); !good) return good;
  const Error taken(Errc::kStoreInUse, "the namespace '" + name +
                                           "' of ids is there already: its layout and policy are "
                                           "for good");
  const auto there = records.read(head_key(name), by);
  if (!there) return there.error();
  if (*there) {
    const auto head = WorkersHead::parse(name, (*there)->text);
    return head ? taken : head.error();
  }
  const bool served = records.serves_ids() && spec.workers < spec.layout.workers();
  const WorkersHead head{name, fresh_incarnation(), spec, served};
  const std::size_t rounds = *rounds_of(spec);
  for (std::uint64_t worker = 0; worker < spec.workers; ++worker) {
    SlotState fresh{.incarnation = head.incarnation, .worker = worker};
    if (rounds > 0) fresh.bounds.rounds = Rounds{0, std::vector<std::int64_t>(rounds, -1)};
    auto made = make_record(records, head.slot_key(worker), fresh.text(), by);
    if (!made) return made;
  }
  if (served) {
    const ServedState fresh{.incarnation = head.incarnation};
    auto made = make_record(records, service_key(name, head.incarnation), fresh.text(), by);
    if (!made) return made;
  }
  auto made = make_record(records, head_key(name), head.text(), by);
  return !made && made.error().code() == Errc::kStoreInUse ? taken : made;
}

Result<WorkersHead> read_workers_head(Records& records, const std::string& name, BootInstant by) {
  if (auto good = check_namespace(name); !good) return good.error();
  const auto record = records.read(head_key(name), by);
  if (!record) return record.error();
  if (*record) return WorkersHead::parse(name, (*record)->text);
  return unfit("there is no namespace '" + name +
               "' of ids. If it was there before, the store lost data: make one with another name, "
               "because the ids of this one may come again. Otherwise make it once, by "
               "LeasedWorkers::create() or 'holdfast id init'");
}

namespace {

// The bounds of one worker, in its record.
class SlotPermit final : public ReservingPermit {
 public:
  SlotPermit(const WorkersHead& head, SlotState state, std::uint64_t version,
             std::unique_ptr<SlotLease> lease, const SlotSetting& setting, const ReservePlan& plan)
      : ReservingPermit(head.spec.layout, plan, state.bounds),
        key_(head.slot_key(state.worker)),
        where_(slot_text(head.name, state.worker)),
        setting_(setting),
        lease_(std::move(lease)),
        state_(std::move(state)),
        attempt_(state_.number),
        version_(version) {
    deadline_ns = lease_->deadline().count();
  }
  ~SlotPermit() override { stop(); }

  IdGuarantees guarantees() const override {
    const base::LocalLock lock(setting_.records->mutex);
    return {.unique_by = UniqueBy::kLease,
            .survives_restart = true,
            .survives_clock_back = true,
            .forgets = setting_.records->records->forgets()};
  }

 private:
  Result<void> look_at_lease() override HOLDFAST_REQUIRES(mutex_) {
    const auto deadline = lease_->deadline();  // First: that of a lease that has ended is no use.
    if (!lost_ && !lease_->held()) {
      deadline_ns = 0;  // So that the next id looks again.
      if (auto resolved = lease_->resolve_doubt(); !resolved) return resolved;
    }
    if (lost_ || !lease_->held()) {
      deadline_ns = 0;
      return lost_ ? *lost_
                   : Error(Errc::kLost, where_ +
                                            ": its lease ended, so no id is given under its number "
                                            "any more: take another one");
    }
    deadline_ns = deadline.count();
    return {};
  }

  // The bounds count only when the store has said so, or shows them.
  Result<void> write(const Bounds& bounds) override HOLDFAST_REQUIRES(mutex_) {
    SlotState next = state_;
    next.bounds = bounds;
    next.number = ++attempt_;
    const std::string text = next.text();
    const base::LocalLock lock(setting_.records->mutex);
    Records& records = *setting_.records->records;
    Error why(Errc::kUnavailable, where_ + " changes all the time: try again");
    for (int tries = 0; tries < kMostTries; ++tries) {
      const BootInstant by = BootClock::now() + setting_.request_timeout;
      // The version keeps a holder that was displaced from writing over its successor.
      const auto replaced = records.replace(key_, version_, text, by);
      if (replaced && *replaced) {
        version_ = **replaced;
        state_ = std::move(next);
        return {};
      }
      if (!replaced) why = replaced.error();
      if (!replaced && why.code() != Errc::kOutcomeUnknown) return why;
      // The answer was lost, or an earlier write of this holder came late. The record tells which.
      const auto there = records.read(key_, by);
      if (!there) return there.error();
      if (auto ours = compare(*there); !ours) return ours;
      version_ = (*there)->version;
      if ((*there)->text != text) continue;
      state_ = std::move(next);
      return {};
    }
    return why;
  }

  // Errors: the record is not this holder's any more. One of its writes that came late, and was
  // never counted on, is.
  Result<void> compare(const std::optional<Record>& there) HOLDFAST_REQUIRES(mutex_) {
    if (!there) return lose(lost_data(where_, "is gone"));
    const auto state = SlotState::parse(there->text, state_.incarnation, state_.worker, where_);
    if (!state) return lose(state.error());
    if (state->token > state_.token) {
      return lose({Errc::kLost, where_ + ": another holder has taken the number over"});
    }
    if (state->token < state_.token || state->number < state_.number) {
      return lose(lost_data(where_, "is older than what this holder wrote"));
    }
    return {};
  }

  // For good.
  Error lose(Error why) HOLDFAST_REQUIRES(mutex_) {
    lost_ = std::move(why);
    deadline_ns = 0;
    return *lost_;
  }

  void let_go() override HOLDFAST_REQUIRES(mutex_) { lease_->release(); }

  const std::string key_;
  const std::string where_;
  const SlotSetting setting_;
  const std::unique_ptr<SlotLease> lease_;
  SlotState state_ HOLDFAST_GUARDED_BY(mutex_);
  std::uint64_t attempt_ HOLDFAST_GUARDED_BY(mutex_);
  std::uint64_t version_ HOLDFAST_GUARDED_BY(mutex_);
  std::optional<Error> lost_ HOLDFAST_GUARDED_BY(mutex_);
};

// A host whose clock is ahead would reserve a time that the others come to long after. Its clock is
// read first, because the answer takes time.
Result<void> compare_clocks(Records& records, IdClock& clock, milliseconds at_most,
                            BootInstant by) {
  const auto here = std::chrono::duration_cast<milliseconds>(clock.read().wall);
  const auto there = records.wall_time(by);
  if (!there) return there.error();
  if (!*there || here - **there <= at_most) return {};
  return Error(Errc::kUnavailable,
               "this host's clock is " + std::to_string((here - **there).count() / 1'000) +
                   " s ahead of the store's: no time is reserved before one of them is set right");
}

struct Claimed {
  SlotState state;
  std::uint64_t version = 0;
  std::int64_t above = 0;  // Ids begin above this unit.
};

// Puts the token of the new holder into the record, with the first time that it reserves. nullopt:
// the slot is left out.
Result<std::optional<Claimed>> claim(const WorkersHead& head, std::uint64_t worker,
                                     const Token& token, std::int64_t start_above,
                                     const SlotSetting& setting, const ReservePlan& plan) {
  const Layout& layout = head.spec.layout;
  const std::string where = slot_text(head.name, worker);
  const std::string key = head.slot_key(worker);
  IdClock& clock = setting.clock != nullptr ? *setting.clock : IdClock::machine();
  const base::LocalLock lock(setting.records->mutex);
  Records& records = *setting.records->records;
  const auto near = compare_clocks(records, clock, plan.forward_at_most,
                                   BootClock::now() + setting.request_timeout);
  if (!near) return near.error();
  Error why(Errc::kUnavailable, where + " changes all the time: try again");
  std::optional<Claimed> tried;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const BootInstant by = BootClock::now() + setting.request_timeout;
    const auto record = records.read(key, by);
    if (!record) return record.error();
    if (!*record) return lost_data(where, "is missing");
    auto state = SlotState::parse((*record)->text, head.incarnation, worker, where);
    if (!state) return state.error();
    // An earlier try came late. All tries were made of one record, so ids begin at one unit.
    if (tried && state->token == token) {
      return std::optional(Claimed{*std::move(state), (*record)->version, tried->above});
    }
    if (state->token > token) {
      return Error(Errc::kLost, where + ": another holder has taken the number over meanwhile");
    }
    if (state->token == token) return lost_data(where, "has this holder's token already");
    // A holder whose clock is ahead has reserved time that others reach long after. Waiting for it
    // costs more than another number.
    const std::int64_t now = layout.unit_of(clock.read().wall);
    const auto ahead = layout.spec().unit * (state->bounds.reserved_until - now);
    if (ahead > 2 * plan.step + plan.forward_at_most) return std::optional<Claimed>();
    // Ids begin after all that earlier holders may have given.
    const std::int64_t above =
        std::min(std::max(state->bounds.reserved_until - 1, start_above), layout.last_unit());
    SlotState next{.incarnation = head.incarnation,
                   .worker = worker,
                   .token = token,
                   .number = 1,
                   .bounds = state->bounds,
                   .host = host_name(),
                   .pid = ::getpid(),
                   .since_ms = std::chrono::duration_cast<milliseconds>(clock.read().wall).count()};
    next.bounds.reserved_until =
        std::max(next.bounds.reserved_until,
                 ReservingPermit::bound_at(layout, plan, std::max(above + 1, now)));
    // Kept for the next try: if this write arrives late, its record shows this holder's token.
    tried = Claimed{std::move(next), 0, above};
    const auto replaced = records.replace(key, (*record)->version, tried->state.text(), by);
    if (replaced && *replaced) {
      tried->version = **replaced;
      return tried;
    }
    if (!replaced) why = replaced.error();
    if (!replaced && why.code() != Errc::kOutcomeUnknown) return why;
  }
  return why;
}

}  // namespace

Result<std::unique_ptr<Snowflake>> take_slot(const WorkersHead& head, std::uint64_t worker,
                                             std::unique_ptr<SlotLease> lease,
                                             std::int64_t start_above, const SlotSetting& setting) {
  const ReservePlan plan{.step = setting.ttl,
                         .small = kSmallStep,
                         .forward_at_most = head.spec.policy.forward_at_most,
                         .clock = setting.clock};
  auto claimed = claim(head, worker, lease->token(), start_above, setting, plan);
  if (!claimed || !*claimed) {
    lease->release();
    if (!claimed) return claimed.error();
    return std::unique_ptr<Snowflake>();
  }
  SnowflakeOptions options{.layout = head.spec.layout,
                           .worker = worker,
                           .policy = head.spec.policy,
                           .start_above = (*claimed)->above,
                           .rounds = (*claimed)->state.bounds.rounds,
                           .clock = setting.clock};
  const auto permit = std::make_shared<SlotPermit>(
      head, std::move((*claimed)->state), (*claimed)->version, std::move(lease), setting, plan);
  if (setting.looks_ahead) permit->start();
  if (setting.permit != nullptr) *setting.permit = permit;
  options.permit = permit;
  return Snowflake::make(std::move(options));
}

}  // namespace holdfast::ids
