// The search over the cluster's model: from every state it takes every step that is possible there.
//
// It judges every state: at most one client believes to hold. A client that begins to hold has a
// token above all earlier ones. A server that says "nothing was applied" is right.
//
// Thread-safety: none. Memory: 16 bytes for a state that it has seen, or more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/cluster/model.h"
#include "tests/support/seen_states.h"

namespace holdfast::testing::cluster {

using Phase = Client::Phase;
using Role = Server::Role;

inline bool is_large() {
  const char* const wanted = std::getenv("HOLDFAST_SEARCH");
  return wanted != nullptr && std::string_view(wanted) == "large";
}

constexpr const char* kTwoHold = "two clients believe to hold";
constexpr const char* kTokenAgain = "a token was told that is not above an earlier one";
constexpr const char* kFalseNever = "nothing was applied, a server said, and it was";
constexpr const char* kTooLarge = "the scope is too large for this test";

class Search {
 public:
  explicit Search(const Scope& scope) : scope_(scope) {}

  struct Outcome {
    const char* violation = "";
    std::size_t states = 0, take_overs = 0, grants = 0, renewals = 0, closings = 0, refused = 0;
  };

  Outcome run() {
    add(first());
    while (!open_.empty() && *outcome_.violation == '\0') {
      const State state = std::move(open_.back());
      open_.pop_back();
      expand(state);
    }
    outcome_.states = seen_.size();
    return outcome_;
  }

 private:
  static N num(auto value) { return static_cast<N>(value); }

  // The first server leads, and the first client holds.
  State first() const {
    State state;
    state.owner = state.revision = state.last_revision = 1;
    state.key_end = scope_.leadership;
    state.journal[1] = {Kind::kTakeOver, 0, 0, 0, 0, 0, 1};
    state.journal[2] = {Kind::kGrant, 1, scope_.lease, 1, 0, scope_.lease, 1};
    Server& leader = state.servers[0];
    leader.role = Role::kLeads;
    leader.revision = 1;
    leader.deadline = scope_.leadership;
    leader.number = 2;
    leader.machine = {1, scope_.lease, scope_.lease, 1};
    state.clients[0].phase = Phase::kHolds;
    state.clients[0].deadline = scope_.lease;
    state.highest_token = 1;
    return state;
  }

  void judge(const State& state) {
    int holders = 0;
    for (const Client& one : state.clients) {
      holders += one.phase == Phase::kHolds && one.deadline > state.now ? 1 : 0;
    }
    if (holders > 1) outcome_.violation = kTwoHold;
  }

  // Whether it can still change anything. A term's guard never holds again.
  bool is_void(const State& state, const Write& write) const {
    const Server& server = state.servers[write.server];
    const bool awaited = server.life == write.life && server.pending &&
                         server.number + 1 == write.number && server.record == write.record;
    if (awaited) return false;
    return write.record.kind == Kind::kRenewal || !guard_holds(state, write.revision) ||
           state.journal[write.number].kind != Kind::kNone;
  }

  // Nobody can hold any more, and no server can say anything.
  static bool is_over(const State& state) {
    return std::all_of(state.clients.begin(), state.clients.end(),
                       [](const Client& one) { return one.phase == Phase::kOver; }) &&
           std::none_of(state.servers.begin(), state.servers.end(),
                        [](const Server& one) { return one.pending; });
  }

  void add(State&& state) {
    std::erase_if(state.writes, [&](const Write& write) { return is_void(state, write); });
    std::sort(state.writes.begin(), state.writes.end());
    judge(state);
    if (seen_.size() > (is_large() ? 30'000'000U : 6'000'000U)) outcome_.violation = kTooLarge;
    if (seen_.insert(state.hash()) && !is_over(state)) open_.push_back(std::move(state));
  }

  template <typename Step>
  void step(const State& state, Step change) {
    State next = state;
    change(next);
    add(std::move(next));
  }

  void expand(const State& state) {
    if (state.now < scope_.ticks) step(state, [](State& next) { tick(next); });
    expand_key(state);
    for (std::size_t at = 0; at < state.writes.size(); ++at) deliver(state, at);
    for (std::size_t at = 0; at < kServers; ++at) expand_server(state, at);
    for (std::size_t at = 0; at <= scope_.contenders; ++at) expand_client(state, at);
  }

