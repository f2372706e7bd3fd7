// How names of locks and contenders become names of nodes, and back.
//
// Guarantee: different names give different nodes; what is no such node gives nullopt, never an
// error. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/contend/queue.h"

namespace holdfast::stores::zookeeper {

// "a/b" is "a%2Fb": letters, digits and -_.:,=+@~ stay, but for a dot in front.
std::string encode_name(std::string_view name);
std::optional<std::string> decode_name(std::string_view node);

// The kind of nodes: Holdfast's own, or such as another library makes and understands.
enum class Recipe : std::uint8_t {
  kOwn,
  kCurator,           // InterProcessMutex: "_c_<uuid>-lock-0000000012"
  kCuratorReadWrite,  // InterProcessReadWriteLock: "_c_<uuid>-__READ__0000000012", "__WRIT__"
  kKazoo,             // kazoo's Lock: "<32 hex digits>__lock__0000000012"
};

// "<key>-0000000012". The number that ZooKeeper appends has 32 bits and a sign, and wraps around.
std::string node_of(const contend::QueueEntry& place, Recipe recipe = Recipe::kOwn);
std::optional<contend::QueueEntry> parse_node(std::string_view node, Recipe recipe = Recipe::kOwn);
// Whether the node is a contender of any library: ZooKeeper has appended its number.
bool is_contender(std::string_view node);
// All before the number.
std::string prefix_of(const contend::Key& key, Recipe recipe);
// A recipe knows exclusive tickets only; that of the read-write lock also shared ones.
bool speaks(Recipe recipe, const contend::Key& key);

// Whether the name, as it is, can be the path of a folder ("locks/orders").
bool is_path(std::string_view name);

// How many servers vote, by what is in /zookeeper/config; 0: the server is one by itself.
std::size_t voters_in(std::string_view config);

// By the number, as it wraps around.
void sort_queue(std::vector<contend::QueueEntry>& queue);

}  // namespace holdfast::stores::zookeeper
