// The engine's part for what is held: renewals, releases, breaks, and looks.
#include <algorithm>
#include <map>
#include <utility>

#include "src/base/clock_bound.h"
#include "src/base/printable.h"
#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/fields.h"
#include "src/stores/redlock/engine.h"

namespace holdfast::stores::redlock {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;
using redis::Reply;

struct Terms {
  std::uint64_t token = 0;
  std::uint64_t seq = 0;
  std::int64_t lease = 0;
  friend bool operator==(const Terms&, const Terms&) = default;
};

// "held <token> <seq> <lease>"
std::optional<Terms> terms_of(std::string_view text) {
  redis::Fields fields(text);
  if (fields.word() != "held") return std::nullopt;
  Terms terms{fields.amount<std::uint64_t>(), fields.amount<std::uint64_t>(), fields.amount()};
  return fields.good() ? std::optional<Terms>(terms) : std::nullopt;
}

struct RenewalRound : Engine::Round {
  explicit RenewalRound(std::size_t nodes) : Round(nodes), renewal(nodes) {}
  Renewal<Terms> renewal;
  std::string trace{};  // The trace of a break.

  void add(std::size_t node, const Result<Reply>& reply) {
    take(node, reply);
    const auto terms = reply ? terms_of(reply->text) : std::nullopt;
    if (terms) return renewal.on_held(*terms);
    if (reply && reply->text.starts_with("broken ")) trace = reply->text.substr(7);
    reply && (reply->text == "gone" || !trace.empty()) ? renewal.on_gone() : renewal.on_silent();
  }
};

// One acquisition, as the nodes know it.
struct HoldAtNodes {
  std::vector<std::int64_t> left{};  // Microseconds, of each node that has it.
  std::uint64_t token = 0;
  std::string owner{};
};

struct LockAtNodes : Engine::Round {
  using Round::Round;
  std::map<std::string, HoldAtNodes> holds{};
  std::string trace{};
  std::uint64_t broken = 0;
  std::size_t answers = 0;

  void add(const Reply& reply) {
    if (reply.items.empty()) return;
    ++answers;
    const std::int64_t now = redis::Fields(reply.items[0].text).amount();
    for (std::size_t i = 1; i + 1 < reply.items.size(); i += 2) {
      add(reply.items[i].text, redis::Fields(reply.items[i + 1].text), now);
    }
  }
  void add(const std::string& field, redis::Fields fields, std::int64_t now) {
    if (field == "b") {
      const auto token = fields.number();
      if (token >= broken) trace = std::string(fields.rest());
      broken = std::max(broken, token);
    }
    if (field.size() != 32) return;
    const auto ends = fields.amount();
    const auto token = fields.number();
    if (!fields.good() || ends <= now) return;
    HoldAtNodes& seen = holds[field];
    seen.left.push_back(ends - now);
    seen.token = std::max(seen.token, token);
    seen.owner = std::string(fields.rest());
  }
};

}  // namespace

// `which`: the nodes to ask; the others count as silent.
void Engine::ask_all(const std::string& name, Nodes::Args words, BootInstant deadline,
                     const std::function<bool(std::size_t)>& which,
                     std::function<void(std::size_t, const Result<Reply>&)> answered) {
  const BootInstant by = std::min(deadline, BootClock::now() + nodes_.address().node_timeout);
  const Nodes::RequestPtr request = nodes_.request(Script::kHold, name, words);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const auto told = [weak = weak_from_this(), node, answered](const Result<Reply>& reply) {
      const auto self = weak.lock();
      if (!self) return;
      if (reply) self->nodes_.note(node, reply->text);
      answered(node, reply);
    };
    if (which(node)) {
      nodes_.call(node, request, by, told);
    } else {
      loop_->post([told] { told(Error(Errc::kUnavailable, "did not grant it")); });
    }
  }
}

