// Every key of a scenario file, once: `visit(key, field, rule)` is called for each in its order.
#pragma once

#include <limits>
#include <string_view>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// What a field may be, besides of its type.
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

inline constexpr OneOf kStoreKinds{"memory sqlite redis url none"};
inline constexpr OneOf kWorkloadKinds{
    "contend readers-writers permits nested multi long-hold guarded election"};
inline constexpr OneOf kNemesisKinds{
    "kill pause starve partition blackhole loss delay hold duplicate reorder drop-replies split "
    "reset server-pause restart restart-empty failover clock-jump disk-full"};

template <typename Visitor>
void fields(Visitor& visit, StoreSpec& store) {
  visit("kind", store.kind, kStoreKinds);
  visit("url", store.url, Any{});
  visit("options", store.options, Any{});
  visit("proxy", store.proxy, Any{});
  visit("replica", store.replica, Any{});
  visit("clock", store.clock, Any{});
  visit("appendonly", store.appendonly, Any{});
  visit("disk_mb", store.disk_mb, Range{0, 1024});
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
  visit("barging", work.barging, Any{});
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
  visit("at", nemesis.at, Any{});
  visit("first", nemesis.first, Span{});
  visit("every", nemesis.every, Span{10ms, 24h});
  visit("lasts", nemesis.lasts, Span{1ms, 24h});
  visit("delay", nemesis.delay, Span{-24h, 24h});
  visit("times", nemesis.times, Range{});
  visit("one_in", nemesis.one_in, Range{1, 1'000'000});
}

// The keys outside of any table.
template <typename Visitor>
void fields(Visitor& visit, Scenario& scenario) {
  visit("name", scenario.name, Any{});
  visit("about", scenario.about, Any{});
  visit("seed", scenario.seed, Any{});
  visit("duration", scenario.duration, Span{100ms, 24h});
  visit("calm", scenario.calm, Span{});
}

// Those of [check].
template <typename Visitor>
void check_fields(Visitor& visit, Scenario& scenario) {
  visit("wake", scenario.wake, Span{1ms, 1h});
  visit("grace", scenario.grace, Span{1ms, 1h});
  visit("busy", scenario.judge_busy, Any{});
}

inline constexpr OneOf kExpectations{"none must may"};

}  // namespace holdfast::lab
