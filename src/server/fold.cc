#include "src/server/fold.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/fnv.h"
#include "src/machine/ticket_of.h"

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::ModeKind;
using machine::TicketImage;

constexpr ModeKind family(ModeKind kind) {
  return kind == ModeKind::kPermits ? ModeKind::kPermits : ModeKind::kExclusive;
}

}  // namespace

Result<void> Fold::chunk(const SnapshotHead& head, std::uint32_t index, std::string_view bytes) {
  auto done = read_record_at({RecordKind::kChunk, head.batch, index}, bytes, *this);
  if (done) last_batch_ = head.batch;
  return done;
}

Result<void> Fold::batch(std::uint64_t number, std::string_view bytes, Checksum checksum) {
  auto done = read_record_at({RecordKind::kBatch, number, 0}, bytes, *this, checksum);
  if (done) last_batch_ = number;
  return done;
}

bool Fold::on_end(Instant at) {
  now_ = std::max(now_, at);
  return at >= Instant{};
}

bool Fold::on_floor(machine::Token floor) {
  if (floor < floor_) return false;
  floor_ = floor;
  return true;
}

bool Fold::on_mark(std::string client, std::string lock, std::uint64_t issue) {
  rest_.marks.raise(client, lock, issue);
  return true;
}

bool Fold::on_client_floor(std::string client, std::uint64_t issue) {
  rest_.marks.raise_floor(client, issue);
  return true;
}

bool Fold::on_trace(std::string lock, BreakTrace trace) {
  rest_.traces.leave(lock, std::move(trace));
  return true;
}

// Versions grow, so a record that tells less than an earlier one was never written.
bool Fold::on_kept(std::string key, KeptText text) {
  const KeptText* before = rest_.kept.find(key);
  if (text.version <= (before == nullptr ? 0 : before->version)) return false;
  rest_.kept.set(key, std::move(text));
  return true;
}

bool Fold::on_lock(LockHead& lock) {
  if (reading_ != RecordKind::kChunk) return false;
  const auto [place, fresh] = locks_.try_emplace(lock.name);
  place->second.kind = lock.kind;
  place->second.capacity = lock.capacity;
  place->second.last_token = lock.last_token;
  place->second.next_order = lock.next_order;
  return fresh;
}

bool Fold::on_effect(Effect& effect) {
  switch (effect.kind) {
    case EffectKind::kQueued:
    case EffectKind::kGranted: return add_ticket(effect);
    case EffectKind::kTombstone:
      locks_[effect.name].tombstones[effect.id] = effect.lease_end;
      return true;
    case EffectKind::kBroken: rest_.traces.leave(effect.name, {effect.token, effect.owner}); break;
    default: break;
  }
  // All other changes are of a lock that an earlier record has brought in.
  const auto found = locks_.find(effect.name);
  if (found == locks_.end()) return false;
  FoldedLock& lock = found->second;
  switch (effect.kind) {
    case EffectKind::kExtended: {
      TicketImage* ticket = find(lock, effect);
      if (ticket == nullptr) return false;
      ticket->lease_end = effect.lease_end;
      ticket->seq = effect.seq;
      ticket->lease = effect.lease;
      return true;
    }
    case EffectKind::kDowngraded: {
      TicketImage* ticket = find(lock, effect);
      if (ticket != nullptr) ticket->mode = machine::Mode::shared();
      return ticket != nullptr;
    }
    case EffectKind::kResized:
      lock.capacity = effect.mode.capacity;
      std::erase_if(lock.tickets,
                    [&](const auto& each) { return effect.id && each.second.id == effect.id; });
      for (auto& [order, ticket] : lock.tickets) ticket.mode.capacity = lock.capacity;
      return true;
    case EffectKind::kValueSet: lock.value = effect.value; return true;
    case EffectKind::kTombstoneDropped: return lock.tombstones.erase(effect.id) == 1;
    case EffectKind::kForgotten: {
      const bool idle = lock.tickets.empty() && lock.tombstones.empty() && lock.value.empty();
      floor_ = std::max(floor_, effect.token);
      locks_.erase(found);
      return idle;
    }
    default: return end_ticket(lock, effect);
  }
}

