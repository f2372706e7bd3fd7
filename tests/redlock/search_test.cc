// An exhaustive search of a small cluster: three nodes, up to three clients, one lock. Whatever
// order the messages arrive in, whoever stops for ever, whenever a node loses its memory.
//
// A client is src/stores/redlock/quorum.h, the code that the store runs; a node is node_model.h,
// which redlock_model_live_test compares with the scripts. From every state each of these steps is
// tried: a client begins, times out, renews or releases; a message arrives (the others stay on
// their way, also for ever: that is a crash or a loss), its answer arrives or is lost; the clock
// ticks; a node loses its memory; somebody looks at a node, or hands it the floor.
//
// Judged in every state: at most one client believes to hold. At every grant: its token is above
// all tokens granted before. Each flaw of node_model.h must be found.
//
// Left out: an answer is late only as a whole (the client acts on it at once, or never), and the
// clocks run alike. quorum_test.cc and the store's session have the part for their rates.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/redlock/quorum.h"
#include "tests/redlock/node_model.h"
#include "tests/support/seen_states.h"

namespace holdfast::testing::redlock {
namespace {

using stores::redlock::Attempt;
using stores::redlock::catch_up;
using stores::redlock::NodeView;
using stores::redlock::Renewal;
using stores::redlock::Vote;

constexpr std::size_t kNodes = 3;
constexpr std::size_t kClients = 3;
using N = std::uint8_t;
using Node = NodeModel<N, 1, kClients>;

struct Scope {
  std::size_t clients = 2;
  N attempts = 1;       // The first client's.
  N others_attempts = 1;
  N renewals = 0;
  N losses = 0;
  N jumps = 0;  // A node's clock jumps ahead: exclusion is not claimed then, but tokens are.
  N lost_answers = 0;
  N late = 1;  // So many messages of an attempt arrive after its end.
  N ticks = 3;
  N ttl = 2;
  N longest = 2;
  bool tokens_too = true;  // Else only exclusion counts, and nodes may be lost together.
  bool releases = true;
  bool timeouts = true;
  bool all_nodes = false;  // All lose their memory together.
  bool one_node = false;   // The same one loses its memory every time.
  N ahead = 0;  // Floor of the first node: of a write-back that reached no majority.
  Flaw flaw = Flaw::kNone;
};

enum class Kind : std::uint8_t { kAcquire, kConfirm, kRenew, kRelease, kRejoin };

struct Message {
  Kind kind{};
  N node{}, client{}, attempt{}, value{}, memory{}, late{};
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct Client {
  enum class Phase : std::uint8_t { kIdle, kTrying, kHolding };
  Phase phase = Phase::kIdle;
  N attempts{}, renewals{}, sent{}, renewed{}, deadline{}, seq{};
  std::array<N, kNodes> knows{};  // The memory of each node that it talked to.
  Attempt attempt{kNodes, true};
  // The renewal under way: a bit for each node that said held.
  N held{};
  N before{};  // The highest token granted when it began.
};

// The way back of one node.
struct Caretaker {
  bool active = false;
  N node{}, memory{}, ends{};
  N seen{};  // A bit for each node that was looked at.
  std::array<NodeView, kNodes> views{};
};

struct State {
  std::array<Node, kNodes> nodes{};
  std::array<Client, kClients> clients{};
  Caretaker caretaker{};
  std::vector<Message> messages{};  // Sorted.
  N now{}, losses{}, jumps{}, rounds{}, lost_answers{}, late{}, granted{}, tokens{};
};

class Search {
 public:
  explicit Search(const Scope& scope) : scope_(scope) {}

  struct Outcome {
    std::string violation{};  // Empty: none.
    std::size_t states = 0;
    std::size_t grants = 0;
  };

  Outcome run() {
    State first;
    for (Node& node : first.nodes) {
      node.longest = scope_.longest;
      node.has_record = node.ready = true;
      node.recorded = node.memory;
      node.cluster = 1;
    }
    first.nodes[0].floor = scope_.ahead;
    add(std::move(first));
    while (!open_.empty() && outcome_.violation.empty()) {
      const State state = std::move(open_.back());
      open_.pop_back();
      expand(state);
    }
    outcome_.states = seen_.size();
    return outcome_;
  }

