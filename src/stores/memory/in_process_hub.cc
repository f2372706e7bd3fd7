// One mutex, one machine. A step's effects are told before the mutex is let go, so that nobody
// hears of two steps in the wrong order.
#include "src/stores/memory/in_process_hub.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <type_traits>

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/machine/require.h"
#include "src/port/multi_request.h"
#include "src/port/outcome.h"
#include "src/stores/memory/records.h"

namespace holdfast::stores {
namespace {

using machine::Effect;
using machine::EffectKind;
using port::AcquisitionState;
using port::Push;

constexpr std::size_t kRenewalsAtOnce = 128;  // Others get the mutex between two of these.
constexpr std::size_t kTraces = 1024;
constexpr std::uint32_t kTombstones = 4096;

machine::Instant boot_now() {
  return machine::Instant(
      std::chrono::duration_cast<machine::Duration>(base::host_boot_now().time_since_epoch()));
}

// The highest token counter of hubs that are gone: the wall clock may be set back between two.
std::atomic<std::uint64_t> used_tokens{0};

void note_used(std::uint64_t counter) {
  std::uint64_t seen = used_tokens.load();
  while (seen < counter && !used_tokens.compare_exchange_weak(seen, counter)) {
  }
}

machine::Token wall_floor() {
  const auto wall =
      std::chrono::duration_cast<std::chrono::microseconds>(base::wall_now().time_since_epoch());
  const auto seed = static_cast<std::uint64_t>(std::max<std::int64_t>(wall.count(), 0));
  return {0, std::max(seed, used_tokens.load())};
}

}  // namespace

InProcessHub::InProcessHub(MemoryTuning tuning)
    : tuning_(std::move(tuning)), machine_(tuning_.floor, tuning_.limits) {}

machine::Reply InProcessHub::step(machine::Action action, const port::AcquisitionId& own) {
  return step_at(tuning_.now(), std::move(action), own);
}

machine::Reply InProcessHub::step_at(machine::Instant at, machine::Action action,
                                     const port::AcquisitionId& own) {
  effects_.clear();
  const machine::Reply reply = machine_.apply({at, std::move(action)}, effects_);
  // A step admits a bounded number. Nobody else would go on with the rest.
  for (auto next = machine_.next_event(); next && *next <= machine_.now();
       next = machine_.next_event()) {
    machine_.apply({machine_.now(), machine::Tick{}}, effects_);
  }
  for (const Effect& effect : effects_) deliver(effect, own);
  return reply;
}

void InProcessHub::deliver(const Effect& effect, const port::AcquisitionId& own) {
  if (effect.kind == EffectKind::kGranted) last_token_ = std::max(last_token_, effect.token);
  if (!watchers_.empty()) tell_watchers(effect);
  if (!value_watchers_.empty()) tell_value_watchers(effect);
  if (effect.id != own) push(effect);  // The reply tells its caller.
  if (ends_ticket(effect.kind)) routes_.erase(effect.id);
}

void InProcessHub::push(const Effect& effect) {
  Push push{Push::Kind::kHint, effect.id, {}};
  if (effect.kind == EffectKind::kGranted) {
    push.kind = Push::Kind::kGranted;
    push.state = port::held_state(effect);
  } else if (!ends_ticket(effect.kind)) {
    return;
  }
  const auto route = routes_.find(effect.id);
  if (route == routes_.end()) return;
  const MailboxPtr& mailbox = route->second;
  mailbox->loop->post([mailbox, push] {
    if (!mailbox->closed) mailbox->listener->on_push(push);
  });
}

void InProcessHub::tell_watchers(const Effect& effect) {
  const std::optional<LockEvent> event = port::to_event(effect, machine_.now());
  if (!event) return;
  for (const auto& watcher : watchers_) {
    if (!std::string_view(event->name).starts_with(watcher->prefix)) continue;
    watcher->mailbox->loop->post([watcher, event = *event] {
      if (!watcher->ended && !watcher->mailbox->closed) watcher->sink(event);
    });
  }
}

void InProcessHub::tell_value_watchers(const Effect& effect) {
  if (effect.kind != EffectKind::kValueSet && !ends_ticket(effect.kind)) return;
  const auto [first, last] = value_watchers_.equal_range(effect.name);
  for (auto each = first; each != last; ++each) {
    each->second->mailbox->loop->post([watcher = each->second] {
      if (!watcher->ended && !watcher->mailbox->closed) watcher->changed();
    });
  }
}

Result<AcquisitionState> InProcessHub::acquire(const MailboxPtr& from,
                                               const port::AcquireRequest& request,
                                               const Then<AcquisitionState>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply = step(port::to_command(request), request.id);
  std::optional<machine::LockImage> current;
  switch (reply.outcome) {
    case machine::Outcome::kHeld:
    case machine::Outcome::kWaiting: routes_.insert_or_assign(request.id, from); break;
    case machine::Outcome::kMismatch:
    case machine::Outcome::kInvalid: current = machine_.inspect(request.name); break;
    default: break;
  }
  auto result =
      port::to_acquire_result(reply, request, current ? &*current : nullptr, machine_.now());
  if (then) then(result);
  return result;
}

// All are looked at before one is taken, at one instant.
Result<port::Store::Grants> InProcessHub::take_all(
    const MailboxPtr& from, const std::vector<port::AcquireRequest>& requests) {
  if (auto good = port::check_multi(requests); !good) return good.error();
  step(machine::Tick{}, {});
  for (const port::AcquireRequest& request : requests) {
    const machine::Outcome foreseen = machine_.foresee(port::to_command(request));
    if (foreseen == machine::Outcome::kHeld) continue;
    const auto current = machine_.inspect(request.name);
    auto answer = port::to_acquire_result({.outcome = foreseen}, request,
                                          current ? &*current : nullptr, machine_.now());
    if (!answer) return answer.error();
    return port::Store::Grants();
  }
  std::vector<AcquisitionState> held;
  for (const port::AcquireRequest& request : requests) {
    const machine::Reply reply = step_at(machine_.now(), port::to_command(request), request.id);
    HOLDFAST_REQUIRE(reply.outcome == machine::Outcome::kHeld, "what was foreseen came");
    routes_.insert_or_assign(request.id, from);
    auto state = port::to_ticket_state(reply, request.name, machine_.now());
    held.push_back(*std::move(state));
  }
  return port::Store::Grants(std::move(held));
}

Result<port::Store::Grants> InProcessHub::try_acquire_all(
    const MailboxPtr& from, const std::vector<port::AcquireRequest>& requests,
    const Then<port::Store::Grants>& then) {
  const base::LocalLock lock(mutex_);
  auto result = take_all(from, requests);
  if (then) then(result);
  return result;
}

std::vector<Result<port::EndStatus>> InProcessHub::release_all(
    const std::vector<port::AcquisitionRequest>& requests,
    const Then<std::vector<Result<port::EndStatus>>>& then) {
  const base::LocalLock lock(mutex_);
  std::vector<Result<port::EndStatus>> results;
  results.reserve(requests.size());
  for (const port::AcquisitionRequest& request : requests) {
    machine::Release command{request.name, request.id, tuning_.tombstone};
    results.push_back(port::to_end_status(step(command, request.id), request.name));
  }
  if (then) then(results);
  return results;
}

void InProcessHub::renew(const MailboxPtr& from, const std::vector<port::RenewItem>& items,
                         const Then<std::vector<Result<AcquisitionState>>>& then) {
  std::vector<Result<AcquisitionState>> results;
  results.reserve(items.size());
  do {
    const std::size_t end = std::min(items.size(), results.size() + kRenewalsAtOnce);
    const base::LocalLock lock(mutex_);
    while (results.size() < end) {
      const port::RenewItem& item = items[results.size()];
      const machine::Reply reply = step(port::to_command(item), item.id);
      if (reply.outcome == machine::Outcome::kHeld || reply.outcome == machine::Outcome::kWaiting) {
        routes_.insert_or_assign(item.id, from);
      }
      results.push_back(renewed(reply, item));
    }
    if (results.size() == items.size()) return then(std::move(results));
  } while (true);
}

Result<AcquisitionState> InProcessHub::renewed(const machine::Reply& reply,
                                               const port::RenewItem& item) const {
  if (reply.outcome == machine::Outcome::kGone) {
    const auto trace = traces_.find(item.name);
    const Token token{item.token.epoch, item.token.counter};
    if (trace != traces_.end() && trace->second.second.token == token) {
      return port::broken_error(item.name, trace->second.second);
    }
  }
  return port::to_ticket_state(reply, item.name, machine_.now());
}

Result<port::EndStatus> InProcessHub::end(machine::Action action,
                                          const port::AcquisitionRequest& request,
                                          const Then<port::EndStatus>& then) {
  const base::LocalLock lock(mutex_);
  auto result = port::to_end_status(step(std::move(action), request.id), request.name);
  if (then) then(result);
  return result;
}

Result<port::EndStatus> InProcessHub::release(const port::AcquisitionRequest& request,
                                              const Then<port::EndStatus>& then) {
  return end(machine::Release{request.name, request.id, tuning_.tombstone}, request, then);
}

Result<port::EndStatus> InProcessHub::cancel(const port::AcquisitionRequest& request,
                                             const Then<port::EndStatus>& then) {
  return end(machine::Cancel{request.name, request.id, tuning_.tombstone}, request, then);
}

void InProcessHub::downgrade(const port::AcquisitionRequest& request,
                             const Then<AcquisitionState>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply =
      step(machine::Downgrade{request.name, request.id, tuning_.tombstone}, request.id);
  const auto after = machine_.inspect(request.name);
  then(port::to_downgrade_result(reply, request.name, request.id, after ? &*after : nullptr));
}

// Nobody holds or waits, and nothing is known: nullopt.
std::optional<LockInfo> InProcessHub::look(const std::string& name) {
  const auto trace = traces_.find(name);
  std::optional<BreakInfo> last_break;
  if (trace != traces_.end()) last_break = trace->second.second;
  if (const auto image = machine_.inspect(name)) {
    return port::to_lock_info(*image, machine_.now(), std::move(last_break));
  }
  if (!last_break) return std::nullopt;
  LockInfo info;
  info.name = name;
  info.last_token = last_break->token;
  info.last_break = std::move(last_break);
  return info;
}

void InProcessHub::inspect(const std::string& name, const Then<std::optional<LockInfo>>& then) {
  const base::LocalLock lock(mutex_);
  step(machine::Tick{}, {});
  then(look(name));
}

void InProcessHub::list(const std::string& prefix, std::size_t limit,
                        const Then<std::vector<LockInfo>>& then) {
  const base::LocalLock lock(mutex_);
  step(machine::Tick{}, {});
  std::vector<LockInfo> found;
  for (const std::string& name : machine_.names(prefix, SIZE_MAX)) {
    if (found.size() >= limit) break;
    auto info = look(name);
    if (info && !(info->holders.empty() && info->waiters.empty())) {
      found.push_back(*std::move(info));
    }
  }
  then(std::move(found));
}

void InProcessHub::break_lock(const port::BreakRequest& request, const Then<bool>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply =
      step(machine::Break{request.name, request.token, tuning_.tombstone, request.by}, {});
  auto result = port::to_done(reply, request.name);
  if (result) {
    leave_trace(request.name, {port::to_public(request.token), port::to_public(request.by)});
  }
  then(std::move(result));
}

void InProcessHub::leave_trace(const std::string& name, BreakInfo trace) {
  const auto old = traces_.find(name);
  if (old != traces_.end()) traces_by_age_.erase(old->second.first);
  const std::uint64_t age = next_trace_++;
  traces_.insert_or_assign(name, std::pair(age, std::move(trace)));
  traces_by_age_.emplace(age, name);
  if (traces_.size() > kTraces) {
    traces_.erase(traces_by_age_.begin()->second);
    traces_by_age_.erase(traces_by_age_.begin());
  }
}

void InProcessHub::set_value(const port::AcquisitionRequest& holder, std::string value,
                             const Then<bool>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply =
      step(machine::SetValue{holder.name, holder.id, std::move(value)}, holder.id);
  then(port::to_done(reply, holder.name));
}

void InProcessHub::keep(const port::KeepRequest& request, const Then<bool>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply = step(
      machine::Keep{request.name, request.id, request.seq, request.ttl, request.value}, request.id);
  then(port::to_done(reply, request.name));
}

void InProcessHub::get_value(const std::string& name, const Then<std::string>& then) {
  const base::LocalLock lock(mutex_);
  auto image = machine_.inspect(name);
  then(image ? std::move(image->value) : std::string());
}

void InProcessHub::resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
                          const Then<bool>& then) {
  const base::LocalLock lock(mutex_);
  const machine::Reply reply =
      step(machine::Resize{request.name, request.id, capacity}, request.id);
  then(port::to_done(reply, request.name));
}

