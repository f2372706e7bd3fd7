// Turns names of locks and contenders into names of nodes, and back.
//
// Guarantee: different names give different nodes. A node of another kind gives nullopt, never an
// error. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/contend/queue.h"

namespace holdfast::stores::zookeeper {

// "a/b" is "a%2Fb". Letters, digits and -_.:,=+@~ stay, except a leading dot.
std::string encode_name(std::string_view name);
std::optional<std::string> decode_name(std::string_view node);

// "<key>-0000000012". The number that ZooKeeper appends has 32 bits and a sign, and wraps around.
std::string node_of(const contend::QueueEntry& place);
std::optional<contend::QueueEntry> parse_node(std::string_view node);
// Everything before the number.
std::string prefix_of(const contend::Key& key);
std::string number_text(std::uint64_t order);
// The text before the number, and the number. `dash`: the text ends with a '-'.
std::optional<std::pair<std::string_view, std::uint32_t>> split_number(std::string_view node,
                                                                       bool dash);

// The number of voting servers in the text of /zookeeper/config; 0 for a standalone server.
std::size_t voters_in(std::string_view config);

// Sorts by the number, which wraps around.
void sort_queue(std::vector<contend::QueueEntry>& queue);

}  // namespace holdfast::stores::zookeeper