 private:
  static constexpr std::size_t kMostStates = 4'000'000;

  static N num(auto value) { return static_cast<N>(value); }

  // Whether the client still awaits the answer.
  static bool is_awaited(const State& state, const Message& message) {
    const Client& client = state.clients[message.client];
    return client.phase != Client::Phase::kIdle && client.attempts == message.attempt;
  }

  // Whether the message can still change anything.
  bool is_void(const State& state, const Message& message) const {
    const Node& node = state.nodes[message.node];
    if (message.kind == Kind::kRejoin) {
      return node.ready && scope_.flaw != Flaw::kRejoinOfAnyTime;
    }
    if (message.memory != node.memory) return true;
    const auto& hold = node.locks[0].holds[message.client];
    if (message.kind != Kind::kRelease) {
      const bool dead = !is_awaited(state, message);
      if (dead && state.late >= scope_.late) return true;
      const auto& mark = node.locks[0].marks[message.client];
      if (message.kind == Kind::kAcquire) {
        return dead && mark.is && mark.attempt >= message.attempt && scope_.ticks < scope_.longest;
      }
      return dead && !(hold.is && hold.attempt == message.attempt);
    }
    if (hold.is && hold.attempt <= message.attempt) return false;
    return !message.late ||
           std::none_of(state.messages.begin(), state.messages.end(), [&](const Message& other) {
             return other.kind == Kind::kAcquire && other.node == message.node &&
                    other.client == message.client && other.attempt <= message.attempt;
           });
  }

  bool add(State&& state) {
    std::vector<Message> left;
    for (const Message& message : state.messages) {
      if (!is_void(state, message)) left.push_back(message);
    }
    state.messages = std::move(left);
    std::sort(state.messages.begin(), state.messages.end());
    std::size_t holders = 0;
    for (const Client& client : state.clients) {
      holders += client.phase == Client::Phase::kHolding && client.deadline > state.now ? 1 : 0;
    }
    if (holders > 1 && scope_.jumps == 0) outcome_.violation = "two clients believe to hold";
    if (seen_.size() > kMostStates) outcome_.violation = "the scope is too large for this test";
    if (!seen_.insert(hash(state))) return false;
    open_.push_back(std::move(state));
    return true;
  }

  // Nodes are alike, so that a state counts once however they are numbered: what belongs to one
  // node is written together, and the three texts are put in order. Two equal hashes among ten
  // million states have a chance of 1 : 300,000.
  using Text = StateText;

  static Text text_of(const State& state, N at) {
    Text text;
    const Node& node = state.nodes[at];
    for (const auto part : {node.memory, node.recorded, node.ends, node.floor}) text.put(part);
    text.put(node.ready);
    for (const auto& hold : node.locks[0].holds) {
      text.put(hold.is);
      if (!hold.is) continue;
      for (const auto part : {hold.ends, hold.token, hold.seq, hold.attempt}) text.put(part);
    }
    for (const auto& mark : node.locks[0].marks) {
      text.put(mark.is ? mark.attempt + 1 : 0);
      text.put(mark.until);
    }
    for (const Client& client : state.clients) {
      if (client.phase == Client::Phase::kIdle) continue;
      // To a client, both say no.
      const Vote vote = client.attempt.vote(at);
      text.put(vote == Vote::kBusy ? Vote::kRefused : vote);
      text.put(client.knows[at]);
      text.put(client.held >> at & 1U);
    }
    if (state.caretaker.active) {
      const NodeView& view = state.caretaker.views[at];
      text.put(state.caretaker.node == at);
      text.put((state.caretaker.seen >> at & 1U) + 2U * view.ready + 4U * view.waited);
      text.put(view.floor);
    }
    for (const Message& message : state.messages) {
      if (message.node != at) continue;
      text.put(message.kind);
      for (const auto part : {message.client, message.attempt, message.value, message.memory,
                              message.late}) {
        text.put(part);
      }
    }
    return text;
  }

