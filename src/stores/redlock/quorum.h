// The decisions of a client from the answers of N nodes. Pure: answers in, decisions out; no clock,
// thread or socket. tests/redlock searches all orders of a small cluster over this very code.
//
//   Vote of a node  entered by                              a release must reach it
//   kAsked          the request was sent                    when its answer has come
//   kGranted        the node holds the lock for us          yes
//   kConfirming     the write-back of the token was sent    yes
//   kConfirmed      it has the token, and held throughout   yes
//   kBusy           another one holds there                 no
//   kRefused        surely nothing of ours is there         no
//   kUnknown        no answer in time                       yes, and it must leave a mark
//
// Guarantee: an attempt is decided once. It is held only while a majority of the configured nodes
// voted for it, and with tokens only when a majority has acknowledged the write-back while holding.
// Thread-safety: none; values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace holdfast::stores::redlock {

inline constexpr std::size_t kMostNodes = 9;

constexpr std::size_t majority_of(std::size_t nodes) { return nodes / 2 + 1; }
// A token lies on a majority, so that so many intact nodes know it for sure.
constexpr std::size_t catch_up_of(std::size_t nodes) { return nodes - majority_of(nodes) + 1; }

enum class Vote : std::uint8_t {
  kAsked,
  kGranted,
  kConfirming,
  kConfirmed,
  kBusy,
  kRefused,
  kUnknown
};

// One try to take a lock at all nodes.
class Attempt {
 public:
  enum class State : std::uint8_t { kAsking, kConfirming, kHeld, kBusy, kFailed };

  // Without tokens the lock is held as soon as a majority granted it.
  Attempt(std::size_t nodes, bool tokens)
      : nodes_(static_cast<std::uint8_t>(nodes)), tokens_(tokens) {}

  void on_granted(std::size_t node, std::uint64_t floor) {
    // A late grant does not count, and is given back: after the decision, or where the node knows a
    // token as high as the chosen one. (Another client held there in between: the search found
    // "1 after 1", with one node's clock ahead.)
    const bool late = decided() || (state_ == State::kConfirming && floor >= token());
    votes_[node] = late ? Vote::kUnknown : Vote::kGranted;
    if (state_ == State::kAsking) floor_ = std::max(floor_, floor);
    decide();
  }
  void on_busy(std::size_t node) { set(node, Vote::kBusy); }
  void on_refused(std::size_t node) { set(node, Vote::kRefused); }
  void on_unknown(std::size_t node) { set(node, Vote::kUnknown); }
  void on_confirmed(std::size_t node) { set(node, Vote::kConfirmed); }
  // No more answers are awaited.
  void give_up() {
    if (!decided()) state_ = count(Vote::kBusy) > 0 ? State::kBusy : State::kFailed;
  }
  // Nothing may be granted, whatever the others say (a foreign node, one node with two addresses).
  void forbid() {
    forbidden_ = true;
    decide();
  }

  // The next node that is to be sent the write-back of token(); it counts as sent. At first only as
  // many as a majority needs; with `spares` all that granted in time, also once the lock is held.
  std::optional<std::size_t> next_to_confirm(bool spares) {
    const bool held_too = spares && tokens_ && held();
    if (state_ != State::kConfirming && !held_too) return std::nullopt;
    const std::size_t sent = count(Vote::kConfirming) + count(Vote::kConfirmed);
    if (!spares && sent >= majority_of(nodes_)) return std::nullopt;
    for (std::size_t node = 0; node < nodes_; ++node) {
      if (votes_[node] != Vote::kGranted) continue;
      votes_[node] = Vote::kConfirming;
      return node;
    }
    return std::nullopt;
  }

  State state() const { return state_; }
  bool decided() const { return state_ > State::kConfirming; }
  bool held() const { return state_ == State::kHeld; }
  std::uint64_t token() const { return floor_ + 1; }
  Vote vote(std::size_t node) const { return votes_[node]; }
  std::size_t count(Vote vote) const {
    return static_cast<std::size_t>(std::count(votes_.begin(), votes_.begin() + nodes_, vote));
  }
  // The nodes that may count in a renewal. It never grows: whoever grants later did not hold the
  // lock throughout.
  bool is_member(std::size_t node) const {
    return votes_[node] == (tokens_ ? Vote::kConfirmed : Vote::kGranted);
  }

  friend bool operator==(const Attempt&, const Attempt&) = default;

