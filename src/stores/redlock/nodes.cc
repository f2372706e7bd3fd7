#include "src/stores/redlock/nodes.h"

#include <algorithm>
#include <array>
#include <utility>

#include <asio/io_context.hpp>

#include "holdfast/detail/transient.h"
#include "src/base/random.h"
#include "src/stores/redis/protocol/fields.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/protocol/scripts.h"
#include "src/stores/redis/transport/remote.h"
#include "src/stores/redlock/script_texts.h"  // Generated from scripts/*.lua.

namespace holdfast::stores::redlock {
namespace {

using base::BootClock;
using base::BootInstant;
using redis::Reply;
using std::chrono::milliseconds;

constexpr std::string_view kLocks = "hfr1:";
constexpr milliseconds kJoinAgain{200};
constexpr milliseconds kJoinPatience{2000};
constexpr milliseconds kForTheRest{50};

// With the clock of a test in the last word.
redis::Script made(std::string_view source, bool test_clock) {
  std::string text(source);
  constexpr std::string_view kTime = "redis.call('TIME')";
  if (test_clock) {
    text.replace(text.find(kTime), kTime.size(),
                 "{string.sub(ARGV[#ARGV], 1, 10), string.sub(ARGV[#ARGV], 11, 16)}");
  }
  std::string sha1 = redis::sha1_of(text);
  return {std::move(text), std::move(sha1)};
}

const redis::Script& text_of(Script script, bool test_clock) {
  static const std::array<redis::Script, 6> kTexts = {
      made(script_texts::kTake, false), made(script_texts::kHold, false),
      made(script_texts::kNode, false), made(script_texts::kTake, true),
      made(script_texts::kHold, true),  made(script_texts::kNode, true)};
  return kTexts[static_cast<std::size_t>(script) + (test_clock ? 3 : 0)];
}

std::string count(std::int64_t number) { return std::to_string(number); }

std::shared_ptr<const std::string> known_of(const std::string& cluster, std::string_view memory) {
  std::string word;
  redis::append_word(word, cluster + ' ' + std::string(memory));
  return std::make_shared<const std::string>(std::move(word));
}

}  // namespace

struct Nodes::Node {
  redis::RemotePtr remote{};
  std::unique_ptr<redis::Pipeline> pipeline{};
  std::unique_ptr<redis::Subscriber> subscriber{};
  std::unique_ptr<port::BootTimer> timer{};
  bool knows[3] = {};  // The scripts, by its answers.

  const std::string name;
  Known known;  // "cluster replication-id", the latter of the last join; as a word.
  bool joined = false;
  bool joining = false;
  std::string run{};
  std::string ends{};  // The end of the quarantine, as the node wrote it.
  NodeView view{};
  BootInstant looked{};
  bool waited_before = false;  // An earlier look than the present one showed that it had waited.
  std::string trouble = "not reached yet";
  std::optional<Errc> refused{};  // Retrying does not help: the log-in, say.
  std::optional<Error> foreign{};
  std::vector<Joined> waiting{};
};

Nodes::Nodes(const RedlockAddress& address, const port::StoreContext& context, NodeEvents events,
             TestClock now)
    : address_(address),
      events_(std::move(events)),
      now_(std::move(now)),
      io_(*context.io),
      loop_(context.loop) {
  // Made before other threads use this client: a child forked meanwhile would wait for ever.
  static_cast<void>(text_of(Script::kTake, false));
  const std::string channel = "hfr1@" + base::to_hex(base::random_128().high, 0).substr(0, 16);
  for (std::size_t at = 0; at < address_.nodes.size(); ++at) {
    auto node = std::make_unique<Node>(
        Node{.name = address_.nodes[at].display(), .known = known_of(address_.cluster, {})});
    auto remote = redis::Remote::make(address_.nodes[at]);
    if (remote) {
      node->remote = *std::move(remote);
      node->pipeline = std::make_unique<redis::Pipeline>(io_, node->remote);
      node->subscriber = std::make_unique<redis::Subscriber>(
          io_, node->remote, channel,
          redis::Subscriber::Events{[this, at](std::string_view key) { events_.on_hint(at, key); },
                                    [](bool) {}, [](const Error&) {}});
      node->timer = std::make_unique<port::BootTimer>(io_);
    } else {
      forbidden_ = remote.error();
    }
    nodes_.push_back(std::move(node));
  }
}

Nodes::~Nodes() = default;

const std::string& Nodes::name_of(std::size_t node) const { return nodes_[node]->name; }

std::string Nodes::key_of(std::string_view lock) { return std::string(kLocks).append(lock); }

std::string Nodes::trouble(std::size_t node) const { return nodes_[node]->trouble; }

Nodes::Facts Nodes::facts(std::size_t node) const {
  const Node& seen = *nodes_[node];
  return {seen.joined, seen.run, seen.view, seen.trouble};
}

std::string Nodes::outcomes(const std::vector<std::string>& each) const {
  std::string text;
  for (std::size_t at = 0; at < each.size(); ++at) {
    if (each[at].empty()) continue;
    text += (text.empty() ? "" : "; ") + name_of(at) + ": " + each[at];
  }
  return text;
}

// --- Requests.

// A script's call, without what is different at each node.
struct Nodes::Request {
  Script script{};
  std::size_t count = 4;  // Words: with the command, the script, the number of keys, what is known.
  std::string keys{};     // Their number and the keys.
  std::string words{};    // Behind what the client knows of the node.
  std::uint8_t own_words = 0;
  bool joins = false;

