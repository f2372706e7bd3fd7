#include "src/stores/memcached/sightings.h"

#include <algorithm>
#include <utility>

namespace holdfast::stores::memcached {

Sightings::Sights Sightings::of(const machine::LockImage& image) {
  Sights sights;
  sights.reserve(image.tickets.size());
  for (const auto& ticket : image.tickets) {
    if (!ticket.system) sights.push_back({ticket.id, ticket.seq, ticket.lease_end});
  }
  return sights;
}

Sightings::Sights& Sightings::recent(const std::string& name) {
  if (const auto found = recent_.find(name); found != recent_.end()) return found->second;
  if (recent_.size() >= kMostRecent) {
    older_ = std::move(recent_);
    recent_.clear();
  }
  Sights& sights = recent_[name];
  if (const auto found = older_.find(name); found != older_.end()) {
    sights = std::move(found->second);
    older_.erase(found);
  }
  return sights;
}

void Sightings::add_ends(machine::LockImage& image, machine::Instant arrival) {
  const base::LocalLock lock(mutex_);
  Sights& known = recent(image.name);
  std::size_t next = 0;  // Mostly both are in one order.
  for (auto& ticket : image.tickets) {
    ticket.lease_end = arrival + ticket.lease;
    const auto is_it = [&](const Sight& sight) {
      return sight.id == ticket.id && sight.seq == ticket.seq;
    };
    for (std::size_t tried = 0; tried < known.size(); ++tried) {
      const std::size_t at = (next + tried) % known.size();
      if (!is_it(known[at])) continue;
      ticket.lease_end = known[at].end;
      next = at + 1;
      break;
    }
  }
  known = of(image);
}

const Sightings::Sights* Sightings::find(const std::string& name) const {
  if (const auto found = recent_.find(name); found != recent_.end()) return &found->second;
  const auto found = older_.find(name);
  return found == older_.end() ? nullptr : &found->second;
}

bool Sightings::recall_ends(machine::LockImage& image) const {
  const base::LocalLock lock(mutex_);
  const Sights* known = find(image.name);
  if (known == nullptr) return false;
  for (auto& ticket : image.tickets) {
    const auto sight = std::find_if(known->begin(), known->end(), [&](const Sight& each) {
      return each.id == ticket.id && each.seq == ticket.seq;
    });
    if (sight == known->end()) return false;
    ticket.lease_end = sight->end;
  }
  return true;
}

void Sightings::note(const machine::LockImage& image) {
  const base::LocalLock lock(mutex_);
  recent(image.name) = of(image);
}

void Sightings::forget(const std::string& name) {
  const base::LocalLock lock(mutex_);
  recent_.erase(name);
  older_.erase(name);
}

}  // namespace holdfast::stores::memcached
