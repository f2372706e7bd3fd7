#include "src/stores/sqlite/reported_changes.h"

#include <unistd.h>

#include <cstring>

namespace holdfast::stores::sqlite {
namespace {

constexpr off_t kFirstAt = 4096;
constexpr std::size_t kSlots = 16;

struct Slot {
  std::uint64_t sum = 0;  // Of what follows.
  std::int64_t at = 0;
  std::uint64_t size = 0;
  char name[1000] = {};
};
static_assert(sizeof(Slot) == 1024);
constexpr std::size_t kHead = offsetof(Slot, name);

off_t place_of(std::size_t slot) { return kFirstAt + static_cast<off_t>(slot * sizeof(Slot)); }

// FNV-1a; never that of zeros.
std::uint64_t sum_of(const Slot& slot) {
  std::uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&sum](const void* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      sum = (sum ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
    }
  };
  add(&slot.at, sizeof slot.at);
  add(&slot.size, sizeof slot.size);
  add(slot.name, slot.size);
  return sum;
}

}  // namespace

void ReportedChanges::note(std::uint64_t connection, std::string_view name, std::int64_t at) const {
  Slot slot;
  if (name.size() > sizeof slot.name) return;
  slot.at = at;
  slot.size = name.size();
  std::memcpy(slot.name, name.data(), name.size());
  slot.sum = sum_of(slot);
  [[maybe_unused]] const ssize_t ignored =
      ::pwrite(use_, &slot, kHead + name.size(), place_of(connection % kSlots));
}

std::vector<ReportedChange> ReportedChanges::all() const {
  std::vector<ReportedChange> found;
  for (std::size_t at = 0; at < kSlots; ++at) {
    Slot slot;
    const ssize_t size = ::pread(use_, &slot, sizeof slot, place_of(at));
    if (size < static_cast<ssize_t>(kHead) || slot.size > sizeof slot.name) continue;
    if (slot.sum == sum_of(slot)) found.push_back({std::string(slot.name, slot.size), slot.at});
  }
  return found;
}

bool ReportedChanges::clear() const {
  const std::string nothing(kSlots * sizeof(Slot), '\0');
  return ::pwrite(use_, nothing.data(), nothing.size(), kFirstAt) ==
         static_cast<ssize_t>(nothing.size());
}

}  // namespace holdfast::stores::sqlite