  void add_all(Args added, const TestClock& now) {
    for (const std::string_view word : added) redis::append_word(words, word);
    count += added.size();
    if (!now) return;
    redis::append_word(words, std::to_string(now().time_since_epoch().count()));
    ++count;
  }
};

// By the script's hash where the node knows it; otherwise, or if it has forgotten, by its text.
// `known`: of the node, when it was asked first. After a restart it must not find the request.
void Nodes::run(std::size_t at, RequestPtr request, Known known, BootInstant deadline,
                Answered answered) {
  const redis::Script& text = text_of(request->script, now_ != nullptr);
  const bool by_hash = nodes_[at]->knows[static_cast<std::size_t>(request->script)];
  const std::string& name = by_hash ? text.sha1 : text.text;
  redis::Command command;
  std::string& wire = command.wire;
  wire.reserve(64 + name.size() + request->keys.size() + known->size() + request->words.size());
  redis::append_array_header(wire, request->count);
  redis::append_word(wire, by_hash ? "EVALSHA" : "EVAL");
  redis::append_word(wire, name);
  const auto here = [&wire] { return static_cast<std::uint16_t>(wire.size()); };
  if (by_hash && request->joins) {
    using Kind = redis::BatchPart::Kind;
    constexpr std::size_t kOneKey = 7;  // "$1\r\n1\r\n"
    redis::BatchPart& part = command.part;
    part.kind = request->script == Script::kTake ? Kind::kAcquire : Kind::kRelease;
    part.own_words = request->own_words;
    part.count = here();
    part.key = static_cast<std::uint16_t>(here() + kOneKey);
    part.common = static_cast<std::uint16_t>(here() + request->keys.size());
    part.own = static_cast<std::uint16_t>(part.common + known->size());
  }
  wire += request->keys;
  wire += *known;
  wire += request->words;
  command.part.tail = static_cast<std::uint32_t>(wire.size());  // It has none.
  nodes_[at]->pipeline->send(
      std::move(command), deadline,
      [this, at, deadline, by_hash, request = std::move(request), known = std::move(known),
       answered = std::move(answered)](Result<Reply> reply) mutable {
        const bool forgotten = redis::is_unknown_script(reply);
        nodes_[at]->knows[static_cast<std::size_t>(request->script)] = reply && !forgotten;
        if (forgotten && by_hash && !closed_) {
          return run(at, std::move(request), std::move(known), deadline, std::move(answered));
        }
        answered(redis::checked(std::move(reply), name_of(at)));
      });
}

void Nodes::ask(std::size_t at, Args words, BootInstant deadline, Answered answered) {
  auto request = std::make_shared<Request>(Request{.script = Script::kNode});
  redis::append_word(request->keys, "0");
  request->add_all(words, now_);
  run(at, std::move(request), nodes_[at]->known, deadline, std::move(answered));
}

Nodes::RequestPtr Nodes::request(Script script, std::string_view lock, Args words) const {
  auto made = std::make_shared<Request>(Request{.script = script});
  made->keys.reserve(32 + lock.size());
  redis::append_word(made->keys, "1");
  redis::append_word(made->keys, key_of(lock));
  ++made->count;
  made->words.reserve(320);
  made->add_all(words, now_);
  made->own_words = static_cast<std::uint8_t>(words.size());
  made->joins = now_ == nullptr;
  return made;
}

void Nodes::call(std::size_t at, RequestPtr request, BootInstant deadline, Answered answered) {
  if (!nodes_[at]->joined) {
    return loop_->post([this, at, answered = std::move(answered)] {
      answered(Error(Errc::kUnavailable, nodes_[at]->trouble));
    });
  }
  run(at, std::move(request), nodes_[at]->known, deadline, std::move(answered));
}

void Nodes::read(std::size_t at, const std::vector<std::string_view>& words, BootInstant deadline,
                 Answered answered) {
  redis::Command command;
  command.reads_only = true;
  redis::append_command(command.wire, words);
  if (!nodes_[at]->pipeline) return answered(*forbidden_);
  nodes_[at]->pipeline->send(std::move(command), deadline,
                             [this, at, answered = std::move(answered)](Result<Reply> reply) {
                               answered(redis::checked(std::move(reply), name_of(at), true));
                             });
}

bool Nodes::note(std::size_t at, std::string_view answer) {
  Node& node = *nodes_[at];
  const bool again = answer == "lost" || answer == "replica" || answer.starts_with("foreign") ||
                     answer.starts_with("quarantine");
  if (!again) return false;
  if (answer == "lost" && node.joined) {
    events_.on_alarm(name_of(at) + ": the node restarted, or lost its data: it takes no part for " +
                     count(address_.longest_ttl.count()) + " ms");
  }
  node.joined = false;
  if (!node.joining && !closed_) join(at, nullptr);
  return true;
}

bool Nodes::is_plausible(std::size_t at, std::uint64_t floor) {
  if (floor <= plausible_) return true;
  plausible_ = most_plausible(views());  // It grows with the clocks.
  if (floor <= plausible_) return true;
  events_.on_alarm(name_of(at) + ": its token counter " + std::to_string(floor) +
                   " cannot come from grants; the node is put into quarantine");
  nodes_[at]->joined = false;
  nodes_[at]->trouble = "its token counter cannot come from grants";
  ask(at, {"distrust", std::to_string(floor)}, BootClock::now() + kJoinPatience,
      [this, at](const Result<Reply>&) {
        if (!nodes_[at]->joining) join(at, nullptr);
      });
  return false;
}

// --- Membership.

void Nodes::join(std::size_t at, Joined joined) {
  Node& node = *nodes_[at];
  if (joined) node.waiting.push_back(std::move(joined));
  if (!node.pipeline || std::exchange(node.joining, true)) return;
  const std::string longest = count(address_.longest_ttl.count());
  ask(at, {"join", longest, address_.list, address_.names[at]}, BootClock::now() + kJoinPatience,
      [this, at](const Result<Reply>& reply) { on_joined(at, reply); });
}

void Nodes::on_joined(std::size_t at, const Result<Reply>& reply) {
  Node& node = *nodes_[at];
  node.joining = false;
  if (closed_) return;
  node.joined = false;
  node.foreign.reset();
  node.refused.reset();
  const std::string text = reply ? reply->text : "";
  if (!reply) {
    node.trouble = reply.error().message();
    const Errc code = reply.error().code();
    if (!::holdfast::detail::is_transient(code)) node.refused = code;
  } else if (text.starts_with("foreign ")) {
    node.trouble = "belongs to the cluster " + text.substr(8);
    node.foreign = Error(Errc::kInvalidArgument,
                         name_of(at) + " belongs to another Redlock cluster (" + text.substr(8) +
                             "), or to one with another longest_ttl or tokens: use one URL "
                             "everywhere, or free the node with 'DEL hfr1@node'");
  } else if (text.starts_with("misnamed ")) {
    redis::Fields fields(text);
    fields.word();
    node.run = fields.word();
    node.trouble = "is known as the node " + std::string(fields.rest());
    node.foreign = Error(Errc::kInvalidArgument,
                         name_of(at) + " leads to the node " + std::string(fields.rest()) +
                             " of this cluster, not to " + address_.names[at] +
                             ": name every node once, and everywhere by one name");
  } else if (text == "replica") {
    node.trouble = "is a replica: a node must be an independent primary";
  } else {
    take_facts(node, text);
  }
  check_membership();
  for (const Joined& each : std::exchange(node.waiting, {})) each(node.joined);
  if (node.joined) return tend(at);
  join_later(at, kJoinAgain);
}

// "joined <run> <replication id> <state> <ends> <floor> <now>"
void Nodes::take_facts(Node& node, std::string_view text) {
  redis::Fields fields(text);
  const bool joined = fields.word() == "joined";
  const std::string run(fields.word());
  const Known known = known_of(address_.cluster, fields.word());
  const bool ready = fields.word() == "ready";
  const auto ends = fields.amount();
  const auto floor = fields.amount<std::uint64_t>();
  const auto now = fields.amount();
  if (!joined || !fields.good()) {
    node.trouble = "answered in an unknown form: '" + std::string(text.substr(0, 60)) + "'";
    return;
  }
  const bool same = *node.known == *known && node.ends == count(ends);
  node.waited_before = same && node.view.waited;
  node.joined = true;
  node.run = run;
  node.known = known;
  node.ends = count(ends);
  node.looked = BootClock::now();
  node.view = {true, ready, !ready && now >= ends, floor, static_cast<std::uint64_t>(now)};
  node.trouble = ready ? ""
                       : "lost its memory or is new: it takes no part for " +
                             count(std::max<std::int64_t>(ends - now, 0) / 1000) + " ms more";
}

// One process under two addresses would vote twice; a node of another list votes for that, too.
void Nodes::check_membership() {
  forbidden_.reset();
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    if (nodes_[at]->foreign) forbidden_ = nodes_[at]->foreign;
    for (std::size_t other = 0; other < at; ++other) {
      if (nodes_[at]->run.empty() || nodes_[at]->run != nodes_[other]->run) continue;
      forbidden_ =
          Error(Errc::kInvalidArgument, name_of(other) + " and " + name_of(at) +
                                            " are one Redis process: name every node once");
    }
  }
}

