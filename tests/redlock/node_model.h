// A pure model of the scripts at one node, over small numbers.
//
// redlock_model_live_test compares it with the scripts on a real server, command by command; the
// search (search_test.cc) runs clients against it. A Flaw makes it wrong on purpose.
//
// N: the type of every number. Ids and locks are indices.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace holdfast::testing::redlock {

enum class Word : std::uint8_t {
  kGranted,     // a: floor
  kBusy,        // a: until the holder's lease ends
  kEnded,
  kTooLong,
  kLost,
  kForeign,
  kQuarantine,  // a: how long
  kConfirmed,
  kNotHeld,
  kHeld,        // a: token, b: seq, c: lease
  kGone,
  kBroken,      // a: the answer to the break itself
  kReleased,
  kJoined,      // a: ready, b: end of the quarantine, c: floor
  kReady,
  kRefused
};

template <typename N>
struct Answer {
  Word word{};
  N a{};
  N b{};
  N c{};
  friend bool operator==(const Answer&, const Answer&) = default;
};

enum class Flaw : std::uint8_t {
  kNone,
  kOnePhase,          // The token is raised with the grant, and nothing is written back.
  kNoQuarantine,      // Whoever lost its memory takes part at once.
  kNoCatchUp,         // It forgets the floor.
  kEarlyCatchUp,      // It takes a floor that was read before its quarantine ended.
  kRejoinOfAnyTime,   // A late rejoin ends a later quarantine.
  kCountsTheUnheld,   // A write-back is acknowledged without a hold.
  kLateGrant,         // The client does not look at its own clock.
  kHandsLateBack      // A release does not look at the attempt.
};

template <typename N, std::size_t kLocks, std::size_t kIds>
struct NodeModel {
  struct Hold {
    bool is = false;
    N ends{}, lease{}, token{}, seq{}, tag{}, attempt{};
  };
  struct Mark {
    bool is = false;
    N attempt{}, until{};
  };
  struct Lock {
    std::array<Hold, kIds> holds{};
    std::array<Mark, kIds> marks{};
    N broken{};
  };

  N memory = 1;  // The run id and replication id of the process.
  bool has_record = false;
  N cluster{}, recorded{}, ends{}, floor{}, longest{};
  bool ready = false;
  std::array<Lock, kLocks> locks{};

  static N num(auto value) { return static_cast<N>(value); }

  void lose_memory(N next) {
    *this = {};
    memory = next;
  }
  // The process starts with the data that it had.
  void restart(N next) { memory = next; }

  Answer<N> join(N asked, N longest_ttl, N now) {
    if (has_record && cluster != asked) return {Word::kForeign};
    if (!has_record || recorded != memory) {
      has_record = true;
      cluster = asked;
      longest = longest_ttl;
      recorded = memory;
      ready = false;
      ends = num(now + longest_ttl);
    }
    return {Word::kJoined, num(ready), ends, floor};
  }

  // Whether the record is of this cluster, and of the memory that the client knows.
  Answer<N> known(N asked, N client_knows, bool looks_inside) const {
    if (looks_inside && has_record && cluster != asked) return {Word::kForeign};
    const bool fits = has_record && cluster == asked && recorded == client_knows &&
                      (!looks_inside || recorded == memory);
    return {fits ? Word::kReady : Word::kLost};
  }

  // init: an operator says that nobody holds.
  Answer<N> rejoin(N asked, N client_knows, N end, N new_floor, N now, Flaw flaw = Flaw::kNone,
                   bool init = false) {
    const bool any = flaw == Flaw::kRejoinOfAnyTime;
    if (const auto fits = known(asked, any ? memory : client_knows, true);
        fits.word != Word::kReady) {
      return fits;
    }
    if (ready || (!any && !init && (ends != end || now < ends))) return {Word::kRefused};
    floor = std::max(floor, new_floor);
    ready = true;
    return {Word::kReady};
  }

  Answer<N> distrust(N asked, N client_knows, N seen, N now) {
    if (const auto fits = known(asked, client_knows, true); fits.word != Word::kReady) return fits;
    if (!ready || floor != seen) return {Word::kRefused};
    ready = false;
    ends = num(now + longest);
    floor = 0;
    return {Word::kLost};
  }