  static void tick(State& state) {
    ++state.now;
    for (Client& one : state.clients) {
      if (one.phase == Phase::kHolds && one.deadline <= state.now) over(one);
    }
  }

  static void over(Client& client) {
    client.phase = Phase::kOver;
    client.acquire = client.renew = 0;
  }

  // --- etcd.

  void expand_key(const State& state) {
    if (state.owner == 0) return;
    const bool due = state.key_end <= state.now;
    if (!due && state.early_ends >= scope_.early_ends) return;
    step(state, [&](State& next) {
      if (!due) ++next.early_ends;
      next.owner = 0;
    });
  }

  bool guard_holds(const State& state, N revision) const {
    if (scope_.flaw == Flaw::kNoGuard) return true;
    return state.owner != 0 && state.revision == revision;
  }

  // One transaction: the guard, the absence of its own key, and what it reads when it fails.
  Answer commit(State& state, const Write& write) const {
    Answer answer{true, guard_holds(state, write.revision), true, Answer::Own::kAbsent,
                  write.number};
    answer.leads = answer.done;
    if (write.record.kind == Kind::kRenewal) return answer;
    Record& own = state.journal[write.number];
    if (own.kind != Kind::kNone) {
      answer.done = false;
      answer.own = own == write.record ? Answer::Own::kSame : Answer::Own::kOther;
    }
    if (answer.done) own = write.record;
    return answer;
  }

  void deliver(const State& state, std::size_t index) {
    for (const bool stays : {false, true}) {
      if (stays && state.repeats >= scope_.repeats) continue;
      for (const bool lost : {false, true}) {
        if (lost && state.lost_answers >= scope_.lost_answers) continue;
        step(state, [&](State& next) {
          const Write write = next.writes[index];
          if (stays) ++next.repeats;
          if (lost) ++next.lost_answers;
          if (!stays) next.writes.erase(next.writes.begin() + static_cast<std::ptrdiff_t>(index));
          const Answer answer = commit(next, write);
          Server& server = next.servers[write.server];
          const bool awaited = server.life == write.life && server.pending && !server.answer.is &&
                               server.number + 1 == write.number && server.record == write.record;
          if (awaited && !lost) server.answer = answer;
        });
      }
    }
  }

  // --- Servers.

  static void stand_by(Server& server) {
    const N life = num(server.life + 1);
    server = {};
    server.life = life;
  }

  static bool on_way(const State& state, std::size_t at) {
    const Server& server = state.servers[at];
    return std::any_of(state.writes.begin(), state.writes.end(), [&](const Write& write) {
      return write.server == at && write.life == server.life && write.record == server.record;
    });
  }

  static void send(State& state, std::size_t at) {
    const Server& server = state.servers[at];
    state.writes.push_back({num(at), server.life, server.revision, num(server.number + 1),
                            server.record});
  }

  static void begin(State& state, std::size_t at, Record record, N asked = 0, N length = 0) {
    Server& server = state.servers[at];
    record.revision = server.revision;
    record.at = state.now;
    server.pending = true;
    server.record = record;
    server.asked = asked;
    server.reply_length = length;
    server.answer = {};
    send(state, at);
  }

  static bool has_room(const Server& server) { return server.number + 2U < State::kMostRecords; }

  void expand_server(const State& state, std::size_t at) {
    const Server& server = state.servers[at];
    if (server.role == Role::kStandby) return expand_standby(state, at);
    if (state.crashes < scope_.crashes) {
      step(state, [&](State& next) {
        ++next.crashes;
        stand_by(next.servers[at]);
      });
    }
    if (server.answer.is) step(state, [&](State& next) { on_answer(next, at); });
    if (server.pending && !server.answer.is && !on_way(state, at)) {
      step(state, [&](State& next) { send(next, at); });
      if (scope_.flaw == Flaw::kOtherBytes) retry_otherwise(state, at);
    }
    expand_keepalive(state, at);
    if (server.role == Role::kMayRead) step(state, [&](State& next) { recover(next, at); });
    if (server.role == Role::kLeads) expand_leader(state, at);
    if (server.role == Role::kCloses && scope_.flaw == Flaw::kRenewsAfterClosing) {
      renew_each(state, at);
    }
  }