Error Engine::no_majority(const std::string& name, const Round& round, const char* what) const {
  if (closed_) return {Errc::kClosed, "the redlock store was closed"};
  return {round.unknown ? Errc::kOutcomeUnknown : Errc::kUnavailable,
          nodes_.address().display() + ": lock '" + base::printable(name) + "': no majority " +
              what + ": " + nodes_.outcomes(round.words)};
}

// --- Renewals.

void Engine::renew(const std::vector<port::RenewItem>& items, BootInstant deadline,
                   Done<States> done) {
  struct Batch {
    States states;
    std::size_t left;
    Done<States> done;
  };
  if (items.empty()) return done(States{});
  auto batch = std::make_shared<Batch>(
      Batch{States(items.size(), AcquisitionState{}), items.size(), std::move(done)});
  for (std::size_t at = 0; at < items.size(); ++at) {
    renew_one(items[at], items.size() == 1, deadline, [batch, at](Result<AcquisitionState> state) {
      batch->states[at] = std::move(state);
      if (--batch->left == 0) batch->done(std::move(batch->states));
    });
  }
}

void Engine::renew_one(const port::RenewItem& item, bool alone, BootInstant deadline, Ask done) {
  const EntryPtr entry = find(item.name, item.id);
  if (entry == nullptr || entry->phase == Phase::kHeld) {
    return renew_held(item, entry, deadline, std::move(done));
  }
  Lock& lock = locks_.at(item.name);
  if (entry->alive_until <= instant()) {
    if (entry->phase == Phase::kWaiting) std::erase(lock.queue, entry);
    entry->withdrawn = true;
    done(AcquisitionState{.status = AcquisitionStatus::kGone});
    return advance(item.name);
  }
  entry->seq = std::max(entry->seq, item.seq);
  entry->alive_until = instant() + item.waiter_ttl;
  // Whoever asks alone is told what the nodes say now.
  const bool next = !lock.trying && lock.queue.front() == entry;
  if (!alone || (entry != lock.trying && !next)) return done(waiting(lock, entry));
  if (entry == lock.trying) return entry->late_asks.push_back(std::move(done));
  entry->asks.push_back(std::move(done));
  advance(item.name);
}

void Engine::renew_held(const port::RenewItem& item, const EntryPtr& entry, BootInstant deadline,
                        Ask done) {
  const bool tokens = nodes_.address().tokens;
  const BootInstant sent = instant();
  const auto told = std::make_shared<RenewalRound>(nodes_.size());
  ask_all(
      item.name,
      {tokens ? "renew" : "renewany", redis::id_text(item.id),
       std::to_string(item.seq) + ' ' + std::to_string(item.ttl.count()) + ' ' +
           std::to_string(item.token.counter)},
      deadline, [&](std::size_t node) { return !entry || entry->tried->attempt.is_member(node); },
      [this, told, entry, item, tokens, sent, done](std::size_t node, const Result<Reply>& reply) {
        if (told->answered) return;
        told->add(node, reply);
        const auto terms = told->renewal.renewed();
        if (terms && (entry || tokens)) {
          told->answered = true;
          AcquisitionState state{.status = AcquisitionStatus::kHeld};
          state.token = {0, terms->token};
          state.seq = terms->seq;
          state.lease = port::Duration(terms->lease);
          if (entry && state.seq == item.seq) {
            entry->sure_until = base::ClockBound().safe_deadline(sent, state.lease);
            entry->state = state;
          }
          return done(state);
        }
        if (!told->renewal.complete()) return;
        told->answered = true;
        if (!told->renewal.gone()) {
          return done(no_majority(item.name, *told, "renewed it, the old deadline stays"));
        }
        if (entry) forget(item.name, entry);
        if (told->trace.empty()) return done(AcquisitionState{.status = AcquisitionStatus::kGone});
        done(port::broken_error(item.name, port::to_public(port::read_trace(told->trace))));
      });
}

