#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "src/port/outcome.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {

machine::LockMachine& Model::machine_of(const std::string& name) {
  const std::string key = traits_.one_machine ? std::string() : name;
  return machines_.try_emplace(key, machine::Token{}).first->second;
}

machine::Reply Model::apply(const std::string& name, machine::Action action, AcquisitionId about) {
  machine::LockMachine& machine = machine_of(name);
  machine::Effects effects;
  const machine::Reply reply = machine.apply({now_, std::move(action)}, effects);
  for (auto next = machine.next_event(); next && *next <= machine.now();
       next = machine.next_event()) {
    machine.apply({now_, machine::Tick{}}, effects);
  }
  if (traits_.session_bound) {
    std::copy_if(effects.begin(), effects.end(), std::back_inserter(news_),
                 [&](const machine::Effect& effect) { return effect.id != about; });
  }
  return reply;
}

void Model::note_issue(std::size_t client, std::uint64_t issue) {
  std::uint64_t& last = last_issue_[client];
  last = std::max(last, issue);
}

// As Engine::acquire(): what is refused without a look at the store, and what is old.
std::optional<Result<AcquisitionState>> Model::answer_of_client(const port::AcquireRequest& request,
                                                                std::size_t client) {
  if (stands(request.name, request.id)) return std::nullopt;
  if (request.issue <= last_issue_[client])
    return AcquisitionState{.status = AcquisitionStatus::kGone};
  note_issue(client, request.issue);
  if (request.upgrade_of && !stands(request.name, request.upgrade_of)) {
    return Error(Errc::kLost, "nothing to upgrade");
  }
  return std::nullopt;
}

Result<AcquisitionState> Model::acquire(const port::AcquireRequest& request, std::size_t client) {
  if (traits_.session_bound) {
    if (auto answer = answer_of_client(request, client)) return *std::move(answer);
  }
  if (ended_.contains(request.id)) return AcquisitionState{.status = AcquisitionStatus::kGone};
  std::uint64_t& highest = numbers_[{request.name, client}];
  if (traits_.numbers_are_remembered && request.issue <= highest) {
    apply(request.name, machine::Tick{});
    if (!stands(request.name, request.id))
      return AcquisitionState{.status = AcquisitionStatus::kGone};
  }
  const auto reply = apply(request.name, port::to_command(request), request.id);
  if (stands(request.name, request.id)) highest = std::max(highest, request.issue);
  const auto image = machine_of(request.name).inspect(request.name);
  return port::to_acquire_result(reply, request, image ? &*image : nullptr, now_);
}

// Predicts the answer to an acquire that does not wait, on a copy.
machine::Reply Model::foresee(const port::AcquireRequest& request, std::size_t client) {
  using machine::Outcome;
  if (ended_.contains(request.id)) return {.outcome = Outcome::kGone};
  if (traits_.looking_passes_time) apply(request.name, machine::Tick{});
  auto copy = machine::LockMachine::restore(machine_of(request.name).snapshot());
  machine::Effects effects;
  machine::Acquire command = port::to_command(request);
  command.may_wait = false;
  const machine::Reply reply = copy->apply({now_, command}, effects);
  const bool old = traits_.numbers_are_remembered &&
                   request.issue <= numbers_[{request.name, client}] &&
                   !stands(request.name, request.id);
  return old ? machine::Reply{.outcome = Outcome::kGone} : reply;
}

Result<port::Store::Grants> Model::acquire_all(const std::vector<port::AcquireRequest>& requests,
                                               std::size_t client) {
  for (const port::AcquireRequest& request : requests) {
    const machine::Reply reply = foresee(request, client);
    if (reply.outcome == machine::Outcome::kHeld) continue;
    const auto image = machine_of(request.name).inspect(request.name);
    const auto answer = port::to_acquire_result(reply, request, image ? &*image : nullptr, now_);
    if (!answer) return answer.error();
    return port::Store::Grants();
  }
  std::vector<AcquisitionState> held;
  for (port::AcquireRequest request : requests) {
    request.may_wait = false;
    const auto state = acquire(request, client);
    EXPECT_TRUE(state && state->status == AcquisitionStatus::kHeld) << "foreseen, and did not come";
    if (!state) return state.error();
    held.push_back(*state);
  }
  return port::Store::Grants(std::move(held));
}