  static std::uint64_t hash(const State& state) {
    std::array<Text, kNodes> nodes;
    for (N at = 0; at < kNodes; ++at) nodes[at] = text_of(state, at);
    std::sort(nodes.begin(), nodes.end());
    Text rest;
    for (const Client& client : state.clients) {
      rest.put(client.phase);
      for (const auto part : {client.attempts, client.renewals, client.sent, client.renewed,
                              client.deadline, client.seq, client.before}) {
        rest.put(part);
      }
      if (client.phase == Client::Phase::kIdle) continue;
      rest.put(client.attempt.state());
      rest.put(client.attempt.token());
    }
    rest.put(state.caretaker.active);
    rest.put(state.caretaker.memory);
    rest.put(state.caretaker.ends);
    for (const auto part :
         {state.now, state.losses, state.jumps, state.rounds, state.lost_answers, state.late,
          state.granted, state.tokens}) {
      rest.put(part);
    }
    std::uint64_t mixed = rest.mix(1);
    for (const Text& text : nodes) mixed = text.mix(mixed);
    return mixed == 0 ? 1 : mixed;
  }

  void expand(const State& state) {
    if (state.now < scope_.ticks) {
      State next = state;
      ++next.now;
      for (Client& client : next.clients) {
        const bool over = client.phase == Client::Phase::kHolding && client.deadline <= next.now;
        if (over) client = ended(client);
      }
      add(std::move(next));
    }
    for (std::size_t at = 0; at < scope_.clients; ++at) step_client(state, at);
    for (std::size_t at = 0; at < state.messages.size(); ++at) {
      if (at > 0 && state.messages[at] == state.messages[at - 1]) continue;
      deliver(state, at, /*answered=*/true);
      const Kind kind = state.messages[at].kind;
      const bool asks = kind == Kind::kAcquire || kind == Kind::kConfirm || kind == Kind::kRenew;
      const bool awaited = asks && is_awaited(state, state.messages[at]);
      if (awaited && state.lost_answers < scope_.lost_answers) deliver(state, at, false);
    }
    for (N at = 0; at < kNodes; ++at) {
      if (state.losses < scope_.losses && (at == 0 || !scope_.one_node)) lose(state, at);
      if (state.jumps < scope_.jumps) jump(state, at);
      take_care(state, at);
    }
  }

  // --- Clients.

  static Client ended(const Client& client) {
    Client next;
    next.attempts = client.attempts;
    next.renewals = client.renewals;
    return next;
  }

  void step_client(const State& state, std::size_t at) {
    const Client& client = state.clients[at];
    // Clients are alike: the second one begins after the first one.
    const bool turn = at == 0 || state.clients[at - 1].attempts > 0;
    const N most = at == 0 ? scope_.attempts : scope_.others_attempts;
    if (client.phase == Client::Phase::kIdle && client.attempts < most && turn) {
      State next = state;
      begin(next, at);
      add(std::move(next));
    }
    if (client.phase == Client::Phase::kTrying && scope_.timeouts) {
      State next = state;
      time_out(next, at);
      add(std::move(next));
    }
    if (client.phase != Client::Phase::kHolding) return;
    if (scope_.releases) {
      State next = state;
      give_back(next, at, /*all=*/true);
      next.clients[at] = ended(client);
      add(std::move(next));
    }
    if (client.renewals < scope_.renewals) {
      State next = state;
      Client& renews = next.clients[at];
      ++renews.renewals;
      ++renews.seq;
      renews.renewed = state.now;
      renews.held = 0;
      for (N node = 0; node < kNodes; ++node) {
        send(next, {Kind::kRenew, node, num(at), renews.attempts, renews.seq, renews.knows[node]});
      }
      add(std::move(next));
    }
  }

  void begin(State& state, std::size_t at) const {
    Client& client = state.clients[at];
    ++client.attempts;
    client.phase = Client::Phase::kTrying;
    client.sent = state.now;
    client.before = state.granted;
    client.attempt = Attempt(kNodes, scope_.flaw != Flaw::kOnePhase);
    for (N node = 0; node < kNodes; ++node) {
      client.knows[node] = state.nodes[node].memory;
      send(state, {Kind::kAcquire, node, num(at), client.attempts, 0, client.knows[node]});
    }
  }

  void time_out(State& state, std::size_t at) {
    Client& client = state.clients[at];
    for (std::size_t node = 0; node < kNodes && !client.attempt.decided(); ++node) {
      const Vote vote = client.attempt.vote(node);
      if (vote == Vote::kAsked || vote == Vote::kConfirming) client.attempt.on_unknown(node);
    }
    settle(state, at);
  }