void Engine::forget(const std::string& name, const EntryPtr& entry) {
  const auto found = locks_.find(name);
  if (found == locks_.end() || found->second.holder != entry) return;
  found->second.holder = nullptr;
  advance(name);
}

void Engine::keep(const port::KeepRequest& request, Done<bool> done) {
  if (request.value) {
    return done(Error(Errc::kUnsupported, "redlock keeps no value beside a lock"));
  }
  const EntryPtr entry = find(request.name, request.id);
  const auto told = std::make_shared<RenewalRound>(nodes_.size());
  ask_all(
      request.name,
      {nodes_.address().tokens ? "keep" : "keepany", redis::id_text(request.id),
       std::to_string(request.seq) + ' ' + std::to_string(request.ttl.count())},
      request.deadline,
      [&](std::size_t node) {
        return !entry || (entry->tried && entry->tried->attempt.is_member(node));
      },
      [this, told, entry, request, done](std::size_t node, const Result<Reply>& reply) {
        if (told->answered) return;
        told->add(node, reply);
        const auto terms = told->renewal.renewed();
        const bool kept = terms && terms->seq == request.seq;
        if (!kept && !told->renewal.complete()) return;
        told->answered = true;
        if (kept) {
          if (entry) forget(request.name, entry);
          return done(true);
        }
        if (told->renewal.gone()) {
          return done(Error(Errc::kLost,
                            "lock '" + base::printable(request.name) + "': the lease has ended"));
        }
        told->unknown = true;  // Some nodes may have done it.
        done(no_majority(request.name, *told, "keeps it"));
      });
}

// --- Ends.

void Engine::release(const std::string& name, AcquisitionId id, const EntryPtr& entry,
                     BootInstant deadline, Done<EndStatus> done) {
  struct Ending : Round {
    using Round::Round;
    std::size_t released = 0;
    std::size_t gone = 0;
  };
  const auto ending = std::make_shared<Ending>(nodes_.size());
  const TryPtr tried = entry ? entry->tried : nullptr;
  if (tried) tried->over = true;  // Nodes that have not answered yet are told when they do.
  // The next waiter of this client asks once the nodes have it, so that other clients get a turn.
  if (const auto found = locks_.find(name);
      found != locks_.end() && entry && found->second.holder == entry) {
    found->second.holder = nullptr;
  }
  ++ends_;
  const bool known = tried != nullptr;
  const auto told = [this, ending, name, known, done](std::size_t node,
                                                      const Result<Reply>& reply) {
    ending->take(node, reply);
    ending->released += reply && reply->text == "released" ? 1 : 0;
    ending->gone += reply && (reply->text == "gone" || reply->text == "lost") ? 1 : 0;
    const std::size_t majority = nodes_.majority();
    const bool enough = ending->released + ending->gone >= majority;
    // A lock of this client ends with a majority of answers. An id that it does not know may have
    // been released before: then a node that heard nothing of that yet does not decide.
    const bool was_over = !known && ending->gone >= majority;
    const bool decided = known ? enough : was_over || ending->released >= majority;
    if (ending->answered || (!decided && ending->left > 0)) return;
    ending->answered = true;
    if (enough) {
      done(ending->released > 0 && !was_over ? EndStatus::kReleased : EndStatus::kGone);
    } else {
      done(no_majority(name, *ending, "answered the release; the lease ends by itself"));
    }
    ended_one();
    advance(name);
  };
  const std::string named = tried ? tried->named : "-";
  const BootInstant by = std::min(deadline, BootClock::now() + nodes_.address().node_timeout);
  const auto ask = [&](const char* mark) {
    return nodes_.request(Script::kHold, name, {"release", redis::id_text(id), mark + named});
  };
  const Nodes::RequestPtr request = ask("- ");
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const auto answered = [weak = weak_from_this(), node, told](const Result<Reply>& reply) {
      if (const auto self = weak.lock()) told(node, reply);
    };
    const auto vote = tried ? tried->attempt.vote(node) : Vote::kConfirmed;
    if (vote == Vote::kAsked) {
      loop_->post([answered] { answered(Error(Errc::kUnavailable, "has not answered yet")); });
      continue;
    }
    nodes_.call(node, vote == Vote::kUnknown ? ask("z ") : request, by, answered);
  }
}