bool Fold::add_ticket(const Effect& effect) {
  if (std::min({effect.lease, effect.ttl, effect.waiter_ttl}) < Duration::zero()) return false;
  FoldedLock& lock = locks_[effect.name];
  TicketImage* known = find(lock, effect);
  if (known == nullptr) {
    if (effect.kind == EffectKind::kQueued && reading_ == RecordKind::kBatch &&
        effect.order < lock.next_order) {
      return false;
    }
    // The first ticket decides what the name is used for.
    if (lock.tickets.empty()) {
      lock.kind = family(effect.mode.kind);
      lock.capacity = effect.mode.capacity;
    }
    known = &lock.tickets.emplace(effect.order, ticket_of(effect)).first->second;
    if (known->id != effect.id || effect.order == UINT64_MAX) return false;
    lock.next_order = std::max(lock.next_order, effect.order + 1);
  }
  known->lease_end = effect.lease_end;
  known->seq = effect.seq;
  known->lease = effect.lease;
  if (effect.kind == EffectKind::kQueued) return !known->held;
  known->held = true;
  known->token = effect.token;
  lock.last_token = std::max(lock.last_token, effect.token);
  return true;
}

TicketImage* Fold::find(FoldedLock& lock, const Effect& effect) {
  const auto found = lock.tickets.find(effect.order);
  return found == lock.tickets.end() || found->second.id != effect.id ? nullptr : &found->second;
}

bool Fold::end_ticket(FoldedLock& lock, const Effect& effect) {
  if (find(lock, effect) == nullptr) return false;
  lock.tickets.erase(effect.order);
  return true;
}

LockImage Fold::image_of(const std::string& name, const FoldedLock& lock) {
  LockImage image;
  image.name = name;
  image.kind = lock.kind;
  image.capacity = lock.capacity;
  image.last_token = lock.last_token;
  image.next_order = lock.next_order;
  image.value = lock.value;
  for (const auto& [order, ticket] : lock.tickets) image.tickets.push_back(ticket);
  for (const auto& [id, until] : lock.tombstones) image.tombstones.push_back({id, until});
  return image;
}

std::optional<LockImage> Fold::take_lock() {
  if (locks_.empty()) return std::nullopt;
  const auto node = locks_.extract(locks_.begin());
  return image_of(node.key(), node.mapped());
}

void Fold::write_lock(const std::string& name, const FoldedLock& lock, RecordWriter& writer) {
  writer.add_lock({name, lock.kind, lock.capacity, lock.last_token, lock.next_order});
  Effect effect;
  effect.name = name;
  for (const auto& [order, ticket] : lock.tickets) {
    effect.kind = ticket.held ? EffectKind::kGranted : EffectKind::kQueued;
    effect.id = ticket.id;
    effect.order = ticket.order;
    effect.mode = ticket.mode;
    effect.upgrade_of = ticket.upgrade_of;
    effect.system = ticket.system;
    effect.token = ticket.token;
    effect.lease_end = ticket.lease_end;
    effect.seq = ticket.seq;
    effect.lease = ticket.lease;
    effect.ttl = ticket.ttl;
    effect.waiter_ttl = ticket.waiter_ttl;
    effect.owner = ticket.owner;
    writer.add_effect(effect);
  }
  for (const auto& [id, until] : lock.tombstones) {
    effect.kind = EffectKind::kTombstone;
    effect.id = id;
    effect.lease_end = until;
    writer.add_effect(effect);
  }
  if (lock.value.empty()) return;
  effect.kind = EffectKind::kValueSet;
  effect.id = {};
  effect.value = lock.value;
  writer.add_effect(effect);
}

// All but the locks and the kept texts: small, because it is bounded.
void Fold::write_rest(RecordWriter& writer) const {
  writer.add_floor(floor_);
  rest_.marks.visit([&](const std::string& client,
                        std::uint64_t issue) { writer.add_client_floor(client, issue); },
                    [&](const std::string& client, const std::string& lock, std::uint64_t issue) {
                      writer.add_mark(client, lock, issue);
                    });
  rest_.traces.visit(
      [&](const std::string& lock, const BreakTrace& trace) { writer.add_trace(lock, trace); });
}

std::optional<std::string> Fold::take_chunk(std::size_t size) {
  if (rest_taken_ && locks_.empty() && rest_.kept.empty()) return std::nullopt;
  RecordWriter writer({RecordKind::kChunk, last_batch_, chunks_++});
  if (!std::exchange(rest_taken_, true)) write_rest(writer);
  while (writer.size() < size && !rest_.kept.empty()) {
    const auto kept = rest_.kept.take_first();
    writer.add_kept(kept->first, kept->second);
  }
  while (writer.size() < size && !locks_.empty()) {
    const auto node = locks_.extract(locks_.begin());
    write_lock(node.key(), node.mapped(), writer);
  }
  return writer.finish(now_);
}

}  // namespace holdfast::server