Result<AcquisitionState> Model::renew(const port::RenewItem& item) {
  // The later one of two leases of one length ends later.
  if (traits_.session_bound) pass(Duration(1));
  return port::to_ticket_state(apply(item.name, port::to_command(item), item.id), item.name, now_);
}

bool Model::stands(const std::string& name, AcquisitionId id) {
  const auto image = machine_of(name).inspect(name);
  return image && std::any_of(image->tickets.begin(), image->tickets.end(),
                              [&](const auto& ticket) { return ticket.id == id; });
}

bool Model::ends_late(const std::string& name, AcquisitionId id) {
  const auto image = machine_of(name).inspect(name);
  if (!image || image->tickets.size() != 1) return false;
  const machine::TicketImage& ticket = image->tickets.front();
  return ticket.id == id && ticket.held && ticket.mode.kind == machine::ModeKind::kExclusive &&
         ticket.lease_end <= now_;
}

Result<EndStatus> Model::end(const std::string& name, AcquisitionId id, machine::Action action,
                             std::size_t client, std::uint64_t issue) {
  if (traits_.client_remembers_ends) ended_.insert(id);
  const bool late = traits_.late_release_counts && ends_late(name, id);
  const auto status = port::to_end_status(apply(name, std::move(action), id), name);
  if (late) return EndStatus::kReleased;
  if (status && *status == EndStatus::kGone) {
    note_issue(client, issue);
    std::uint64_t& highest = numbers_[{name, client}];
    highest = std::max(highest, issue);
  }
  return status;
}

Result<EndStatus> Model::release(const std::string& name, AcquisitionId id, std::size_t client,
                                 std::uint64_t issue) {
  return end(name, id, machine::Release{name, id, traits_.tombstone}, client, issue);
}

Result<EndStatus> Model::cancel(const std::string& name, AcquisitionId id, std::size_t client,
                                std::uint64_t issue) {
  return end(name, id, machine::Cancel{name, id, traits_.tombstone}, client, issue);
}

Result<AcquisitionState> Model::downgrade(const std::string& name, AcquisitionId id) {
  const auto reply = apply(name, machine::Downgrade{name, id, traits_.tombstone}, id);
  const auto image = machine_of(name).inspect(name);
  return port::to_downgrade_result(reply, name, id, image ? &*image : nullptr);
}

Result<bool> Model::break_lock(const std::string& name, Token token) {
  return port::to_done(apply(name, machine::Break{name, token, traits_.tombstone, nullptr}), name);
}

Result<bool> Model::set_value(const std::string& name, AcquisitionId id, std::string value) {
  return port::to_done(apply(name, machine::SetValue{name, id, std::move(value)}), name);
}

Result<bool> Model::keep(const std::string& name, AcquisitionId id, std::uint64_t seq, Duration ttl,
                         std::optional<std::string> value) {
  return port::to_done(apply(name, machine::Keep{name, id, seq, ttl, std::move(value)}), name);
}

std::string Model::get_value(const std::string& name) {
  const auto image = machine_of(name).inspect(name);
  return image ? image->value : std::string();
}

Result<bool> Model::resize(const std::string& name, AcquisitionId id, std::uint32_t capacity) {
  return port::to_done(apply(name, machine::Resize{name, id, capacity}, id), name);
}

std::optional<LockInfo> Model::inspect(const std::string& name) {
  if (traits_.inspect_passes_time) apply(name, machine::Tick{});
  const auto image = machine_of(name).inspect(name);
  if (!image) return std::nullopt;
  return port::to_lock_info(*image, now_, std::nullopt);
}

}  // namespace holdfast::testing