  void expand_standby(const State& state, std::size_t at) {
    const bool ripe = state.key_end <= state.now && scope_.flaw == Flaw::kKeyOverwritten;
    if (scope_.flaw == Flaw::kReadsBeforeOwning && !state.servers[at].has_read) {
      step(state, [&](State& next) {
        next.servers[at].has_read = true;
        fold(next, at);
      });
    }
    if ((state.owner != 0 && !ripe) || state.take_overs >= scope_.take_overs) return;
    const bool reads_first = scope_.flaw == Flaw::kReadsBeforeOwning;
    if (reads_first && !state.servers[at].has_read) return;
    step(state, [&](State& next) {
      ++next.take_overs;
      ++outcome_.take_overs;
      const bool overwrites = next.owner != 0;  // A put over a key keeps its create_revision.
      next.owner = num(at + 1);
      if (!overwrites) next.revision = ++next.last_revision;
      next.key_end = num(next.now + scope_.leadership);
      Server& server = next.servers[at];
      server.role = Role::kOwns;
      server.revision = next.revision;
      server.deadline = next.key_end;
      server.number = last(next);
      begin(next, at, {Kind::kTakeOver});
    });
  }

  static N last(const State& state) {
    N number = 0;
    while (number + 1U < State::kMostRecords && state.journal[number + 1U].kind != Kind::kNone) {
      ++number;
    }
    return number;
  }

  void expand_keepalive(const State& state, std::size_t at) {
    const Server& server = state.servers[at];
    if (server.keepalive == 0) {
      if (state.keepalives >= scope_.keepalives) return;
      return step(state, [&](State& next) {
        ++next.keepalives;
        next.servers[at].keepalive = num(next.now + 1);
      });
    }
    step(state, [&](State& next) {
      Server& asks = next.servers[at];
      const N sent = num(std::exchange(asks.keepalive, N{0}) - 1);
      if (next.owner != at + 1 || next.revision != asks.revision) return;
      next.key_end = num(next.now + scope_.leadership);
      asks.deadline = num(sent + scope_.leadership);
    });
  }

  // The state that the journal holds, with leases as they are in it.
  void fold(State& state, std::size_t at) const {
    Machine machine;
    bool closed = false;
    for (N number = 1; number <= last(state); ++number) {
      const Record& record = state.journal[number];
      const bool own = record.kind == Kind::kTakeOver &&
                       record.revision == state.servers[at].revision;
      if (!own) closed = record.kind == Kind::kClosing;
      switch (record.kind) {
        case Kind::kGrant:
          machine = {record.client, record.end, record.length, record.token};
          break;
        case Kind::kRelease: machine.holder = kNobody; break;
        case Kind::kLonger:
          machine.end = std::max(machine.end, record.end);
          machine.length = std::max(machine.length, record.length);
          break;
        case Kind::kClosing: machine.end = record.end; break;
        default: break;
      }
    }
    if (scope_.flaw != Flaw::kNoExtension && !closed) {
      const N d = scope_.flaw == Flaw::kNoLeadershipLease ? N{0} : scope_.leadership;
      machine.end = num(state.now + machine.length + d);
    }
    state.servers[at].machine = machine;
  }

  void recover(State& state, std::size_t at) const {
    Server& server = state.servers[at];
    server.role = Role::kLeads;
    if (scope_.flaw != Flaw::kReadsBeforeOwning) fold(state, at);
  }

  void on_answer(State& state, std::size_t at) {
    Server& server = state.servers[at];
    const Answer answer = std::exchange(server.answer, Answer{});
    const bool blind = scope_.flaw == Flaw::kOtherBytes;  // Its key is there: it counts as its own.
    const bool same = answer.own == Answer::Own::kSame && scope_.flaw != Flaw::kRefusedMeansNever;
    const bool own = same || (blind && answer.own != Answer::Own::kAbsent);
    if (answer.done || own) {
      const bool leads = answer.leads;
      on_committed(state, at);
      if (!leads) stand_by(server);
      return;
    }
    ++outcome_.refused;
    const bool surely = !answer.leads && answer.own == Answer::Own::kAbsent;
    if (surely || scope_.flaw == Flaw::kRefusedMeansNever) {
      if (state.journal[answer.number] == server.record) outcome_.violation = kFalseNever;
    }
    stand_by(server);
  }