void Engine::break_lock(const port::BreakRequest& request, Done<bool> done) {
  struct Breaking : Round {
    using Round::Round;
    std::size_t answers = 0;
    std::string id{};
  };
  const auto all = std::make_shared<Breaking>(nodes_.size());
  ask_all(
      request.name,
      {"break", "-",
       std::to_string(request.token.counter) + ' ' +
           port::write_trace({request.token, request.by})},
      request.deadline, [](std::size_t) { return true; },
      [this, all, request, done](std::size_t node, const Result<Reply>& reply) {
        all->take(node, reply);
        if (reply && reply->text.starts_with("broken ")) all->id = reply->text.substr(7);
        all->answers += reply && (!all->id.empty() || reply->text == "notheld") ? 1 : 0;
        if (all->left > 0) return;
        const auto id = redis::parse_id(all->id);
        // A write-back may still be on its way to a node that does not know the token yet.
        if (id && request.token.epoch == 0) {
          return release(
              request.name, *id, nullptr, request.deadline,
              [done](const Result<EndStatus>& ended) { ended ? done(true) : done(ended.error()); });
        }
        if (all->answers >= nodes_.majority()) {
          return done(Error(Errc::kLost, "lock '" + base::printable(request.name) +
                                             "': no holder has that token"));
        }
        all->unknown = true;
        done(no_majority(request.name, *all, "answered"));
      });
}

// --- Looks.

void Engine::inspect(const std::string& name, BootInstant deadline,
                     Done<std::optional<LockInfo>> done) {
  const auto view = std::make_shared<LockAtNodes>(nodes_.size());
  ask_all(
      name, {"inspect", "-", "-"}, deadline, [](std::size_t) { return true; },
      [this, view, name, done](std::size_t node, const Result<Reply>& reply) {
        view->take(node, reply);
        if (reply) view->add(*reply);
        if (view->left > 0) return;
        view->unknown = false;  // A look changes nothing.
        if (view->answers < nodes_.majority()) return done(no_majority(name, *view, "answers"));
        LockInfo info;
        info.name = name;
        std::uint64_t last = view->broken;
        for (auto& [id, seen] : view->holds) {
          // A node that is silent may have it, too.
          const std::size_t silent = nodes_.size() - view->answers;
          if (seen.left.size() + silent < nodes_.majority() || seen.token == 0) continue;
          std::sort(seen.left.rbegin(), seen.left.rend());
          const std::size_t deciding = std::min(nodes_.majority(), seen.left.size()) - 1;
          HolderInfo holder;
          holder.who = port::to_public(port::read_owner(seen.owner));
          holder.token = {0, seen.token};
          holder.time_left = std::chrono::floor<std::chrono::milliseconds>(
              std::chrono::microseconds(seen.left[deciding]));
          last = std::max(last, seen.token);
          info.holders.push_back(std::move(holder));
        }
        info.last_token = {0, last};
        if (!view->trace.empty()) info.last_break = port::to_public(port::read_trace(view->trace));
        if (const auto found = locks_.find(name); found != locks_.end()) {
          std::vector<EntryPtr> waiters = found->second.queue;
          const EntryPtr& trying = found->second.trying;
          if (trying && trying->queued) waiters.insert(waiters.begin(), trying);
          for (const EntryPtr& entry : waiters) {
            WaiterInfo waiter;
            waiter.who = port::to_public(entry->request.owner);
            info.waiters.push_back(std::move(waiter));
          }
        }
        const bool known = !info.holders.empty() || !info.waiters.empty() || info.last_break;
        done(known ? std::optional<LockInfo>(std::move(info)) : std::nullopt);
      });
}

}  // namespace holdfast::stores::redlock
