#include "src/session/deadlock/deadlock.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr std::size_t kDigits = 32;
// The search runs between other work, so it is bounded. It looks at the part of a queue nearest to
// a wait, which can only leave a deadlock unseen. Beyond so many waits it says nothing at all.
constexpr std::size_t kMostBefore = 64;
constexpr std::size_t kMostWaits = 2'000;

// Somebody who stands in the way of a wait.
struct Blocker {
  std::string owner;
  std::string proof;  // Identifies the grant or the wait: never the same for another one.
  bool holds = false;
};

struct Wait {
  std::string owner;
  const LockInfo* lock = nullptr;
  const WaiterInfo* waiter = nullptr;
  std::vector<Blocker> each;      // One that is stuck suffices.
  std::vector<Blocker> together;  // All of them must be.
  bool together_counts = false;   // None of those has no name.
};

using Waits = std::vector<Wait>;

bool compatible(const Mode& a, const Mode& b) {
  return a.kind() == Mode::Kind::kShared && b.kind() == Mode::Kind::kShared;
}

std::string number(std::chrono::system_clock::time_point at) {
  return std::to_string(at.time_since_epoch().count());
}

void add_holders(Wait& wait) {
  const LockInfo& lock = *wait.lock;
  wait.together_counts = lock.permits && !lock.holders.empty();
  for (const HolderInfo& holder : lock.holders) {
    const bool named = is_named_owner(holder.who.owner);
    Blocker blocker{holder.who.owner, "holds " + holder.token.to_string(), true};
    if (lock.permits) {
      wait.together_counts = wait.together_counts && named;
      wait.together.push_back(std::move(blocker));
      continue;
    }
    const bool own_share =
        holder.who.owner == wait.owner && holder.mode.kind() == Mode::Kind::kShared;
    if (!named || own_share || compatible(holder.mode, wait.waiter->mode)) continue;
    wait.each.push_back(std::move(blocker));
  }
}

void add_those_before(Wait& wait, std::size_t place) {
  const LockInfo& lock = *wait.lock;
  for (std::size_t i = place - std::min(place, kMostBefore); i < place; ++i) {
    const WaiterInfo& before = lock.waiters[i];
    if (!is_named_owner(before.who.owner)) continue;
    if (!lock.permits && compatible(before.mode, wait.waiter->mode)) continue;
    wait.each.push_back({before.who.owner, "before, since " + number(before.who.since), false});
  }
}

Waits waits_of(const std::vector<LockInfo>& locks) {
  Waits waits;
  for (const LockInfo& lock : locks) {
    for (std::size_t i = 0; i < lock.waiters.size(); ++i) {
      const WaiterInfo& waiter = lock.waiters[i];
      if (!is_named_owner(waiter.who.owner)) continue;
      Wait wait;
      wait.owner = waiter.who.owner;
      wait.lock = &lock;
      wait.waiter = &waiter;
      add_holders(wait);
      add_those_before(wait, i);
      waits.push_back(std::move(wait));
    }
  }
  if (waits.size() > kMostWaits) waits.clear();
  return waits;
}

bool blocked(const Wait& wait, const std::set<std::string>& stuck) {
  const auto is_stuck = [&](const Blocker& blocker) { return stuck.contains(blocker.owner); };
  return std::any_of(wait.each.begin(), wait.each.end(), is_stuck) ||
         (wait.together_counts &&
          std::all_of(wait.together.begin(), wait.together.end(), is_stuck));
}

// Removes owners with a wait that can end, until none is left to remove; the others are stuck.
std::set<std::string> stuck_in(const Waits& waits) {
  std::set<std::string> stuck;
  for (const Wait& wait : waits) stuck.insert(wait.owner);
  // Each pass may free an owner that others waited for, so the passes go on until one frees nobody.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Wait& wait : waits) {
      if (!stuck.contains(wait.owner) || blocked(wait, stuck)) continue;
      stuck.erase(wait.owner);
      changed = true;
    }
  }
  return stuck;
}

struct Edge {
  const Wait* wait;
  const Blocker* blocker;
};

// The edges between stuck owners. An owner that waits behind its own wait does not block itself.
std::multimap<std::string, Edge> edges_of(const Waits& waits, const std::set<std::string>& stuck) {
  std::multimap<std::string, Edge> edges;
  for (const Wait& wait : waits) {
    if (!stuck.contains(wait.owner)) continue;
    const auto add = [&](const Blocker& blocker) {
      if (!stuck.contains(blocker.owner)) return;
      if (blocker.owner == wait.owner && !blocker.holds) return;
      edges.emplace(wait.owner, Edge{&wait, &blocker});
    };
    for (const Blocker& blocker : wait.each) add(blocker);
    if (!wait.together_counts) continue;
    const bool all = std::all_of(wait.together.begin(), wait.together.end(),
                                 [&](const Blocker& one) { return stuck.contains(one.owner); });
    if (!all) continue;
    for (const Blocker& blocker : wait.together) add(blocker);
  }
  return edges;
}

