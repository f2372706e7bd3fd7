// How names of locks and contenders become names of nodes, and back.
//
// Guarantee: different names give different nodes; what is no such node gives nullopt, never an
// error. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/contend/queue.h"

namespace holdfast::stores::zookeeper {

// "a/b" is "a%2Fb": letters, digits and -_.:,=+@~ stay, but for a dot in front.
std::string encode_name(std::string_view name);
std::optional<std::string> decode_name(std::string_view node);

// "<key>-0000000012". The number that ZooKeeper appends has 32 bits and a sign, and wraps around.
std::string node_of(const contend::Place& place);
std::optional<contend::Place> parse_node(std::string_view node);

// By the number, as it wraps around.
void sort_queue(std::vector<contend::Place>& queue);

}  // namespace holdfast::stores::zookeeper
