#include "src/stores/sqlite/reported_changes.h"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/fnv.h"

namespace holdfast::stores::sqlite {
namespace {

constexpr off_t kFirstAt = 4096;
constexpr std::size_t kSlots = 16;

struct Slot {
  std::uint64_t sum = 0;  // The checksum of the rest.
  std::int64_t at = 0;
  std::uint64_t size = 0;
  char name[1000] = {};
};
static_assert(sizeof(Slot) == 1024);
constexpr std::size_t kHead = offsetof(Slot, name);

off_t place_of(std::size_t slot) { return kFirstAt + static_cast<off_t>(slot * sizeof(Slot)); }

// Never that of zeros.
std::uint64_t sum_of(const Slot& slot) {
  const auto bytes_of = [](const auto& number) {
    return std::string_view(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const std::uint64_t head = base::fnv1a(bytes_of(slot.size), base::fnv1a(bytes_of(slot.at)));
  return base::fnv1a(std::string_view(slot.name, slot.size), head);
}

void write_slot(int use, std::size_t place, std::string_view name, std::int64_t at) {
  Slot slot;
  if (name.size() > sizeof slot.name) return;
  slot.at = at;
  slot.size = name.size();
  std::memcpy(slot.name, name.data(), name.size());
  slot.sum = sum_of(slot);
  [[maybe_unused]] const ssize_t ignored =
      ::pwrite(use, &slot, kHead + name.size(), place_of(place));
}

std::optional<ReportedChange> read_slot(int use, std::size_t place) {
  Slot slot;
  const ssize_t size = ::pread(use, &slot, sizeof slot, place_of(place));
  if (size < static_cast<ssize_t>(kHead) || slot.size > sizeof slot.name) return std::nullopt;
  if (slot.sum != sum_of(slot)) return std::nullopt;
  return ReportedChange{std::string(slot.name, slot.size), slot.at};
}

}  // namespace

void ReportedChanges::note(std::uint64_t connection, std::string_view name, std::int64_t at) const {
  write_slot(use_, connection % kSlots, name, at);
}

std::vector<ReportedChange> ReportedChanges::all() const {
  std::vector<ReportedChange> found;
  for (std::size_t at = 0; at < kSlots; ++at) {
    if (auto change = read_slot(use_, at)) found.push_back(*std::move(change));
  }
  return found;
}

bool ReportedChanges::clear() const {
  const std::string nothing(kSlots * sizeof(Slot), '\0');
  return ::pwrite(use_, nothing.data(), nothing.size(), kFirstAt) ==
         static_cast<ssize_t>(nothing.size());
}

std::string ReportedChanges::cleaned_to() const {
  auto note = read_slot(use_, kSlots);
  return note ? std::move(note->name) : std::string();
}

void ReportedChanges::note_cleaned_to(std::string_view name) const {
  write_slot(use_, kSlots, name, 0);
}

}  // namespace holdfast::stores::sqlite