port::WatchHandle InProcessHub::watch(const MailboxPtr& from, std::string prefix,
                                      port::EventSink sink) {
  auto watcher = std::make_shared<Watcher>();
  watcher->mailbox = from;
  watcher->prefix = std::move(prefix);
  watcher->sink = std::move(sink);
  const base::LocalLock lock(mutex_);
  watchers_.push_back(watcher);
  std::shared_ptr<void> handle(watcher.get(), [watcher, hub = weak_from_this()](void*) {
    watcher->ended = true;
    if (const auto alive = hub.lock()) alive->end_watch(watcher.get());
  });
  return {std::move(handle)};
}

void InProcessHub::end_watch(const Watcher* watcher) {
  std::vector<std::shared_ptr<Watcher>> ended;  // Destroyed without the mutex: the sink is foreign.
  const base::LocalLock lock(mutex_);
  for (auto& one : watchers_) {
    if (one.get() == watcher) ended.push_back(one);
  }
  std::erase_if(watchers_, [&](const auto& one) { return one.get() == watcher; });
}

port::WatchHandle InProcessHub::watch_value(const MailboxPtr& from, std::string name,
                                            port::Task changed) {
  auto watcher = std::make_shared<ValueWatcher>();
  watcher->mailbox = from;
  watcher->changed = std::move(changed);
  const base::LocalLock lock(mutex_);
  value_watchers_.emplace(std::move(name), watcher);
  std::shared_ptr<void> handle(watcher.get(), [watcher, hub = weak_from_this()](void*) {
    watcher->ended = true;
    if (const auto alive = hub.lock()) alive->end_value_watch(watcher.get());
  });
  return {std::move(handle)};
}

