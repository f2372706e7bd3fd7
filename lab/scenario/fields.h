// Lists every key of a scenario file and of a topology file once. `visit(key, field, rule)` is
// called for each, in this order.
#pragma once

#include <limits>
#include <string_view>

#include "lab/scenario/scenario.h"
#include "lab/scenario/topology.h"

namespace holdfast::lab {

// The limits of a field besides its type.
struct OneOf {
  std::string_view words;  // Separated by spaces.
};
struct Range {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
struct Span {
  milliseconds least = 0ms;
  milliseconds most = 100h;
};
struct Any {};
struct KindOfStore {};  // store_kinds()
// May hold placeholders. A list of words is a command, or further arguments of one.
struct Template {};
struct Names {};  // Names of placeholders.

inline constexpr OneOf kWorkloadKinds{
    "contend readers-writers permits nested multi long-hold guarded election"};
inline constexpr OneOf kNemesisKinds{
    "kill pause starve partition blackhole loss delay hold duplicate reorder drop-replies split "
    "reset server-pause restart restart-empty failover clock-jump disk-full isolate move"};

template <typename Visitor>
void fields(Visitor& visit, StoreSpec& store) {
  visit("kind", store.kind, KindOfStore{});
  visit("topology", store.topology, Any{});
  visit("url", store.url, Any{});
  visit("options", store.options, Any{});
  visit("proxy", store.proxy, Any{});
  visit("replica", store.replica, Any{});
  visit("clock", store.clock, Any{});
  visit("server_clock", store.server_clock, Any{});
  visit("durable", store.durable, Any{});
  visit("disk_mb", store.disk_mb, Range{0, 1024});
  visit("network", store.network, Any{});
  visit("nodes", store.nodes, Range{0, 9});
}

template <typename Visitor>
void fields(Visitor& visit, ClientSpec& clients) {
  visit("subject", clients.subject, Any{});
  visit("processes", clients.processes, Range{1, 64});
}

template <typename Visitor>
void fields(Visitor& visit, WorkloadSpec& work) {
  visit("kind", work.kind, kWorkloadKinds);
  visit("owners", work.owners, Range{1, 64});
  visit("locks", work.locks, Range{1, 256});
  visit("ttl", work.ttl, Span{100ms, 24h});
  visit("wait", work.wait, Span{});
  visit("hold", work.hold, Span{});
  visit("think", work.think, Span{1ms, 1h});
  visit("tries_percent", work.tries_percent, Range{0, 100});
  visit("cancels_percent", work.cancels_percent, Range{0, 100});
  visit("renews_percent", work.renews_percent, Range{0, 100});
  visit("writes", work.writes, Range{0, 1000});
  visit("careful", work.careful, Any{});
  visit("release", work.release, Any{});
  visit("readers_percent", work.readers_percent, Range{0, 100});
  visit("capacity", work.capacity, Range{1, 1000});
  visit("depth", work.depth, Range{1, 64});
}

template <typename Visitor>
void fields(Visitor& visit, NemesisSpec& nemesis) {
  visit("kind", nemesis.kind, kNemesisKinds);
  visit("target", nemesis.target, Any{});
  visit("direction", nemesis.direction, OneOf{"both to-server to-client"});
  visit("from", nemesis.from, OneOf{"all one"});
  visit("at", nemesis.at, Any{});
  visit("first", nemesis.first, Span{});
  visit("every", nemesis.every, Span{10ms, 24h});
  visit("lasts", nemesis.lasts, Span{1ms, 24h});
  visit("delay", nemesis.delay, Span{-24h, 24h});
  visit("times", nemesis.times, Range{});
  visit("one_in", nemesis.one_in, Range{1, 1'000'000});
}

inline constexpr Span kDurations{100ms, 24h};

// The keys outside of any table.
template <typename Visitor>
void fields(Visitor& visit, Scenario& scenario) {
  visit("name", scenario.name, Any{});
  visit("about", scenario.about, Any{});
  visit("seed", scenario.seed, Any{});
  visit("duration", scenario.duration, kDurations);
  visit("calm", scenario.calm, Span{});
}

// The keys of [check].
template <typename Visitor>
void check_fields(Visitor& visit, Scenario& scenario) {
  visit("wake", scenario.wake, Span{1ms, 1h});
  visit("grace", scenario.grace, Span{1ms, 1h});
  visit("busy", scenario.judge_busy, Any{});
}

inline constexpr OneOf kExpectations{"none must may"};

// Topology files. The tables in them are read one by one.
template <typename Visitor>
void fields(Visitor& visit, Topology& topology) {
  visit("name", topology.name, Any{});
  visit("about", topology.about, Any{});
  visit("url", topology.url, Template{});
  visit("version", topology.version, Any{});
  visit("version_function", topology.version_function, Any{});
  visit("wall_clock", topology.wall_clock, OneOf{"none server clients"});
  visit("fixed_clock", topology.fixed_clock, Any{});
  visit("fenced", topology.fenced, Any{});
  visit("exclusive_only", topology.exclusive_only, Any{});
  visit("direct", topology.direct, Any{});
  visit("promotes", topology.promotes, Any{});
  visit("one_process", topology.one_process, Any{});
  visit("disk", topology.disk, Any{});
  visit("lingers", topology.lingers, Span{0ms, 1h});
  visit("extends", topology.extends, Any{});
}

template <typename Visitor>
void fields(Visitor& visit, ServerSpec& server) {
  visit("command", server.command, Template{});
  visit("ready", server.ready, Template{});
  visit("patience", server.patience, Span{100ms, 10min});
  visit("ports", server.ports, Names{});
  visit("nodes", server.nodes, Range{1, 9});
  visit("peer", server.peer, Template{});
  visit("between_peers", server.between_peers, Any{});
  visit("leader", server.leader, Template{});
  visit("shards", server.shards, Range{1, 64});
  visit("framing", server.framing, OneOf{"raw resp"});
  visit("keeps", server.keeps, OneOf{"nothing everything"});
  visit("durable", server.durable, Template{});
  visit("save", server.save, Template{});
  visit("move", server.move, Template{});
  visit("moved", server.moved, Template{});
  visit("fill", server.fill, Template{});
  visit("free", server.free, Template{});
}

template <typename Visitor>
void fields(Visitor& visit, MemberSpec& member) {
  visit("command", member.command, Template{});
  visit("ready", member.ready, Template{});
  visit("patience", member.patience, Span{100ms, 10min});
  visit("ports", member.ports, Names{});
  visit("peer", member.peer, Template{});
  visit("between_peers", member.between_peers, Any{});
  visit("leader", member.leader, Template{});
}

template <typename Visitor>
void fields(Visitor& visit, ReplicaSpec& replica) {
  visit("follow", replica.follow, Template{});
  visit("caught_up", replica.caught_up, Template{});
  visit("promote", replica.promote, Template{});
}

// The keys of a [[cell]], besides the tables of a scenario.
template <typename Visitor>
void fields(Visitor& visit, Cell& cell) {
  visit("name", cell.what.name, Any{});
  visit("about", cell.what.about, Any{});
  visit("duration", cell.what.duration, kDurations);
  visit("calm", cell.what.calm, Span{});
  visit("work", cell.work, OneOf{"mixed believers keepers"});
}

}  // namespace holdfast::lab
