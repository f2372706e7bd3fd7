#include "lab/checker/ledger.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace holdfast::lab {
namespace {

struct IdHash {
  // The ids of real runs are random; those of hand-written ones are few.
  std::size_t operator()(const Id& id) const { return id.low * 0x9E3779B97F4A7C15ULL ^ id.high; }
};

// Some answers are possible for one kind of call only.
bool may_answer(Kind kind, Outcome outcome) {
  switch (outcome) {
    case Outcome::kGranted:
    case Outcome::kBusy: return kind == Kind::kAcquire;
    case Outcome::kRenewed: return kind == Kind::kRenew;
    case Outcome::kReleased: return kind == Kind::kRelease;
    case Outcome::kHeld: return kind == Kind::kHeld;
    case Outcome::kAccepted:
    case Outcome::kRefused: return kind == Kind::kWrite;
    default: return true;
  }
}

// Escapes control characters, quotes and backslashes, because names may come from anywhere.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 5> code{};
      std::snprintf(code.data(), code.size(), "\\x%02x", static_cast<unsigned>(byte));
      text += code.data();
    } else {
      if (each == '\'' || each == '\\') text += '\\';
      text += each;
    }
  }
  return text;
}

class Builder {
 public:
  explicit Builder(const History& history) {
    ledger_.history = &history;
    ledger_.by_lock.resize(history.locks.size());
    acquisition_of_.reserve(history.events.size() / 4);
  }

  Ledger build() && {
    find_deaths();
    for (std::size_t i = 0; i < ledger_.history->events.size(); ++i) take(i);
    finish_pending();
    finish_early();
    return std::move(ledger_);
  }

 private:
  struct CallKey {
    std::uint32_t process;
    std::uint64_t call;
    bool operator==(const CallKey&) const = default;
  };
  struct CallHash {
    std::size_t operator()(const CallKey& key) const {
      return (key.call * 0x9E3779B97F4A7C15ULL) ^ key.process;
    }
  };

  const Event& event(std::size_t index) const { return ledger_.event(index); }

  void problem(Class kind, std::string_view rule, std::size_t first, std::size_t second,
               const std::string& text) {
    ledger_.problems.push_back({kind, rule, first, second, event(second).at_ns, event(second).at_ns,
                                text + ", event " + std::to_string(second)});
  }
  void malformed(std::size_t index, const std::string& text) {
    problem(Class::kMalformed, "malformed", index, index,
            "history: " + text + " (" + owner_text(owner_of(event(index))) + ")");
  }

  void find_deaths() {
    for (const Event& event : ledger_.history->events) {
      if (event.kind == Kind::kDeath) died_.try_emplace(event.process, event.at_ns);
    }
  }
  std::int64_t died(std::uint32_t process) const {
    const auto found = died_.find(process);
    return found == died_.end() ? kNever : found->second;
  }

  void take(std::size_t index) {
    const Event& e = event(index);
    switch (e.kind) {
      case Kind::kAcquire:
      case Kind::kRenew:
      case Kind::kRelease:
      case Kind::kHeld:
      case Kind::kWrite: return e.phase == Phase::kInvoke ? invoke(index) : complete(index);
      case Kind::kLost: losses_.emplace_back(e.id, e.at_ns); return;
      case Kind::kIncarnation: return incarnation(index);
      case Kind::kFault: return fault(index);
      case Kind::kDeath: return;
    }
  }

  void incarnation(std::size_t index) {
    if (event(index).phase == Phase::kInvoke) {
      ledger_.incarnations.push_back({index, kNoEvent, event(index).at_ns, kNever});
    } else if (ledger_.incarnations.empty() || ledger_.incarnations.back().ret != kNoEvent) {
      malformed(index, "an incarnation begins that was not announced");
    } else {
      ledger_.incarnations.back().ret = index;
      ledger_.incarnations.back().returned = event(index).at_ns;
    }
  }

  void fault(std::size_t index) {
    const Event& e = event(index);
    if (e.fault == FaultKind::kClockJump) ledger_.clock_jumps.push_back(e.at_ns);
    const std::uint64_t key = std::uint64_t{e.target} << 8 | static_cast<std::uint64_t>(e.fault);
    if (e.phase == Phase::kInvoke) {
      open_faults_[key] = ledger_.faults.size();
      ledger_.faults.push_back({index, kNoEvent, e.at_ns, kNever});
      return;
    }
    const auto found = open_faults_.find(key);
    if (found == open_faults_.end()) return malformed(index, "a fault ends that never began");
    Call& call = ledger_.faults[found->second];
    call.ret = index;
    call.returned = e.at_ns;
    open_faults_.erase(found);
  }

  // An owner makes one call at a time; its renewals run beside them.
  void invoke(std::size_t index) {
    const Event& e = event(index);
    if (!pending_.try_emplace({e.process, e.call}, index).second) {
      return malformed(index, "a call number is used twice");
    }
    if (e.kind == Kind::kRenew) return;
    const auto [busy, fresh] = busy_owner_.try_emplace(owner_of(e), index);
    if (!fresh) {
      malformed(index, "a call begins while event " + std::to_string(busy->second) +
                           " of the same owner has not returned");
      busy->second = index;
    }
  }