  static void send(State& state, const Message& message) { state.messages.push_back(message); }

  void give_back(State& state, std::size_t at, bool all) const {
    const Client& client = state.clients[at];
    for (N node = 0; node < kNodes; ++node) {
      const Vote vote = client.attempt.vote(node);
      if (!all && (vote == Vote::kBusy || vote == Vote::kRefused)) continue;
      const N late = num(vote == Vote::kUnknown || vote == Vote::kAsked);
      send(state,
           {Kind::kRelease, node, num(at), client.attempts, 0, client.knows[node], late});
    }
  }

  void settle(State& state, std::size_t at) {
    Client& client = state.clients[at];
    // The store sends some of them a little later, or never: so do messages on their way.
    while (const auto node = client.attempt.next_to_confirm(/*spares=*/true)) {
      send(state, {Kind::kConfirm, num(*node), num(at), client.attempts,
                   num(client.attempt.token()), client.knows[*node]});
    }
    if (!client.attempt.decided()) return;
    const N deadline = num(client.sent + scope_.ttl);
    const bool in_time = state.now < deadline || scope_.flaw == Flaw::kLateGrant;
    if (!client.attempt.held() || !in_time) {
      give_back(state, at, /*all=*/false);
      client = ended(client);
      return;
    }
    client.phase = Client::Phase::kHolding;
    client.deadline = std::max(deadline, num(scope_.flaw == Flaw::kLateGrant ? state.now + 1 : 0));
    ++outcome_.grants;
    const N token = num(client.attempt.token());
    // With one holder at a time, grants have one order. Else it is that of calls one after another,
    // and no token is given twice.
    const N above = scope_.jumps == 0 ? state.granted : client.before;
    const bool twice = (state.tokens >> token & 1U) != 0;
    if (scope_.tokens_too && (token <= above || twice)) {
      outcome_.violation =
          "token " + std::to_string(token) + " after " + std::to_string(state.granted);
    }
    state.tokens = num(state.tokens | 1U << token);
    state.granted = std::max(state.granted, token);
  }

  // --- Messages.

  void deliver(const State& state, std::size_t index, bool answered) {
    State next = state;
    const Message message = next.messages[index];
    next.messages.erase(next.messages.begin() + static_cast<std::ptrdiff_t>(index));
    if (!answered) ++next.lost_answers;
    if (message.kind < Kind::kRelease && !is_awaited(state, message)) ++next.late;
    Node& node = next.nodes[message.node];
    const std::size_t id = message.client;
    const N tag = num(id + 1);
    switch (message.kind) {
      case Kind::kAcquire: {
        auto answer = node.acquire(1, message.memory, 0, id, tag, message.attempt, scope_.ttl, 0,
                                   next.now);
        if (scope_.flaw == Flaw::kOnePhase && answer.word == Word::kGranted) ++node.floor;
        if (answered) on_acquired(next, message, answer);
        break;
      }
      case Kind::kConfirm: {
        const auto answer = node.confirm(1, message.memory, 0, id, tag, message.attempt,
                                         message.value, next.now, scope_.flaw);
        if (answered) on_confirmed(next, message, answer.word == Word::kConfirmed);
        break;
      }
      case Kind::kRenew: {
        const auto answer = node.renew(1, message.memory, 0, id, message.value, scope_.ttl,
                                       num(next.clients[id].attempt.token()), false, next.now);
        if (answered) on_renewed(next, message, answer);
        break;
      }
      case Kind::kRelease:
        node.release(1, message.memory, 0, id, tag, message.attempt, message.late != 0, next.now,
                     scope_.flaw);
        break;
      case Kind::kRejoin:
        node.rejoin(1, message.memory, message.attempt, message.value, next.now, scope_.flaw);
        break;
    }
    add(std::move(next));
  }

