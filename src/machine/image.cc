// Converts the machine's state to plain data and back. Data is checked before use: an image that no
// machine could have made is refused as a whole.
#include <algorithm>
#include <utility>
#include <vector>

#include "src/machine/machine_impl.h"

namespace holdfast::machine {
namespace {

constexpr std::uint32_t kFormat = 1;
// No machine lives to see it, and beyond its double the count would start again.
constexpr std::uint64_t kMostOrders = std::uint64_t{1} << 62U;

bool fits_the_lock(const LockImage& image, const TicketImage& ticket) {
  const bool permits = image.kind == ModeKind::kPermits;
  if (!ticket.id || (ticket.mode.kind == ModeKind::kPermits) != permits) return false;
  if (ticket.mode.kind > ModeKind::kPermits || ticket.mode.capacity != image.capacity) return false;
  if (ticket.mode.permits == 0 || ticket.mode.permits > image.capacity) return false;
  if (ticket.system && (!permits || ticket.held || ticket.mode.permits == image.capacity)) {
    return false;
  }
  if (!ticket.held) return ticket.token == Token{};
  return ticket.token > Token{} && ticket.token <= image.last_token;
}

const TicketImage* find(const LockImage& image, AcquisitionId id) {
  const auto found = std::find_if(image.tickets.begin(), image.tickets.end(),
                                  [&](const TicketImage& ticket) { return ticket.id == id; });
  return found == image.tickets.end() ? nullptr : &*found;
}

// Whether the holders could have been admitted in the order of their tokens.
bool holders_fit(const LockImage& image) {
  if (image.tickets.size() == 1) {  // Most locks: nothing is to be sorted.
    const TicketImage& only = image.tickets.front();
    if (only.upgrade_of) return false;
    return !only.held || Occupancy().admits(only.mode, image.capacity);
  }
  std::vector<const TicketImage*> holders;
  for (const TicketImage& ticket : image.tickets) {
    if (ticket.held) holders.push_back(&ticket);
  }
  std::sort(holders.begin(), holders.end(),
            [](const TicketImage* a, const TicketImage* b) { return a->token < b->token; });
  Occupancy held;
  const TicketImage* last = nullptr;
  for (const TicketImage* ticket : holders) {
    if (last != nullptr && last->token == ticket->token) return false;
    last = ticket;
    if (!(ticket->upgrade_of ? held.admits_upgrade() : held.admits(ticket->mode, image.capacity))) {
      return false;
    }
    held.add(ticket->mode);
  }
  return true;
}

bool upgrades_fit(const LockImage& image) {
  std::uint32_t upgrades = 0;
  for (const TicketImage& ticket : image.tickets) {
    if (!ticket.upgrade_of) continue;
    const TicketImage* base = find(image, ticket.upgrade_of);
    const bool linked = base != nullptr && base->held && base->mode.kind == ModeKind::kShared;
    if (!linked || ticket.mode.kind != ModeKind::kExclusive || ++upgrades > 1) return false;
  }
  return true;
}

bool ids_differ(const LockImage& image) {
  if (image.tickets.size() + image.tombstones.size() < 2) return true;
  std::vector<AcquisitionId> ids;
  for (const TicketImage& ticket : image.tickets) ids.push_back(ticket.id);
  for (const TombstoneImage& tombstone : image.tombstones) ids.push_back(tombstone.id);
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) == ids.end();
}

bool consistent(const LockImage& image, Token floor) {
  if (image.name.empty() || image.capacity == 0) return false;
  if (image.kind != ModeKind::kExclusive && image.kind != ModeKind::kPermits) return false;
  if (image.kind == ModeKind::kExclusive && image.capacity != 1) return false;
  if (image.last_token.epoch > floor.epoch) return false;
  std::uint64_t last_order = 0;
  std::uint32_t systems = 0;
  for (const TicketImage& ticket : image.tickets) {
    if (!fits_the_lock(image, ticket) || ticket.order <= last_order) return false;
    last_order = ticket.order;
    if (ticket.system && ++systems > 1) return false;
  }
  if (image.next_order <= last_order || image.next_order > kMostOrders) return false;
  for (const TombstoneImage& tombstone : image.tombstones) {
    if (!tombstone.id) return false;
  }
  return upgrades_fit(image) && holders_fit(image) && ids_differ(image);
}

// Moves out of what may change, and copies the rest.
template <class T>
T take(const T& from) {
  return from;
}
template <class T>
T take(T& from) {
  return std::move(from);
}

}  // namespace

std::optional<LockImage> LockMachine::inspect(std::string_view name) const {
  const LockIndex index = impl_->table.find_lock(name);
  if (index == kNone) return std::nullopt;
  return impl_->image_of(index);
}

std::vector<std::string> LockMachine::names(std::string_view prefix, std::size_t limit) const {
  std::vector<std::string> found;
  for (LockIndex index = 0; index < impl_->table.lock_slots(); ++index) {
    const Lock& lock = impl_->table.lock(index);
    if (lock.used && std::string_view(lock.name).starts_with(prefix)) found.push_back(lock.name);
  }
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(std::min(limit, found.size()));
  std::partial_sort(found.begin(), middle, found.end());
  found.erase(middle, found.end());
  return found;
}

std::vector<std::string> LockMachine::names_in_use(std::string_view prefix, std::string_view after,
                                                   std::size_t limit) const {
  // A heap with the last one in front, once it is full.
  std::vector<std::string_view> found;
  for (LockIndex index = 0; limit > 0 && index < impl_->table.lock_slots(); ++index) {
    const Lock& lock = impl_->table.lock(index);
    const std::string_view name = lock.name;
    if (!lock.used || name <= after || !lock.has_tickets() || !name.starts_with(prefix)) continue;
    if (found.size() < limit) {
      found.push_back(name);
      if (found.size() == limit) std::make_heap(found.begin(), found.end());
    } else if (name < found.front()) {
      std::pop_heap(found.begin(), found.end());
      found.back() = name;
      std::push_heap(found.begin(), found.end());
    }
  }
  std::sort(found.begin(), found.end());
  return {found.begin(), found.end()};
}