void Nodes::join_later(std::size_t at, BootClock::duration pause) {
  if (closed_) return;
  nodes_[at]->timer->arm(pause, [this, at] { join(at, nullptr); });
}

// Looks again when the quarantine is over; then all nodes are looked at.
void Nodes::tend(std::size_t at) {
  Node& node = *nodes_[at];
  if (node.view.ready || catching_up_) return;
  if (node.view.waited) return catch_up_all();
  const auto left = std::chrono::microseconds(std::max<std::int64_t>(
      redis::Fields(node.ends).amount() - static_cast<std::int64_t>(node.view.clock), 0));
  join_later(at, std::min<BootClock::duration>(left + milliseconds(1), kJoinAgain));
}

std::vector<NodeView> Nodes::views() const {
  std::vector<NodeView> all;
  for (const auto& node : nodes_) {
    all.push_back(node->view);
    all.back().known = node->joined;
    const auto since = BootClock::now() - node->looked;
    all.back().clock += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  }
  return all;
}

// Every look of this round comes after a node was seen to have waited.
void Nodes::catch_up_all() {
  catching_up_ = true;
  const auto left = std::make_shared<std::size_t>(nodes_.size());
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    // A look that is under way may be older than that: one more comes after it.
    const auto look = [this, at, left] {
      join(at, [this, left](bool) {
        if (--*left > 0) return;
        auto seen = views();
        for (std::size_t i = 0; i < seen.size(); ++i) {
          seen[i].waited = seen[i].waited && nodes_[i]->waited_before;
        }
        const auto floor = catch_up(seen);
        if (!floor) return end_round(5 * kJoinAgain);
        admit(*floor, /*by_operator=*/false, BootClock::now() + kJoinPatience,
              [this](const Result<bool>&) { end_round(kJoinAgain); });
      });
    };
    nodes_[at]->joining ? join(at, [look](bool) { look(); }) : look();
  }
}