using Edges = std::multimap<std::string, Edge>;

// The first edge on a shortest way to each owner that can be reached.
std::map<std::string, Edge> ways_from(const Edges& edges, const std::string& owner) {
  std::map<std::string, Edge> ways;
  std::vector<std::string> front{owner};
  // Breadth first, so that the circle which people are shown is a shortest one.
  while (!front.empty()) {
    std::vector<std::string> next;
    for (const std::string& from : front) {
      const auto [begin, end] = edges.equal_range(from);
      for (auto at = begin; at != end; ++at) {
        const std::string& to = at->second.blocker->owner;
        if (ways.emplace(to, at->second).second) next.push_back(to);
      }
    }
    front = std::move(next);
  }
  return ways;
}

// The owners that reach `owner` by these edges.
std::set<std::string> who_reaches(const Edges& edges, const std::string& owner) {
  std::multimap<std::string, std::string> back;
  for (const auto& [from, edge] : edges) back.emplace(edge.blocker->owner, from);
  std::set<std::string> reach{owner};
  std::vector<std::string> front{owner};
  while (!front.empty()) {
    const std::string to = std::move(front.back());
    front.pop_back();
    const auto [begin, end] = back.equal_range(to);
    for (auto at = begin; at != end; ++at) {
      if (reach.insert(at->second).second) front.push_back(at->second);
    }
  }
  return reach;
}

// With enough of the digits to tell it from another.
std::string short_owner(const std::string& owner) {
  return printable(owner.substr(0, owner.size() - kDigits + 8));
}

std::string describe(const std::map<std::string, Edge>& ways, const std::string& owner) {
  std::vector<const Edge*> cycle;
  std::string at = owner;
  do {
    const Edge& last = ways.at(at);
    cycle.push_back(&last);
    at = last.wait->owner;
  } while (at != owner);
  std::string text;
  for (auto edge = cycle.rbegin(); edge != cycle.rend(); ++edge) {
    const Wait& wait = *(*edge)->wait;
    const Blocker& blocker = *(*edge)->blocker;
    text += (text.empty() ? "" : "; ") + short_owner(wait.owner) + " waits for '" +
            printable(wait.lock->name) + "', which " + short_owner(blocker.owner) +
            (blocker.holds ? " holds" : " waits for before it");
  }
  return text;
}

std::string proof_of(const Edge& edge) {
  const Wait& wait = *edge.wait;
  return wait.owner + "\n" + wait.lock->name + "\n" + number(wait.waiter->who.since) + "\n" +
         edge.blocker->owner + "\n" + edge.blocker->proof;
}

}  // namespace

bool is_named_owner(std::string_view owner) {
  if (owner.size() < kDigits + 2 || owner[owner.size() - kDigits - 1] != '#') return false;
  owner.remove_prefix(owner.size() - kDigits);
  return owner.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::set<std::string> stuck_owners(const std::vector<LockInfo>& locks) {
  return stuck_in(waits_of(locks));
}

std::optional<Deadlock> find_deadlock(const std::vector<LockInfo>& locks, const std::string& owner,
                                      const std::string& lock) {
  const Waits waits = waits_of(locks);
  const std::set<std::string> stuck = stuck_in(waits);
  if (!stuck.contains(owner)) return std::nullopt;
  const Edges edges = edges_of(waits, stuck);
  const auto ways = ways_from(edges, owner);
  if (!ways.contains(owner)) return std::nullopt;  // It only waits behind others that are stuck.

  const std::set<std::string> in_circle = who_reaches(edges, owner);  // Among its reach.
  Deadlock found;
  using Age = std::tuple<std::chrono::system_clock::time_point, std::string, std::string>;
  Age youngest;
  for (const auto& [from, edge] : edges) {
    if (from != owner && !ways.contains(from)) continue;
    found.edges.push_back(proof_of(edge));
    if (!in_circle.contains(from) || !in_circle.contains(edge.blocker->owner)) continue;
    youngest = std::max(youngest, Age(edge.wait->waiter->who.since, from, edge.wait->lock->name));
  }
  if (std::get<1>(youngest) != owner || std::get<2>(youngest) != lock) return std::nullopt;
  // Sorted, because two readings are compared as text.
  std::sort(found.edges.begin(), found.edges.end());
  found.cycle = describe(ways, owner);
  return found;
}

}  // namespace holdfast::session