  void complete(std::size_t index) {
    const Event& e = event(index);
    const auto found = pending_.find({e.process, e.call});
    if (found == pending_.end()) return malformed(index, "a call returns that never began");
    const Call call{found->second, index, event(found->second).at_ns, e.at_ns};
    pending_.erase(found);
    const Event& begun = event(call.invoke);
    if (begun.kind != Kind::kRenew) busy_owner_.erase(owner_of(begun));
    if (begun.kind != e.kind || begun.lock != e.lock || owner_of(begun) != owner_of(e)) {
      return malformed(index, "a call returns as another one than it began");
    }
    if (!may_answer(e.kind, e.outcome)) {
      return malformed(index, std::string(name_of(e.kind)) + " was answered with '" +
                                  std::string(name_of(e.outcome)) + "'");
    }
    switch (e.kind) {
      case Kind::kAcquire: return acquired(call);
      case Kind::kRenew: return renewed(call);
      case Kind::kRelease: return released(call);
      case Kind::kHeld: return asked(call);
      default: return written(call);
    }
  }

  void acquired(const Call& call) {
    const Event& begun = event(call.invoke);
    const Event& done = event(call.ret);
    if (done.outcome != Outcome::kGranted) {
      ledger_.attempts.push_back({call, begun.lock, done.outcome, died(begun.process)});
      return;
    }
    if (!done.id) return malformed(call.ret, "a grant without an acquisition id");
    const auto [found, fresh] = acquisition_of_.try_emplace(
        done.id, static_cast<std::uint32_t>(ledger_.acquisitions.size()));
    if (!fresh) return reentered(found->second, call);
    Acquisition acquisition{.id = done.id, .lock = begun.lock, .owner = owner_of(begun)};
    acquisition.mode = begun.mode;
    acquisition.count = begun.count;
    acquisition.capacity = begun.capacity;
    acquisition.token = done.token;
    acquisition.acquire = call;
    acquisition.extensions.push_back({call, done.deadline_ns, begun.ttl_ns});
    acquisition.died = died(begun.process);
    ledger_.by_lock[begun.lock].push_back(found->second);
    ledger_.acquisitions.push_back(std::move(acquisition));
  }

  void reentered(std::uint32_t index, const Call& call) {
    Acquisition& acquisition = ledger_.acquisitions[index];
    const Event& done = event(call.ret);
    const std::string what = lock_text(*ledger_.history, acquisition.lock) + ": ";
    const std::size_t first = acquisition.acquire.ret;
    if (acquisition.owner != owner_of(done) || acquisition.lock != done.lock) {
      problem(Class::kV0, "one-id-two-owners", first, call.ret,
              what + "one acquisition was granted to " + owner_text(acquisition.owner) +
                  " and to " + owner_text(owner_of(done)));
      return;
    }
    if (acquisition.token != done.token) {
      problem(Class::kV0, "re-entry-token", first, call.ret,
              what + owner_text(acquisition.owner) + " re-entered and got token " +
                  token_text(done.token) + " instead of " + token_text(acquisition.token));
    }
    ledger_.held.push_back({call, index});
    if (acquisition.holds == 0) {
      problem(Class::kV0, "granted-after-release", first, call.ret,
              what + owner_text(acquisition.owner) +
                  " was granted an acquisition again that it "
                  "had released");
      return;
    }
    ++acquisition.holds;
  }

  void renewed(const Call& call) {
    const Event& done = event(call.ret);
    Acquisition* acquisition = find(done.id);
    if (acquisition == nullptr) {
      early_.push_back(call);
      return;
    }
    if (done.outcome == Outcome::kLost) {
      acquisition->told_lost = std::min(acquisition->told_lost, done.at_ns);
    }
    if (done.outcome != Outcome::kRenewed) return;
    if (acquisition->release_confirmed && call.invoked >= acquisition->release.returned) {
      problem(Class::kV0, "renewed-after-release", acquisition->release.ret, call.ret,
              lock_text(*ledger_.history, acquisition->lock) + ": " +
                  owner_text(acquisition->owner) + " renewed what it had released");
      return;
    }
    acquisition->extensions.push_back({call, done.deadline_ns, event(call.invoke).ttl_ns});
    ledger_.held.push_back({call, index_of(done.id)});
  }

  void released(const Call& call) {
    const Event& done = event(call.ret);
    Acquisition* acquisition = find(done.id);
    if (acquisition == nullptr) {
      if (done.outcome == Outcome::kReleased) {
        malformed(call.ret, "a release of an acquisition that was never granted");
      }
      return;
    }
    const std::string what = lock_text(*ledger_.history, acquisition->lock) + ": ";
    if (acquisition->owner != owner_of(done)) {
      if (done.outcome != Outcome::kReleased) return;
      problem(Class::kV0, "release-by-stranger", acquisition->acquire.ret, call.ret,
              what + "the store let " + owner_text(owner_of(done)) + " release an acquisition of " +
                  owner_text(acquisition->owner));
      return;
    }
    if (acquisition->holds == 0) {
      if (done.outcome != Outcome::kReleased) return;
      problem(Class::kV0, "released-twice", acquisition->release.ret, call.ret,
              what + owner_text(acquisition->owner) +
                  " released one acquisition twice, and both "
                  "times it was told that it had held it");
      return;
    }
    if (--acquisition->holds > 0) return;
    acquisition->release = call;
    acquisition->released = call.invoked;
    acquisition->release_confirmed = done.outcome == Outcome::kReleased;
  }