// A node whose quarantine ended within this round is for the next one.
void Nodes::end_round(BootClock::duration pause) {
  catching_up_ = false;
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    if (!nodes_[at]->view.ready) join_later(at, pause);
  }
}

// Nodes in quarantine take part from now on: after it, or because an operator says so.
void Nodes::admit(std::uint64_t floor, bool by_operator, BootInstant deadline,
                  port::Done<bool> done) {
  const auto left = std::make_shared<std::size_t>(1);
  const auto failed = std::make_shared<std::vector<std::string>>(nodes_.size());
  const auto ended = [this, left, failed, done = std::move(done)] {
    if (--*left > 0) return;
    const std::string who = outcomes(*failed);
    if (who.empty()) return done(true);
    done(Error(Errc::kOutcomeUnknown, address_.display() + ": " + who));
  };
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    const Node& node = *nodes_[at];
    if (!node.joined || node.view.ready) continue;
    if (!by_operator && (!node.view.waited || !node.waited_before)) continue;
    ++*left;
    ask(at, {by_operator ? "init" : "rejoin", std::to_string(floor), node.ends}, deadline,
        [this, at, by_operator, failed, ended](const Result<Reply>& reply) {
          const std::string text = reply ? reply->text : reply.error().message();
          if (text != "ready" && text != "refused") (*failed)[at] = text;
          if (text == "ready" && !by_operator) events_.on_alarm(name_of(at) + ": takes part");
          ended();
          join(at, nullptr);
        });
  }
  ended();
}

