#include "src/stores/holdfast/event_watches.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/port/outcome.h"
#include "src/port/owner_json.h"

namespace holdfast::stores::holdfast {
namespace {

constexpr std::pair<std::string_view, LockEventKind> kKinds[] = {
    {"granted", LockEventKind::kGranted},     {"queued", LockEventKind::kQueued},
    {"released", LockEventKind::kReleased},   {"expired", LockEventKind::kExpired},
    {"cancelled", LockEventKind::kCancelled}, {"broken", LockEventKind::kBroken}};

std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string watch_channel(std::string_view prefix) { return "hf1:w:" + std::string(prefix); }

std::optional<WatchedEvent> event_of(std::string_view payload) {
  if (take_word(payload) != "event") return std::nullopt;
  const auto prefix = detail::parse_number<std::size_t>(take_word(payload));
  const std::string_view word = take_word(payload);
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const auto& each) { return each.first == word; });
  const auto token = detail::parse_number<std::uint64_t>(take_word(payload));
  const auto left = detail::parse_number<std::int64_t>(take_word(payload));
  const auto length = detail::parse_number<std::size_t>(take_word(payload));
  if (!prefix || kind == std::end(kKinds) || !token || !left || !length || *prefix > *length ||
      *length >= payload.size() || payload[*length] != ' ') {
    return std::nullopt;
  }
  return WatchedEvent{*prefix,
                      {kind->second,
                       std::string(payload.substr(0, *length)),
                       port::to_public(port::read_owner(payload.substr(*length + 1))),
                       {0, *token},
                       std::chrono::milliseconds(*left)}};
}

struct EventWatches::Watch {
  std::string prefix;
  port::EventSink sink;
  std::atomic<bool> ended{false};
  bool missed = false;  // The connection was lost since.
};

port::WatchHandle EventWatches::begin(std::string prefix, port::EventSink sink) {
  auto watch = std::make_shared<Watch>();
  watch->prefix = std::move(prefix);
  watch->sink = std::move(sink);
  {
    const base::LocalLock lock(mutex_);
    if (!has(watch->prefix)) hear_(watch_channel(watch->prefix), true);
    watches_.push_back(watch);
  }
  return {std::shared_ptr<void>(watch.get(), [watch, all = weak_from_this()](void*) {
    watch->ended = true;
    if (const auto alive = all.lock()) alive->end(watch);
  })};
}

void EventWatches::miss(const port::WatchHandle& watch) {
  const base::LocalLock lock(mutex_);
  for (const WatchPtr& each : watches_) each->missed = each->missed || each == watch.impl;
}

bool EventWatches::has(const std::string& prefix) {
  return std::any_of(watches_.begin(), watches_.end(),
                     [&](const WatchPtr& each) { return each->prefix == prefix; });
}

void EventWatches::end(const WatchPtr& watch) {
  const base::LocalLock lock(mutex_);
  std::erase(watches_, watch);
  if (!has(watch->prefix)) hear_(watch_channel(watch->prefix), false);
}

// A change comes once for each prefix that is watched.
bool EventWatches::on_event(std::string_view payload) {
  if (!payload.starts_with("event ")) return false;
  const auto told = event_of(payload);
  if (!told) return true;
  const auto prefix = std::string_view(told->event.name).substr(0, told->prefix);
  const base::LocalLock lock(mutex_);
  for (const WatchPtr& each : watches_) {
    if (each->prefix == prefix) tell(each, told->event);
  }
  return true;
}

void EventWatches::lost() {
  const base::LocalLock lock(mutex_);
  for (const WatchPtr& each : watches_) each->missed = true;
}

std::vector<std::string> EventWatches::prefixes() {
  const base::LocalLock lock(mutex_);
  std::set<std::string> all;
  for (const WatchPtr& each : watches_) all.insert(each->prefix);
  return {all.begin(), all.end()};
}

void EventWatches::joined(std::string_view channel) {
  const base::LocalLock lock(mutex_);
  for (const WatchPtr& each : watches_) {
    if (!each->missed || watch_channel(each->prefix) != channel) continue;
    each->missed = false;
    tell(each, {LockEventKind::kMissed, each->prefix, {}, {}, {}});
  }
}

void EventWatches::tell(const WatchPtr& watch, LockEvent event) {
  loop_.post([watch, event = std::move(event)] {
    if (!watch->ended) watch->sink(event);
  });
}

}  // namespace holdfast::stores::holdfast