  void on_acquired(State& state, const Message& message, const Answer<N>& answer) {
    Client& client = state.clients[message.client];
    if (client.attempts != message.attempt || client.phase == Client::Phase::kIdle) {
      if (answer.word != Word::kGranted) return;  // Too late: it is given back.
      return send(state, {Kind::kRelease, message.node, message.client, message.attempt, 0,
                          message.memory, 0});
    }
    if (answer.word == Word::kGranted) client.attempt.on_granted(message.node, answer.a);
    if (answer.word == Word::kBusy) client.attempt.on_busy(message.node);
    if (answer.word != Word::kGranted && answer.word != Word::kBusy) {
      client.attempt.on_refused(message.node);
    }
    if (client.phase == Client::Phase::kTrying) settle(state, message.client);
  }

  void on_confirmed(State& state, const Message& message, bool good) {
    Client& client = state.clients[message.client];
    if (client.attempts != message.attempt || client.phase == Client::Phase::kIdle) return;
    good ? client.attempt.on_confirmed(message.node) : client.attempt.on_unknown(message.node);
    if (client.phase == Client::Phase::kTrying) settle(state, message.client);
  }

  void on_renewed(State& state, const Message& message, const Answer<N>& answer) const {
    Client& client = state.clients[message.client];
    const bool fresh = client.phase == Client::Phase::kHolding &&
                       client.attempts == message.attempt && client.seq == message.value;
    // A node where nothing had to be moved says what it has: as good as the renewal itself.
    const bool good = answer.word == Word::kHeld && answer.b == message.value;
    if (!fresh || !good) return;
    if (!client.attempt.is_member(message.node)) return;
    client.held = num(client.held | (1U << message.node));
    Renewal<int> renewal(kNodes);
    for (N node = 0; node < kNodes; ++node) {
      (client.held >> node & 1U) != 0 ? renewal.on_held(1) : renewal.on_silent();
    }
    if (!renewal.renewed()) return;
    client.deadline = std::max(client.deadline, num(client.renewed + scope_.ttl));
  }

  // --- Nodes.

  void lose(const State& state, N at) {
    // Tokens are claimed while enough nodes know them.
    for (const Node& node : state.nodes) {
      if (scope_.tokens_too && !node.ready) return;
    }
    if (scope_.all_nodes && at > 0) return;
    State next = state;
    ++next.losses;
    for (N other = 0; other < kNodes; ++other) {
      if (other != at && !scope_.all_nodes) continue;
      Node& node = next.nodes[other];
      node.lose_memory(num(node.memory + 1));
      // The next client to come says so: the sooner, the shorter the quarantine.
      node.join(1, scope_.longest, next.now);
      if (scope_.flaw == Flaw::kNoQuarantine) node.ready = true;
    }
    add(std::move(next));
  }

  void jump(const State& state, N at) {
    State next = state;
    ++next.jumps;
    for (auto& hold : next.nodes[at].locks[0].holds) hold = {};
    add(std::move(next));
  }

  void take_care(const State& state, N at) {
    const Node& node = state.nodes[at];
    const Caretaker& caretaker = state.caretaker;
    const bool early = scope_.flaw == Flaw::kEarlyCatchUp;
    const N rounds = scope_.all_nodes ? num(kNodes) : scope_.losses;
    const bool begins = !caretaker.active && !node.ready && state.rounds <= rounds;
    if (begins && (early || state.now >= node.ends)) {
      State next = state;
      ++next.rounds;
      next.caretaker = {true, at, node.memory, node.ends, 0, {}};
      if (scope_.flaw == Flaw::kNoCatchUp) {
        next.caretaker = {};
        send(next, {Kind::kRejoin, at, 0, node.ends, 0, node.memory});
      }
      add(std::move(next));
    }
    if (!caretaker.active || (caretaker.seen >> at & 1U) != 0) return;
    State next = state;
    Caretaker& looks = next.caretaker;
    looks.seen = num(looks.seen | (1U << at));
    looks.views[at] = {true, node.ready, state.now >= node.ends, node.floor, 0};
    if (looks.seen == (1U << kNodes) - 1) {
      const auto floor = catch_up(looks.views);
      if (floor) {
        send(next, {Kind::kRejoin, looks.node, 0, looks.ends, num(*floor), looks.memory});
      }
      looks = {};
    }
    add(std::move(next));
  }