// Not kUnavailable if so many refuse that the others are no majority.
Errc Nodes::why_too_few() const {
  std::size_t others = 0;
  Errc why = Errc::kUnavailable;
  for (const auto& node : nodes_) {
    if (node->refused) why = *node->refused;
    if (!node->refused) ++others;
  }
  return others < majority() ? why : Errc::kUnavailable;
}

void Nodes::open(BootInstant deadline, port::Done<bool> done) {
  struct Opening {
    explicit Opening(asio::io_context& io) : timer(io) {}
    port::BootTimer timer;
    std::size_t left = 0;
    std::size_t joined = 0;
    port::Done<bool> done{};
  };
  if (forbidden_) return done(*forbidden_);
  const auto opening = std::make_shared<Opening>(io_);
  opening->left = nodes_.size();
  opening->done = std::move(done);
  const auto finish = [this, opening] {
    const port::Done<bool> answer = std::exchange(opening->done, nullptr);
    if (!answer) return;
    opening->timer.stop();
    if (forbidden_) return answer(*forbidden_);
    if (opening->joined >= majority()) return answer(true);
    std::vector<std::string> troubles;
    for (const auto& node : nodes_) troubles.push_back(node->trouble);
    answer(Error(why_too_few(), address_.display() + ": too few nodes answer (" +
                                    std::to_string(majority()) +
                                    " are needed): " + outcomes(troubles)));
  };
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    join(at, [this, opening, finish, deadline](bool joined) {
      opening->joined += joined ? 1 : 0;
      if (--opening->left == 0 || forbidden_) return finish();
      // The others have a moment more.
      if (opening->joined != majority() || !joined) return;
      opening->timer.arm_at(std::min(deadline, BootClock::now() + kForTheRest), finish);
    });
  }
}

void Nodes::initialize(BootInstant deadline, port::Done<bool> done) {
  const auto left = std::make_shared<std::size_t>(nodes_.size());
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    join(at, [this, left, deadline, done](bool) {
      if (--*left > 0) return;
      std::uint64_t floor = 0;
      std::vector<std::uint64_t> clocks;
      std::vector<std::string> absent;
      bool in_use = false;
      for (const auto& node : nodes_) {
        floor = std::max(floor, node->view.floor);
        clocks.push_back(node->view.clock);
        absent.push_back(node->joined ? "" : node->trouble);
        in_use = in_use || node->view.ready;
      }
      if (forbidden_) return done(*forbidden_);
      if (const std::string who = outcomes(absent); !who.empty()) {
        return done(
            Error(Errc::kUnavailable, address_.display() + ": every node must answer: " + who));
      }
      // Locks may be held then: nodes in quarantine come back by themselves.
      if (in_use) return done(false);
      std::sort(clocks.begin(), clocks.end());
      admit(std::max(floor, clocks[clocks.size() / 2]), /*by_operator=*/true, deadline, done);
    });
  }
}

// --- Hints.

void Nodes::listen(const std::string& lock) {
  for (const auto& node : nodes_) {
    if (!node->subscriber) continue;
    node->subscriber->ensure(BootClock::now() + kJoinPatience, [](const Result<void>&) {});
    node->subscriber->join(key_of(lock));
  }
}

void Nodes::stop_listening(const std::string& lock) {
  for (const auto& node : nodes_) {
    if (node->subscriber) node->subscriber->leave(key_of(lock));
  }
}

void Nodes::shut() {
  closed_ = true;
  for (const auto& node : nodes_) {
    if (node->timer) node->timer->stop();
  }
}

void Nodes::close() {
  for (const auto& node : nodes_) {
    if (!node->pipeline) continue;
    node->pipeline->close();
    node->subscriber->close();
  }
}

void Nodes::abandon() noexcept {
  for (const auto& node : nodes_) {
    if (!node->pipeline) continue;
    node->pipeline->abandon();
    node->subscriber->abandon();
    node->timer->abandon();
  }
}

}  // namespace holdfast::stores::redlock
