// An image of the lock machine that somebody made up: either refused, or good enough to go on with.

#include "src/machine/lock_machine.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::machine_image {
namespace {

using namespace machine;

AcquisitionId id_from(Input& input) { return {0, input.number<std::uint64_t>()}; }

TicketImage ticket_from(Input& input, std::uint32_t capacity) {
  TicketImage ticket;
  ticket.id = id_from(input);
  ticket.order = input.number<std::uint64_t>();
  ticket.mode = {static_cast<ModeKind>(input.byte() % 4), input.number<std::uint32_t>(),
                 input.byte() % 8 == 7 ? input.number<std::uint32_t>() : capacity};
  const std::uint8_t flags = input.byte();
  ticket.held = (flags & 1U) != 0;
  ticket.system = (flags & 2U) != 0;
  if ((flags & 4U) != 0) ticket.upgrade_of = id_from(input);
  ticket.token = {static_cast<std::uint32_t>(flags >> 6U), input.number<std::uint64_t>()};
  ticket.lease_end = Instant(Duration(input.number()));
  ticket.seq = input.number<std::uint64_t>();
  ticket.lease = Duration(input.number());
  ticket.ttl = Duration(input.number());
  ticket.waiter_ttl = Duration(input.number());
  return ticket;
}

LockImage lock_from(Input& input) {
  LockImage lock;
  lock.name = std::string(input.text(input.byte() % 8));
  lock.kind = static_cast<ModeKind>(input.byte() % 4);
  lock.capacity = input.number<std::uint32_t>();
  lock.last_token = {0, input.number<std::uint64_t>()};
  lock.next_order = input.number<std::uint64_t>();
  lock.value = std::string(input.text(input.byte() % 4));
  for (int n = input.byte() % 8; n > 0; --n)
    lock.tickets.push_back(ticket_from(input, lock.capacity));
  for (int n = input.byte() % 4; n > 0; --n) {
    const AcquisitionId id = id_from(input);
    lock.tombstones.push_back({id, Instant(Duration(input.number()))});
  }
  return lock;
}

Action action_from(Input& input, std::string_view name) {
  const AcquisitionId id = id_from(input);
  const Duration length(input.number());
  switch (input.byte() % 9) {
    case 0: {
      Acquire acquire{name, id};
      acquire.mode = {static_cast<ModeKind>(input.byte() % 4), input.number<std::uint32_t>(),
                      input.number<std::uint32_t>()};
      acquire.ttl = length;
      acquire.waiter_ttl = Duration(input.number());
      acquire.may_wait = input.byte() % 2 == 0;
      return acquire;
    }
    case 1: return Renew{name, id, input.number<std::uint64_t>(), length, length};
    case 2: return Release{name, id, length};
    case 3: return Cancel{name, id, length};
    case 4: return Downgrade{name, id, length};
    case 5: return Break{name, {0, input.number<std::uint64_t>()}, length, nullptr};
    case 6: return Resize{name, id, input.number<std::uint32_t>()};
    case 7: return SetValue{name, id, "v"};
    default: return Tick{};
  }
}

}  // namespace

void run(std::string_view bytes) {
  Input input(bytes);
  MachineImage image;
  image.format = input.byte() == 9 ? 2 : 1;
  image.now = Instant(Duration(input.number()));
  image.floor = {0, input.number<std::uint64_t>()};
  for (int n = input.byte() % 4; n > 0; --n) image.locks.push_back(lock_from(input));
  Limits limits;
  limits.expiry_tombstone = Duration(input.byte());
  auto machine = LockMachine::restore(image, limits);
  if (!machine) return;
  machine->check_invariants();
  const MachineImage seen = machine->snapshot();
  auto twin = LockMachine::restore(seen, limits);
  demand(twin.has_value(), "what a machine gives it takes back");
  demand(twin->snapshot() == seen, "and is the same again");

  const std::string name = image.locks.empty() ? "x" : image.locks.front().name;
  for (int step = 0; step < 8 && !input.empty(); ++step) {
    const Instant at(Duration(input.number()));
    const Action action = action_from(input, name);
    Effects effects;
    Effects of_twin;
    const Reply reply = machine->apply({at, action}, effects);
    demand(twin->apply({at, action}, of_twin) == reply, "equal machines answer alike");
    machine->check_invariants();
    demand(machine->snapshot() == twin->snapshot(), "and stay equal");
  }
}

}  // namespace holdfast::fuzz::machine_image

HOLDFAST_FUZZ_TARGET(machine_image)