  const Scope scope_;
  SeenStates seen_;
  std::vector<State> open_;
  Outcome outcome_;
};

void expect_safe(const Scope& scope) {
  const Search::Outcome outcome = Search(scope).run();
  std::printf("%zu states, %zu grants\n", outcome.states, outcome.grants);
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.grants, 100U);
  EXPECT_GT(outcome.states, 10'000U);
}

void expect_found(Scope scope, Flaw flaw) {
  scope.flaw = flaw;
  const Search::Outcome outcome = Search(scope).run();
  std::printf("found after %zu states: %s\n", outcome.states, outcome.violation.c_str());
  const bool found = outcome.violation.starts_with("token ") ||
                     outcome.violation == "two clients believe to hold";
  EXPECT_TRUE(found) << outcome.states << " states, " << outcome.violation;
}

TEST(RedlockSearch, TwoClientsOneOfWhichTriesAgain) {
  expect_safe({.attempts = 2, .ticks = 0});
}

TEST(RedlockSearch, ThreeClients) { expect_safe({.clients = 3, .late = 0, .ticks = 0}); }

TEST(RedlockSearch, AnAnswerIsLost) { expect_safe({.lost_answers = 1, .ticks = 0}); }

TEST(RedlockSearch, LeasesEndAndAreRenewed) {
  expect_safe({.renewals = 1, .late = 0, .releases = false});
}

TEST(RedlockSearch, ANodeLosesItsMemory) {
  // Nodes are alike: it may be the first one.
  expect_safe(
      {.losses = 1, .late = 0, .ticks = 1, .ttl = 1, .longest = 1, .one_node = true});
}

constexpr Scope kOneLoss{.losses = 1,
                         .late = 0,
                         .ticks = 1,
                         .ttl = 1,
                         .longest = 1,
                         .releases = false,
                         .timeouts = false,
                         .one_node = true};
constexpr Scope kTwoLosses{.losses = 2,
                           .late = 0,
                           .ticks = 1,
                           .ttl = 1,
                           .longest = 1,
                           .releases = false,
                           .timeouts = false,
                           .one_node = true};

TEST(RedlockSearch, ANodeLosesItsMemoryTwice) { expect_safe(kTwoLosses); }

// Tokens are not claimed then: no node remembers them.
TEST(RedlockSearch, AllNodesLoseTheirMemoryAtOnce) {
  expect_safe({.losses = 1,
               .late = 0,
               .ticks = 1,
               .ttl = 1,
               .longest = 1,
               .tokens_too = false,
               .releases = false,
               .timeouts = false,
               .all_nodes = true});
}

TEST(RedlockSearch, TokensGrowAlsoWhereANodesClockJumps) {
  expect_safe({.jumps = 1, .ticks = 0});
  expect_safe({.clients = 3, .jumps = 1, .late = 0, .ticks = 0, .timeouts = false});
}

// --- The search finds what is wrong.

TEST(RedlockSearch, FindsOnePhaseTokens) {
  expect_found({.ticks = 0, .ahead = 2}, Flaw::kOnePhase);
}

TEST(RedlockSearch, FindsTheUnquarantinedRestart) {
  expect_found({.losses = 1, .ticks = 0}, Flaw::kNoQuarantine);
}

TEST(RedlockSearch, FindsARestartThatForgetsTheFloor) {
  expect_found(kOneLoss, Flaw::kNoCatchUp);
}

TEST(RedlockSearch, FindsAFloorThatWasReadTooEarly) {
  expect_found(kOneLoss, Flaw::kEarlyCatchUp);
}

TEST(RedlockSearch, FindsALateRejoin) { expect_found(kTwoLosses, Flaw::kRejoinOfAnyTime); }

TEST(RedlockSearch, FindsAWriteBackThatCountsWithoutAHold) {
  expect_found({.jumps = 1, .ticks = 0, .releases = false}, Flaw::kCountsTheUnheld);
}

TEST(RedlockSearch, FindsAGrantThatIsToldTooLate) {
  expect_found({.late = 0, .ticks = 1, .ttl = 1, .longest = 1}, Flaw::kLateGrant);
}

TEST(RedlockSearch, FindsALateReleaseThatFreesTheNextAttempt) {
  expect_found({.attempts = 2, .ticks = 0}, Flaw::kHandsLateBack);
}

}  // namespace
}  // namespace holdfast::testing::redlock