void InProcessHub::end_value_watch(const ValueWatcher* watcher) {
  std::shared_ptr<ValueWatcher> ended;  // Destroyed without the mutex, as above.
  const base::LocalLock lock(mutex_);
  const auto found = std::find_if(value_watchers_.begin(), value_watchers_.end(),
                                  [&](const auto& each) { return each.second.get() == watcher; });
  if (found == value_watchers_.end()) return;
  ended = std::move(found->second);
  value_watchers_.erase(found);
}

void InProcessHub::leave(const MailboxPtr& mailbox) {
  std::vector<std::shared_ptr<Watcher>> ended;
  std::vector<std::shared_ptr<ValueWatcher>> ended_values;
  const base::LocalLock lock(mutex_);
  mailbox->closed = true;
  note_used(last_token_.counter);
  std::erase_if(routes_, [&](const auto& route) { return route.second == mailbox; });
  for (auto& one : watchers_) {
    if (one->mailbox == mailbox) ended.push_back(one);
  }
  std::erase_if(watchers_, [&](const auto& one) { return one->mailbox == mailbox; });
  for (auto& [name, one] : value_watchers_) {
    if (one->mailbox == mailbox) ended_values.push_back(one);
  }
  std::erase_if(value_watchers_, [&](const auto& one) { return one.second->mailbox == mailbox; });
}