  void on_committed(State& state, std::size_t at) {
    Server& server = state.servers[at];
    const Record record = server.record;
    server.pending = false;
    if (record.kind != Kind::kRenewal) ++server.number;
    Machine& machine = server.machine;
    switch (record.kind) {
      case Kind::kTakeOver: server.role = Role::kMayRead; break;
      case Kind::kGrant:
        tell(state, record.client, server.asked, server.reply_length, record.token);
        break;
      case Kind::kRelease: break;
      case Kind::kRenewal:
      case Kind::kLonger:
        machine.length = std::max(machine.length, record.length);
        tell(state, record.client, server.asked, server.reply_length, machine.token);
        break;
      case Kind::kClosing:
        ++outcome_.closings;
        if (state.owner == at + 1 && state.revision == server.revision) state.owner = 0;
        if (scope_.flaw != Flaw::kRenewsAfterClosing) stand_by(server);
        break;
      default: break;
    }
    server.record = {};
  }

  // The client counts from its request.
  void tell(State& state, N id, N asked, N length, N token) {
    Client& client = state.clients[id - 1U];
    const N deadline = num(asked + length);
    if (deadline <= state.now) return;
    if (client.phase == Phase::kAsks) {
      ++outcome_.grants;
      if (token <= state.highest_token) outcome_.violation = kTokenAgain;
      state.highest_token = std::max(state.highest_token, token);
      client.phase = Phase::kHolds;
      client.deadline = deadline;
      client.acquire = 0;
    } else if (client.phase == Phase::kHolds) {
      ++outcome_.renewals;
      client.deadline = std::max(client.deadline, deadline);
    }
  }

  void expand_leader(const State& state, std::size_t at) {
    const Server& server = state.servers[at];
    if (state.owner != at + 1 || state.revision != server.revision) {
      step(state, [&](State& next) { stand_by(next.servers[at]); });
    }
    const bool good = state.now < server.deadline;
    if (scope_.flaw == Flaw::kLooksBeforeReading && good && !server.looked) {
      step(state, [&](State& next) { next.servers[at].looked = true; });
    }
    renew_each(state, at);
    if (server.pending || !has_room(server)) return;
    for (N id = 1; id <= kClients; ++id) apply(state, at, id);
    if (state.closings >= scope_.closings) return;
    step(state, [&](State& next) {
      ++next.closings;
      next.servers[at].role = Role::kCloses;
      begin(next, at, {Kind::kClosing, 0, 0, 0, 0, server.machine.end, 0});
    });
  }

  static void expire(State& state, std::size_t at) {
    Machine& machine = state.servers[at].machine;
    if (machine.end <= state.now) machine.holder = kNobody;
  }

  void apply(const State& state, std::size_t at, N id) {
    const Client& client = state.clients[id - 1U];
    if (client.release != 0) {
      step(state, [&](State& next) {
        next.clients[id - 1U].release = 0;
        expire(next, at);
        Machine& machine = next.servers[at].machine;
        if (machine.holder != id) return;
        machine.holder = kNobody;
        begin(next, at, {Kind::kRelease, id});
      });
    }
    if (client.acquire == 0) return;
    step(state, [&](State& next) {
      expire(next, at);
      Machine& machine = next.servers[at].machine;
      Client& asks = next.clients[id - 1U];
      const N asked = num(asks.acquire - 1);
      if (machine.holder == kNobody) {
        asks.acquire = 0;
        const N end = num(next.now + scope_.lease);
        machine = {id, end, scope_.lease, num(machine.token + 1)};
        begin(next, at, {Kind::kGrant, id, scope_.lease, machine.token, 0, end, 0}, asked,
              scope_.lease);
        if (scope_.flaw == Flaw::kRepliesEarly) tell(next, id, asked, scope_.lease, machine.token);
      } else if (machine.holder == id) {
        // Asked again: a committed grant is told as a renewal is, after a write of its own.
        asks.acquire = 0;
        machine.end = std::max(machine.end, num(next.now + scope_.lease));
        begin(next, at,
              {Kind::kLonger, id, scope_.lease, machine.token, 0, machine.end, 0}, asked,
              scope_.lease);
      }
    });
  }

