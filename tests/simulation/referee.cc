#include "tests/simulation/referee.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "src/primitives/lease_access.h"
#include "src/session/acquisition.h"

namespace holdfast::simulation {

Referee::Referee(World& world)
    : world_(world), traces_(std::getenv("HOLDFAST_SIM_TRACE") != nullptr) {}

void Referee::trace(const std::string& line) const {
  if (!traces_) return;
  std::fprintf(stderr, "%10.6f %s\n", std::chrono::duration<double>(world_.now).count(),
               line.c_str());
}

void Referee::fail(std::string what) {
  if (!verdict_.empty() || world_.closing) return;
  verdict_ = "at " + std::to_string(std::chrono::duration<double>(world_.now).count()) +
             " s: " + std::move(what);
}

void Referee::on_extended(const std::string& name, const machine::Token& token, Nanos until) {
  Nanos& end = ends_[{name, {token.epoch, token.counter}}];
  end = std::max(end, until);
}

void Referee::on_event(const LockEvent& event) {
  const std::string who = event.who.owner + " " + event.who.trace_id;
  constexpr const char* kKinds[] = {"granted",   "queued", "released",  "expired",
                                    "cancelled", "broken", "forgotten", "missed"};
  trace(event.name + ": " + who + " " + kKinds[static_cast<std::size_t>(event.kind)] + " " +
        text_of(event.token));
  switch (event.kind) {
    case LockEventKind::kQueued: {
      const auto found = processes_.find(event.who.owner);
      Process* const process = found == processes_.end() ? nullptr : found->second;
      queues_[event.name].push_back({who, process});
      tickets_.insert(event.who.trace_id);
      break;
    }
    case LockEventKind::kGranted: on_granted(event, who); break;
    case LockEventKind::kReleased:
    case LockEventKind::kExpired:
    case LockEventKind::kCancelled:
    case LockEventKind::kBroken:
    case LockEventKind::kForgotten: on_ended(event, who); break;
    case LockEventKind::kMissed: check(false, "the store in memory misses nothing"); break;
  }
}

// First come, first served; and each token is larger than all before.
void Referee::on_granted(const LockEvent& event, const std::string& who) {
  Token& last = last_tokens_[event.name];
  check(last < event.token,
        event.name + ": token " + text_of(event.token) + " after " + text_of(last));
  last = event.token;
  ends_[{event.name, event.token}] = world_.now + event.time_left;
  grants_[event.who.trace_id] = world_.now;
  auto& queue = queues_[event.name];
  const auto place =
      std::find_if(queue.begin(), queue.end(), [&](const Waiting& one) { return one.who == who; });
  // An upgrade passes those who wait for its reader anyway.
  const bool passes = event.who.trace_id.starts_with("up");
  if (place == queue.end()) {
    tickets_.insert(event.who.trace_id);
    check(queue.empty() || passes || unsure_.contains(event.name),
          event.name + ": " + who + " came in past those who wait");
    return;
  }
  check(place == queue.begin() || passes || unsure_.contains(event.name),
        event.name + ": " + who + " overtook " + queue.front().who);
  queue.erase(place);
  if (queue.empty()) unsure_.erase(event.name);
}

void Referee::on_ended(const LockEvent& event, const std::string& who) {
  if (const auto ticket = tickets_.find(event.who.trace_id); ticket != tickets_.end()) {
    tickets_.erase(ticket);
  }
  auto& queue = queues_[event.name];
  const auto same = [&](const Waiting& one) { return one.who == who; };
  const bool held = !(event.token == Token{});
  if (!held) {
    if (std::count_if(queue.begin(), queue.end(), same) > 1) unsure_.insert(event.name);
    const auto place = std::find_if(queue.begin(), queue.end(), same);
    if (place != queue.end()) queue.erase(place);
    return;
  }
  ended_at_[{event.name, event.token}] = world_.now;
  const auto end = ends_.extract({event.name, event.token});
  if (event.kind != LockEventKind::kExpired || queue.empty() || !end || world_.loses) return;
  // The lease was over before anybody looked: who waits is to look in time.
  const Process* const next = queue.front().process;
  const Nanos over = std::max(end.mapped(), Nanos{});
  if (next == nullptr || !next->well_since(std::max(over - 6s, Nanos{}))) return;
  check(world_.now - over <= kSafetyPoll, event.name + ": free for " +
                                              std::to_string((world_.now - over) / 1ms) +
                                              " ms while " + queue.front().who + " waited");
}

Nanos Belief::ended() const {
  Nanos until = to;
  if (process->dead()) until = std::min(until, process->died_at());
  return end ? std::min(until, end()) : until;
}

BeliefPtr Referee::believe(const Process& process, const Lease& lease, Mode mode,
                           std::uint64_t group) {
  Belief belief{.name = lease.name(), .mode = mode, .token = lease.token()};
  belief.group = group;
  belief.process = &process;
  if (!lease.held()) belief.to = world_.now;
  belief.end = [&process, held = detail::ticket(lease)] {
    std::int64_t end = held->deadline_ns;
    if (held->base)
      end = std::min(end, held->base->deadline_ns.load());  // An upgrade ends with it.
    return process.to_true(base::BootInstant(Nanos(end)));
  };
  return believe(std::move(belief));
}

BeliefPtr Referee::believe(Belief belief) {
  belief.from = world_.now;
  const auto end = ends_.find({belief.name, belief.token});
  check(belief.to == world_.now || (end != ends_.end() && end->second >= world_.now),
        belief.name + ": " + belief.process->name() + " holds token " + text_of(belief.token) +
            ", of which the store knows nothing");
  trace(belief.name + ": " + belief.process->name() + " thinks that it holds " +
        text_of(belief.token));
  beliefs_.push_back(std::make_shared<Belief>(std::move(belief)));
  return beliefs_.back();
}

void Referee::doubt(const BeliefPtr& belief, bool held) {
  belief->to = std::min(belief->to, world_.now);
  trace(belief->name + ": " + belief->process->name() + " is done with " + text_of(belief->token));
  check(!held || ends_.contains({belief->name, belief->token}),
        belief->name + ": " + belief->process->name() + " held token " + text_of(belief->token) +
            " when the store had taken it back");
}

std::optional<Nanos> Referee::granted_at(const std::string& trace) const {
  const auto found = grants_.find(trace);
  if (found == grants_.end()) return std::nullopt;
  return found->second;
}

bool Referee::is_held(const std::string& name, const Token& token) const {
  const auto end = ends_.find({name, token});
  return end != ends_.end() && end->second > world_.now;
}

bool Referee::ended_before(const std::string& name, const Token& token, Nanos then) const {
  const auto end = ended_at_.find({name, token});
  return end != ended_at_.end() && end->second < then;
}

void Referee::check_beliefs() {
  for (const BeliefPtr& a : beliefs_) {
    const Nanos a_to = a->ended();
    if (a_to <= a->from) continue;
    std::uint64_t permits = 0;
    std::uint32_t capacity = 0;
    for (const BeliefPtr& b : beliefs_) {
      const Nanos b_to = b->ended();
      if (a->name != b->name || b_to <= b->from) continue;
      const bool one_by_one = a->mode == Mode::exclusive() || b->mode == Mode::exclusive();
      check(!one_by_one || b_to > a->from || b->token <= a->token,
            a->name + ": token " + text_of(a->token) + " after " + text_of(b->token));
      // Only holds that lasted when `a` began count.
      if (b->from > a->from || b_to <= a->from) continue;
      if (a->mode.kind() == Mode::Kind::kPermits) {
        permits += b->mode.count();
        capacity = std::max(capacity, b->mode.capacity());
        continue;
      }
      const bool both_read = a->mode == Mode::shared() && b->mode == Mode::shared();
      const bool linked = a->group != 0 && a->group == b->group;
      check(a == b || both_read || linked,
            a->name + ": " + a->process->name() + " and " + b->process->name() + ": token " +
                text_of(a->token) + " was held from " + std::to_string(a->from / 1ms) +
                " ms on, and token " + text_of(b->token) + " from " +
                std::to_string(b->from / 1ms) + " ms until " + std::to_string(b_to / 1ms) + " ms");
    }
    // A waiter that waited while the number grew was admitted under the new one.
    if (a->name == "flexible") capacity = 5;
    check(permits <= capacity, a->name + ": " + std::to_string(permits) + " permits were held");
  }
}

}  // namespace holdfast::simulation