machine::MachineImage InProcessHub::snapshot() {
  const base::LocalLock lock(mutex_);
  return machine_.snapshot();
}

namespace {

// A forked child must not see its parent's holders, nor wait for a mutex that another thread of the
// parent had: it starts a registry of its own and leaves the old one alone.
struct Registry {
  explicit Registry(std::uint64_t process) : generation(process) {}
  const std::uint64_t generation;
  base::LocalMutex mutex;
  std::map<std::string, std::weak_ptr<InProcessHub>> hubs HOLDFAST_GUARDED_BY(mutex);
  std::map<std::string, std::shared_ptr<MemoryTable>> tables HOLDFAST_GUARDED_BY(mutex);
};

Registry& registry() {
  static std::atomic<Registry*> current{nullptr};
  Registry* found = current.load(std::memory_order_acquire);
  const std::uint64_t process = base::process_generation();
  while (found == nullptr || found->generation != process) {
    auto* fresh = new Registry(process);  // Lives as long as the process.
    if (current.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *found;
}

MemoryTuning ordinary() {
  MemoryTuning tuning;
  tuning.now = &boot_now;
  tuning.floor = wall_floor();
  tuning.limits.max_tombstones = kTombstones;
  return tuning;
}

}  // namespace

std::shared_ptr<InProcessHub> find_or_make_memory_hub(const std::string& name) {
  if (name.empty()) return std::make_shared<InProcessHub>(ordinary());
  Registry& known = registry();
  const base::LocalLock lock(known.mutex);
  std::erase_if(known.hubs, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<InProcessHub>& slot = known.hubs[name];
  if (auto hub = slot.lock()) return hub;
  auto hub = std::make_shared<InProcessHub>(ordinary());
  slot = hub;
  return hub;
}

std::shared_ptr<MemoryTable> find_or_make_memory_table(const std::string& name) {
  Registry& known = registry();
  const base::LocalLock lock(known.mutex);
  std::shared_ptr<MemoryTable>& table = known.tables[name];
  if (!table) table = std::make_shared<MemoryTable>();
  return table;
}

std::shared_ptr<InProcessHub> make_memory_hub_for_test(MemoryTuning tuning) {
  return std::make_shared<InProcessHub>(std::move(tuning));
}

}  // namespace holdfast::stores