  void asked(const Call& call) {
    const Event& done = event(call.ret);
    Acquisition* acquisition = find(done.id);
    if (acquisition == nullptr) {
      return malformed(call.ret, "a question about an acquisition that was never granted");
    }
    if (done.outcome == Outcome::kLost) {
      acquisition->told_lost = std::min(acquisition->told_lost, done.at_ns);
    } else if (done.outcome == Outcome::kHeld) {
      ledger_.held.push_back({call, index_of(done.id)});
    }
  }

  void written(const Call& call) {
    const Event& done = event(call.ret);
    if (done.outcome == Outcome::kRefused) ledger_.refused.push_back(call);
    if (done.outcome != Outcome::kAccepted) return;
    if (done.sequence == 0) return malformed(call.ret, "an accepted write without its number");
    ledger_.writes.push_back({call, index_of(done.id)});
  }

  // An invoked release ends the belief, even if it never returned.
  void finish_pending() {
    std::vector<std::size_t> left;
    for (const auto& [key, index] : pending_) left.push_back(index);
    std::sort(left.begin(), left.end());
    for (const std::size_t index : left) {
      const Event& e = event(index);
      const Call call{index, kNoEvent, e.at_ns, kNever};
      if (e.kind == Kind::kAcquire) {
        ledger_.attempts.push_back({call, e.lock, Outcome::kNone, died(e.process)});
      } else if (e.kind == Kind::kWrite) {
        ledger_.open_writes.push_back(call);
      } else if (e.kind == Kind::kRelease) {
        Acquisition* acquisition = find(e.id);
        if (acquisition == nullptr || acquisition->owner != owner_of(e)) continue;
        if (acquisition->holds == 0 || --acquisition->holds > 0) continue;
        acquisition->release = call;
        acquisition->released = call.invoked;
      }
    }
  }

  // A renewal may run, and a loss may be noticed, before the acquire returns to its caller, which
  // may even die before.
  void finish_early() {
    std::unordered_set<std::uint64_t> in_vain;
    for (const Attempt& attempt : ledger_.attempts) {
      in_vain.insert(owner_of(event(attempt.call.invoke)));
    }
    for (const Call& call : std::exchange(early_, {})) {
      const Event& done = event(call.ret);
      Acquisition* acquisition = find(done.id);
      if (acquisition != nullptr) {
        renewed(call);
        std::sort(acquisition->extensions.begin(), acquisition->extensions.end(),
                  [](const Extension& a, const Extension& b) { return a.call.ret < b.call.ret; });
      } else if (done.outcome == Outcome::kRenewed && !in_vain.contains(owner_of(done))) {
        malformed(call.ret, "a renewal of an acquisition that was never granted");
      }
    }
    for (const auto& [id, at] : losses_) {
      Acquisition* acquisition = find(id);
      if (acquisition != nullptr) acquisition->told_lost = std::min(acquisition->told_lost, at);
    }
  }

  std::size_t index_of(const Id& id) const {
    const auto found = acquisition_of_.find(id);
    return found == acquisition_of_.end() ? kNoEvent : found->second;
  }
  Acquisition* find(const Id& id) {
    const std::size_t index = index_of(id);
    return index == kNoEvent ? nullptr : &ledger_.acquisitions[index];
  }

  Ledger ledger_;
  std::vector<Call> early_;
  std::vector<std::pair<Id, std::int64_t>> losses_;
  std::unordered_map<CallKey, std::size_t, CallHash> pending_;
  std::unordered_map<std::uint64_t, std::size_t> busy_owner_;
  std::unordered_map<Id, std::uint32_t, IdHash> acquisition_of_;
  std::unordered_map<std::uint32_t, std::int64_t> died_;
  std::unordered_map<std::uint64_t, std::size_t> open_faults_;
};

std::string milliseconds(std::int64_t ns) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.6f ms", static_cast<double>(ns) / 1e6);
  return text.data();
}

}  // namespace

Ledger take_apart(const History& history) { return Builder(history).build(); }

std::string owner_text(std::uint64_t owner) {
  return "owner " + std::to_string(owner >> 32) + "/" + std::to_string(owner & 0xFFFFFFFFU);
}

std::string token_text(Token token) {
  return std::to_string(token.epoch) + "." + std::to_string(token.counter);
}

std::string lock_text(const History& history, std::uint32_t lock) {
  return "lock '" + escaped(history.locks[lock]) + "'";
}

std::string time_text(const History& history, std::int64_t at) {
  return at == kNever ? "the end" : milliseconds(at - history.events.front().at_ns);
}

std::string span_text(std::int64_t ns) { return milliseconds(ns); }

}  // namespace holdfast::lab
