#include "src/primitives/barrier_record.h"

#include <algorithm>

#include "src/primitives/document.h"
#include "src/session/names.h"

namespace holdfast::primitives::barring {
namespace {

constexpr std::string_view kKind = "barrier";

std::string said_of_barrier(const std::string& name) {
  return "barrier '" + session::printable(name) + "': ";
}

bool is_consistent(const Record& record) {
  if (record.parties == 0 || record.parties > kMostParties) return false;
  if (record.left > record.parties || record.arrived_and_left > record.left) return false;
  if (record.members.size() > record.awaited()) return false;
  for (const Member& member : record.members) {
    if (record.find(member.token) != &member) return false;  // Twice.
  }
  return true;
}

// The member list, to its end.
bool read_members(Fields& fields, Record& record) {
  while (fields.good() && !fields.at_end()) {
    const auto epoch = fields.number();
    const auto counter = fields.number();
    const auto step = fields.number();
    if (!fields.good() || *epoch > UINT32_MAX || *step > 3) return false;
    if (record.members.size() == kMostParties) return false;
    record.members.push_back(
        {Token{static_cast<std::uint32_t>(*epoch), *counter}, static_cast<Step>(*step)});
  }
  return fields.good();
}

void turn(Record& record, Step from, Step to) {
  for (Member& member : record.members) {
    if (member.step == from) member.step = to;
  }
}

bool is_idle(const Record& record) {
  return record.members.empty() && record.arrived_and_left == 0;
}

void settle(Record& record) {
  const std::uint32_t waiting = record.waiting();
  const bool anybody = waiting + record.arrived_and_left > 0;
  // A generation is complete when everybody who is awaited has arrived. One in which nobody arrived
  // is not.
  if (!record.broken && anybody && waiting == record.awaited()) {
    turn(record, Step::kArrived, Step::kPassed);
    record.arrived_and_left = 0;
    ++record.generation;
  }
  // The last member has gone, so the next use begins with all places and unbroken.
  if (is_idle(record) && (record.left > 0 || record.broken)) {
    record.left = 0;
    record.broken = false;
    ++record.generation;
  }
}

}  // namespace

std::uint32_t Record::waiting() const {
  return static_cast<std::uint32_t>(
      std::count_if(members.begin(), members.end(),
                    [](const Member& member) { return member.step == Step::kArrived; }));
}

const Member* Record::find(const Token& seat) const {
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const Member& member) { return member.token == seat; });
  return at == members.end() ? nullptr : &*at;
}

Member* Record::find(const Token& seat) {
  return const_cast<Member*>(static_cast<const Record&>(*this).find(seat));
}

Result<Record> read_record(std::string_view text, const std::string& name) {
  auto body = open_document(text, kKind, name);
  if (!body) return std::move(body).error();
  Record record;
  if (!*body) return record;
  Fields fields(**body);
  const auto parties = fields.number();
  const auto policy = fields.number();
  const auto generation = fields.number();
  const auto broken = fields.number();
  const auto left = fields.number();
  const auto arrived_and_left = fields.number();
  if (!fields.good() || *parties > kMostParties || *policy > 1 || *broken > 1 || *left > *parties ||
      *arrived_and_left > *left) {
    return damaged_document(kKind, name);
  }
  record.parties = static_cast<std::uint32_t>(*parties);
  record.policy = static_cast<BarrierPolicy>(*policy);
  record.generation = *generation;
  record.broken = *broken == 1;
  record.left = static_cast<std::uint32_t>(*left);
  record.arrived_and_left = static_cast<std::uint32_t>(*arrived_and_left);
  if (!read_members(fields, record) || !is_consistent(record)) {
    return damaged_document(kKind, name);
  }
  return record;
}

std::string write_record(const Record& record) {
  std::string body;
  put(body, record.parties);
  put(body, static_cast<std::uint64_t>(record.policy));
  put(body, record.generation);
  put(body, std::uint64_t{record.broken});
  put(body, record.left);
  put(body, record.arrived_and_left);
  for (const Member& member : record.members) {
    put(body, member.token.epoch);
    put(body, member.token.counter);
    put(body, static_cast<std::uint64_t>(member.step));
  }
  return make_document(kKind, body);
}

bool drop_gone(Record& record, const std::vector<Token>& seats) {
  const auto gone =
      static_cast<std::uint32_t>(std::erase_if(record.members, [&](const Member& member) {
        return std::find(seats.begin(), seats.end(), member.token) == seats.end();
      }));
  if (gone == 0) return false;
  if (record.policy == BarrierPolicy::kLeave) {
    record.left += gone;
  } else {
    record.broken = true;
    record.arrived_and_left = 0;
    turn(record, Step::kArrived, Step::kBroken);
  }
  settle(record);
  return true;
}

Result<void> check_use(const Record& record, std::uint32_t parties, BarrierPolicy policy,
                       const std::string& name) {
  const bool is_free = record.parties == 0 || is_idle(record);
  if (is_free || (record.parties == parties && record.policy == policy)) return {};
  return Error(Errc::kInvalidArgument,
               said_of_barrier(name) + "it is in use with " + std::to_string(record.parties) +
                   " parties and the policy " +
                   (record.policy == BarrierPolicy::kLeave ? "kLeave" : "kBreak"));
}

Result<void> enter(Record& record, const Token& seat, std::uint32_t parties, BarrierPolicy policy,
                   const std::string& name) {
  if (record.parties == 0 || is_idle(record)) {
    record.parties = parties;
    record.policy = policy;
    record.left = 0;
  }
  if (auto good = check_use(record, parties, policy, name); !good) return good;
  if (record.members.size() == record.parties) {
    return Error(Errc::kInvalidArgument,
                 said_of_barrier(name) + "all its " + std::to_string(parties) +
                     " parties are there: somebody else changes the permits of its name");
  }
  // All awaited places are taken, so the newcomer takes one that somebody left.
  if (record.members.size() == record.awaited()) {
    --record.left;
    record.arrived_and_left = std::min(record.arrived_and_left, record.left);
  }
  record.members.push_back({seat, Step::kThere});
  return {};
}

Result<void> arrive(Record& record, const Token& seat, const std::string& name) {
  Member* member = record.find(seat);
  if (member == nullptr) return lost_error(name);
  if (record.broken) return broken_error(name);
  member->step = Step::kArrived;
  settle(record);
  return {};
}

Result<void> leave(Record& record, const Token& seat, const std::string& name) {
  const Member* member = record.find(seat);
  if (member == nullptr) return lost_error(name);
  if (record.broken) return broken_error(name);
  record.members.erase(record.members.begin() + (member - record.members.data()));
  ++record.left;
  // It has arrived in this generation. In later ones nobody waits for it.
  ++record.arrived_and_left;
  settle(record);
  return {};
}

void withdraw(Record& record, const Token& seat) {
  Member* member = record.find(seat);
  if (member != nullptr && member->step == Step::kArrived) member->step = Step::kThere;
}

void reopen(Record& record) {
  if (record.parties == 0) return;
  turn(record, Step::kArrived, Step::kBroken);
  record.broken = false;
  record.arrived_and_left = 0;
  ++record.generation;
  settle(record);
}

Error lost_error(const std::string& name) {
  return {Errc::kLost, said_of_barrier(name) + "the seat's lease ended: join again"};
}

Error broken_error(const std::string& name) {
  return {Errc::kBroken, said_of_barrier(name) +
                             "it is broken: a participant is gone, or it was reset; reset() it when"
                             " all are ready"};
}

}  // namespace holdfast::primitives::barring