  void renew_each(const State& state, std::size_t at) {
    for (N id = 1; id <= kClients; ++id) {
      if (state.clients[id - 1U].renew == 0) continue;
      step(state, [&](State& next) { renew(next, at, id); });
    }
  }

  void renew(State& state, std::size_t at, N id) {
    Server& server = state.servers[at];
    Client& client = state.clients[id - 1U];
    const N asked = num(client.renew - 1);
    const N length = client.renew_length;
    expire(state, at);
    Machine& machine = server.machine;
    if (machine.holder != id) return;
    const bool uncommitted = server.pending && server.record.client == id;
    if (uncommitted && scope_.flaw != Flaw::kHeartbeatTellsUncommitted) return;
    const N end = std::max(machine.end, num(state.now + length));
    if (length > machine.length && scope_.flaw != Flaw::kLongerUnjournaled) {
      if (server.pending || !has_room(server) || server.role != Role::kLeads) return;
      client.renew = 0;
      machine.end = end;
      return begin(state, at, {Kind::kLonger, id, length, machine.token, 0, end, 0}, asked, length);
    }
    if (scope_.by_write) {
      if (server.pending || server.role != Role::kLeads) return;
      client.renew = 0;
      machine.end = end;
      return begin(state, at, {Kind::kRenewal, id, 0, 0, 0, 0, 0}, asked, length);
    }
    if (!may_answer(state, server)) return;
    client.renew = 0;
    machine.end = end;
    tell(state, id, asked, length, machine.token);
  }

  bool may_answer(const State& state, const Server& server) const {
    if (scope_.flaw == Flaw::kNoLookAtDeadline) return true;
    if (scope_.flaw == Flaw::kLooksBeforeReading) return server.looked;
    return state.now < server.deadline;
  }

  // A retry in which another client's request took the place of the first one.
  void retry_otherwise(const State& state, std::size_t at) {
    const Server& server = state.servers[at];
    if (server.record.kind != Kind::kGrant) return;
    for (N id = 1; id <= kClients; ++id) {
      if (state.clients[id - 1U].acquire == 0 || id == server.record.client) continue;
      step(state, [&](State& next) {
        Server& retries = next.servers[at];
        Client& asks = next.clients[id - 1U];
        const N asked = num(asks.acquire - 1);
        asks.acquire = 0;
        retries.machine.holder = id;
        retries.machine.end = num(next.now + scope_.lease);
        Record record = retries.record;
        record.client = id;
        record.end = retries.machine.end;
        begin(next, at, record, asked, scope_.lease);
      });
    }
  }

  // --- Clients.

  void expand_client(const State& state, std::size_t at) {
    const Client& client = state.clients[at];
    // The two contenders are alike: the second one begins after the first one.
    const bool turn = at < 2 || state.clients[at - 1].phase != Phase::kIdle;
    if (at > 0 && client.phase == Phase::kIdle && turn) {
      step(state, [&](State& next) {
        next.clients[at].phase = Phase::kAsks;
        next.clients[at].acquire = num(next.now + 1);
      });
    }
    if (client.phase == Phase::kAsks && client.acquire == 0 && client.resends < scope_.resends) {
      step(state, [&](State& next) {
        ++next.clients[at].resends;
        next.clients[at].acquire = num(next.now + 1);
      });
    }
    const bool beats = client.phase == Phase::kHolds ||
                       (client.phase == Phase::kAsks &&
                        scope_.flaw == Flaw::kHeartbeatTellsUncommitted);
    const N most = at == 0 ? scope_.renewals : scope_.others_renewals;
    if (beats && client.renew == 0 && client.renewals < most) {
      for (const N length : {scope_.lease, scope_.longer}) {
        if (length == 0) continue;
        step(state, [&](State& next) {
          Client& renews = next.clients[at];
          ++renews.renewals;
          renews.renew = num(next.now + 1);
          renews.renew_length = length;
        });
      }
    }
    if (client.phase == Phase::kHolds && scope_.releases) {
      step(state, [&](State& next) {
        over(next.clients[at]);
        next.clients[at].release = 1;
      });
    }
  }

  const Scope scope_;
  SeenStates seen_;
  std::vector<State> open_;
  Outcome outcome_;
};

}  // namespace holdfast::testing::cluster