MachineImage LockMachine::snapshot() const {
  MachineImage image;
  image.format = kFormat;
  image.now = impl_->now;
  image.floor = impl_->floor;
  for (const std::string& name : names("", SIZE_MAX)) image.locks.push_back(*inspect(name));
  return image;
}

std::optional<LockMachine> LockMachine::restore(const MachineImage& image, Limits limits) {
  if (image.format != kFormat) return std::nullopt;
  LockMachine machine(image.floor, limits);
  machine.impl_->now = image.now;
  for (const LockImage& lock : image.locks) {
    if (!machine.restore_lock(lock)) return std::nullopt;
  }
  return machine;
}

bool LockMachine::restore_lock(const LockImage& image) {
  if (!impl_->can_load(image)) return false;
  impl_->load(image);
  return true;
}

bool LockMachine::Impl::can_load(const LockImage& image) const {
  return consistent(image, floor) && table.find_lock(image.name) == kNone;
}

std::size_t LockMachine::restore_locks(std::span<LockImage> images) {
  // The places of the next few are fetched from memory while one is loaded.
  constexpr std::size_t kAhead = 8;
  std::size_t fetched = 0;
  for (std::size_t at = 0; at < images.size(); ++at) {
    for (; fetched < std::min(at + kAhead, images.size()); ++fetched) {
      impl_->table.prefetch(images[fetched]);
    }
    if (!impl_->can_load(images[at])) return at;
    impl_->load(images[at]);
  }
  return images.size();
}

void LockMachine::reserve(std::size_t locks) { impl_->table.reserve(locks); }

LockImage LockMachine::Impl::image_of(LockIndex index) const {
  const Lock& lock = table.lock(index);
  LockImage image;
  image.name = lock.name;
  image.kind = lock.kind;
  image.capacity = lock.capacity;
  image.last_token = lock.last_token;
  image.next_order = lock.next_order;
  image.value = lock.extras().value;
  for (const List* list : lock.ticket_lists()) {
    for (TicketIndex at = list->head; at != kNone; at = table.ticket(at).links.next) {
      image.tickets.push_back(image_of_ticket(at));
    }
  }
  std::sort(image.tickets.begin(), image.tickets.end(),
            [](const TicketImage& a, const TicketImage& b) { return a.order < b.order; });
  for (TombstoneIndex at = lock.tombstones; at != kNone; at = table.tombstone(at).links.next) {
    image.tombstones.push_back({table.tombstone(at).id, table.until_of(at)});
  }
  std::sort(image.tombstones.begin(), image.tombstones.end(),
            [](const TombstoneImage& a, const TombstoneImage& b) { return a.id < b.id; });
  return image;
}

TicketImage LockMachine::Impl::image_of_ticket(TicketIndex index) const {
  const Ticket& ticket = table.ticket(index);
  const TicketIndex base = table.base_of(index);
  TicketImage image;
  image.id = ticket.id;
  image.order = ticket.order;
  image.mode = table.mode_of(ticket);
  image.held = ticket.held;
  image.system = ticket.system;
  if (base != kNone) image.upgrade_of = table.ticket(base).id;
  image.token = ticket.token();
  image.lease_end = table.end_of(index);
  image.seq = ticket.seq;
  image.lease = ticket.lease;
  image.ttl = ticket.ttl;
  image.waiter_ttl = ticket.waiter_ttl;
  image.owner = ticket.owner;
  return image;
}

template <class Image>
void LockMachine::Impl::load(Image& image) {
  const LockIndex index = table.add_lock(image.name);
  Lock& lock = table.lock(index);
  lock.kind = image.kind;
  lock.capacity = image.capacity;
  lock.last_token = image.last_token;
  if (!image.value.empty()) lock.make_extras().value = take(image.value);

  std::vector<std::pair<Token, TicketIndex>> holders;
  for (auto& ticket : image.tickets) {
    const TicketIndex added = load_ticket(index, ticket);
    table.ticket(added).owner = take(ticket.owner);
    if (!ticket.held) {
      table.wait(added);
    } else if (image.tickets.size() == 1) {
      table.hold(added);
    } else {
      holders.emplace_back(ticket.token, added);
    }
  }
  lock.next_order = image.next_order;
  // In the order of their grants, as the list of holders is.
  std::sort(holders.begin(), holders.end());
  for (const auto& [token, ticket] : holders) table.hold(ticket);
  for (const TicketImage& ticket : image.tickets) {
    if (!ticket.upgrade_of) continue;
    table.link_upgrade(table.find_ticket(index, ticket.id),
                       table.find_ticket(index, ticket.upgrade_of));
  }
  for (const TombstoneImage& tombstone : image.tombstones) {
    table.add_tombstone(index, tombstone.id, tombstone.until);
  }
  note_leftover(index);
}

TicketIndex LockMachine::Impl::load_ticket(LockIndex index, const TicketImage& image) {
  table.lock(index).next_order = image.order;
  const TicketIndex added = table.add_ticket(index, image.id, image.mode);
  Ticket& ticket = table.ticket(added);
  ticket.set_token(image.token);
  ticket.seq = image.seq;
  ticket.lease = image.lease;
  ticket.ttl = image.ttl;
  ticket.waiter_ttl = image.waiter_ttl;
  if (image.system) {
    table.mark_system(added);
  } else {
    table.set_end(added, image.lease_end);
  }
  return added;
}

}  // namespace holdfast::machine