 private:
  void set(std::size_t node, Vote vote) {
    votes_[node] = vote;
    decide();
  }
  void decide() {
    if (decided()) return;
    const std::size_t majority = majority_of(nodes_);
    const std::size_t with = count(Vote::kGranted) + count(Vote::kConfirming);
    const std::size_t confirmed = count(Vote::kConfirmed);
    const bool lost = with + confirmed + count(Vote::kAsked) < majority;
    if (lost || forbidden_) {
      state_ = count(Vote::kBusy) > 0 && !forbidden_ ? State::kBusy : State::kFailed;
    } else if (tokens_ ? confirmed >= majority : with >= majority) {
      state_ = State::kHeld;
    } else if (state_ == State::kAsking && with >= majority) {
      state_ = State::kConfirming;
    }
  }

  std::array<Vote, kMostNodes> votes_{};
  std::uint8_t nodes_;
  bool tokens_;
  bool forbidden_ = false;
  State state_ = State::kAsking;
  std::uint64_t floor_ = 0;  // The highest one of those who granted before the token was chosen.
};

// One renewal at the nodes. Terms: whatever the nodes say of the lease; equal ones count together.
template <typename Terms>
class Renewal {
 public:
  explicit Renewal(std::size_t nodes) : nodes_(nodes) {}

  void on_held(Terms terms) { held_[heard_++] = std::move(terms); }
  void on_gone() { ++gone_; }
  void on_silent() { ++silent_; }

  bool complete() const { return heard_ + gone_ + silent_ == nodes_; }
  // The terms that a majority tells; nothing: the old deadline stays.
  std::optional<Terms> renewed() const {
    for (std::size_t i = 0; i < heard_; ++i) {
      const auto equal = std::count(held_.begin(), held_.begin() + heard_count(), held_[i]);
      if (static_cast<std::size_t>(equal) >= majority_of(nodes_)) return held_[i];
    }
    return std::nullopt;
  }
  // No majority can hold it any more.
  bool gone() const { return nodes_ - gone_ < majority_of(nodes_); }

 private:
  std::ptrdiff_t heard_count() const { return static_cast<std::ptrdiff_t>(heard_); }

  std::size_t nodes_;
  std::array<Terms, kMostNodes> held_{};
  std::size_t heard_ = 0;
  std::size_t gone_ = 0;
  std::size_t silent_ = 0;
};

// A node as a look at it showed.
struct NodeView {
  bool known = false;  // It has answered this look.
  bool ready = false;  // Else it lost its memory, and is in quarantine or after it.
  bool waited = false;  // Its quarantine is over.
  std::uint64_t floor = 0;
  std::uint64_t clock = 0;  // Microseconds.
};

// The floor with which nodes that waited out their quarantine may count again. The looks must have
// been made after its end: by then every token that such a node acknowledged is at a majority, or
// was never reported. nullopt: too few nodes know.
inline std::optional<std::uint64_t> catch_up(std::span<const NodeView> nodes) {
  std::size_t intact = 0;
  std::size_t waited = 0;
  std::uint64_t floor = 0;
  for (const NodeView& node : nodes) {
    intact += node.known && node.ready ? 1 : 0;
    waited += node.known && (node.ready || node.waited) ? 1 : 0;
    if (node.known && node.ready) floor = std::max(floor, node.floor);
  }
  if (intact >= catch_up_of(nodes.size())) return floor;
  if (waited < nodes.size()) return std::nullopt;
  // A fresh cluster, or a loss that no node remembers the tokens of: the clocks have gone on.
  std::array<std::uint64_t, kMostNodes> clocks{};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    floor = std::max(floor, nodes[i].floor);
    clocks[i] = nodes[i].clock;
  }
  const auto middle = clocks.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
  std::nth_element(clocks.begin(), middle,
                   clocks.begin() + static_cast<std::ptrdiff_t>(nodes.size()));
  return std::max(floor, *middle);
}

// A floor above this cannot have come from grants: tokens begin at a median clock, and grow by one
// with each grant. The middle one of N values is never that of one odd node.
inline std::uint64_t most_plausible(std::span<const NodeView> nodes) {
  constexpr std::uint64_t kDay = 86'400'000'000;
  std::array<std::uint64_t, kMostNodes> clocks{};
  std::array<std::uint64_t, kMostNodes> floors{};
  std::size_t known = 0;
  for (const NodeView& node : nodes) {
    if (!node.known) continue;
    clocks[known] = node.clock;
    floors[known++] = node.floor;
  }
  if (known < majority_of(nodes.size())) return ~std::uint64_t{0};
  std::sort(clocks.begin(), clocks.begin() + static_cast<std::ptrdiff_t>(known));
  std::sort(floors.begin(), floors.begin() + static_cast<std::ptrdiff_t>(known));
  return std::max(clocks[(known - 1) / 2], floors[(known - 1) / 2]) + kDay;
}

}  // namespace holdfast::stores::redlock