  Answer<N> acquire(N asked, N client_knows, std::size_t lock, std::size_t id, N tag, N attempt,
                    N ttl, N token, N now) {
    if (const auto fits = known(asked, client_knows, true); fits.word != Word::kReady) return fits;
    if (!ready) return {Word::kQuarantine, ends > now ? num(ends - now) : num(0)};
    if (ttl > longest) return {Word::kTooLong};
    Lock& at = locks[lock];
    // In the order of the script: a mark is told before its sweep, a hold after it.
    for (std::size_t i = 0; i < kIds; ++i) {
      const Mark& mark = at.marks[i];
      if (mark.is && mark.until > now && i == id && mark.attempt >= attempt) return {Word::kEnded};
    }
    bool busy = false;
    N first{};
    for (std::size_t i = 0; i < kIds; ++i) {
      if (at.marks[i].is && at.marks[i].until <= now) at.marks[i] = {};
      Hold& hold = at.holds[i];
      if (hold.is && hold.ends <= now) hold = {};
      if (!hold.is || (i == id && hold.tag == tag && hold.attempt <= attempt)) continue;
      first = busy ? std::min(first, hold.ends) : hold.ends;
      busy = true;
    }
    if (busy) return {Word::kBusy, num(first - now)};
    at.holds[id] = {true, num(now + ttl), ttl, token, 0, tag, attempt};
    return {Word::kGranted, floor};
  }

  Hold* living(std::size_t lock, std::size_t id, N now) {
    Hold& hold = locks[lock].holds[id];
    return hold.is && hold.ends > now ? &hold : nullptr;
  }

  Answer<N> confirm(N asked, N client_knows, std::size_t lock, std::size_t id, N tag, N attempt,
                    N token, N now, Flaw flaw = Flaw::kNone) {
    if (known(asked, client_knows, false).word != Word::kReady || !ready) return {Word::kLost};
    Hold* const hold = living(lock, id, now);
    const bool fits = hold != nullptr && hold->tag == tag && hold->attempt == attempt;
    if (!fits && flaw != Flaw::kCountsTheUnheld) return {Word::kNotHeld};
    if (fits) hold->token = token;
    floor = std::max(floor, token);
    return {Word::kConfirmed};
  }

  Answer<N> renew(N asked, N client_knows, std::size_t lock, std::size_t id, N seq, N ttl, N token,
                  bool any, N now) {
    if (known(asked, client_knows, false).word != Word::kReady || !ready) return {Word::kLost};
    Hold* const hold = living(lock, id, now);
    if (hold == nullptr) {
      const bool broken = locks[lock].broken != 0 && locks[lock].broken == token;
      return {broken ? Word::kBroken : Word::kGone};
    }
    if (hold->token == 0 && !any) return {Word::kGone};
    if (ttl > longest) return {Word::kTooLong};
    if (seq > hold->seq && now + ttl > hold->ends) {
      hold->seq = seq;
      hold->lease = ttl;
      hold->ends = num(now + ttl);
    }
    return {Word::kHeld, hold->token, hold->seq, hold->lease};
  }

  Answer<N> keep(N asked, N client_knows, std::size_t lock, std::size_t id, N seq, N ttl, bool any,
                 N now) {
    if (known(asked, client_knows, false).word != Word::kReady || !ready) return {Word::kLost};
    Hold* const hold = living(lock, id, now);
    if (hold == nullptr || (hold->token == 0 && !any)) return {Word::kGone};
    if (ttl > longest) return {Word::kTooLong};
    if (seq < hold->seq) return {Word::kGone};
    if (seq > hold->seq) {
      hold->seq = seq;
      hold->lease = ttl;
      hold->ends = num(now + ttl);
    }
    return {Word::kHeld, hold->token, hold->seq, hold->lease};
  }

  // Tag 0: whatever has the id.
  Answer<N> release(N asked, N client_knows, std::size_t lock, std::size_t id, N tag, N attempt,
                    bool late, N now, Flaw flaw = Flaw::kNone) {
    if (known(asked, client_knows, false).word != Word::kReady) return {Word::kLost};
    Hold& hold = locks[lock].holds[id];
    const bool lives = living(lock, id, now) != nullptr;
    const bool mine = hold.is && (tag == 0 || flaw == Flaw::kHandsLateBack ||
                                  (hold.tag == tag && hold.attempt <= attempt));
    if (mine) hold = {};
    if (late && !mine) locks[lock].marks[id] = {true, attempt, num(now + longest)};
    return {mine && lives ? Word::kReleased : Word::kGone};
  }

  Answer<N> break_lock(N asked, N client_knows, std::size_t lock, N token, N now) {
    if (known(asked, client_knows, false).word != Word::kReady) return {Word::kLost};
    for (Hold& hold : locks[lock].holds) {
      if (!hold.is || hold.token != token || hold.ends <= now) continue;
      hold = {};
      locks[lock].broken = token;
      return {Word::kBroken, 1};
    }
    return {Word::kNotHeld};
  }
};

}  // namespace holdfast::testing::redlock
