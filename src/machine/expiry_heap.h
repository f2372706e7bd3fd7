// Finds the slot that ends first: a heap ordered by (instant, tie, and the owner's comparison),
// with four children per node. The place of each slot is kept aside, so a slot is moved or taken
// out in O(log n). Ties are broken by state alone, so that a restored machine expires in the same
// order. A slot takes 20 bytes, and the room to grow is an eighth of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/machine/slab.h"
#include "src/machine/types.h"

namespace holdfast::machine {

class ExpiryHeap {
 public:
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::uint32_t top() const { return entries_.front().index; }
  Instant top_end() const { return entries_.front().end; }
  bool contains(std::uint32_t index) const {
    return index < places_.size() && places_[index] != kNone;
  }
  Instant end_of(std::uint32_t index) const { return entries_[places_[index]].end; }

  void reserve(std::size_t slots) {
    entries_.reserve(slots);
    places_.reserve(slots);
  }

  // Adds the slot or moves it. `tie` orders equal ends; `less(a, b)` orders slots equal in both.
  // A tie that nearly always decides saves a look at the slots themselves.
  template <class Less>
  void put(std::uint32_t index, Instant end, std::uint32_t tie, Less less) {
    if (index >= places_.size()) {
      make_room(places_, index + 1);
      places_.resize(index + 1, kNone);
    }
    if (places_[index] == kNone) {
      places_[index] = static_cast<std::uint32_t>(entries_.size());
      make_room(entries_, entries_.size() + 1);
      entries_.push_back({end, tie, index});
    } else {
      entries_[places_[index]].end = end;
    }
    settle(places_[index], less);
  }

  template <class Less>
  void remove(std::uint32_t index, Less less) {
    const std::uint32_t place = std::exchange(places_[index], kNone);
    const Entry last = entries_.back();
    entries_.pop_back();
    if (last.index == index) return;
    set(place, last);
    settle(place, less);
  }

 private:
  struct Entry {
    Instant end;
    std::uint32_t tie;
    std::uint32_t index;
  };

  template <class Less>
  static bool before(const Entry& a, const Entry& b, Less less) {
    if (a.end != b.end) return a.end < b.end;
    if (a.tie != b.tie) return a.tie < b.tie;
    return less(a.index, b.index);
  }

  // A vector that doubles leaves up to half of its memory unused.
  template <class Items>
  static void make_room(Items& items, std::size_t size) {
    if (size > items.capacity()) items.reserve(size + size / 8 + 3);
  }

  void set(std::uint32_t place, const Entry& entry) {
    entries_[place] = entry;
    places_[entry.index] = place;
  }

  // Moves the entry up or down to where it belongs.
  template <class Less>
  void settle(std::uint32_t place, Less less) {
    const Entry entry = entries_[place];
    while (place > 0) {
      const std::uint32_t parent = (place - 1) / kArity;
      if (!before(entry, entries_[parent], less)) break;
      set(place, entries_[parent]);
      place = parent;
    }
    const auto count = static_cast<std::uint32_t>(entries_.size());
    for (;;) {
      const std::uint32_t first = place * kArity + 1;
      if (first >= count) break;
      std::uint32_t least = first;
      for (std::uint32_t child = first + 1; child < first + kArity && child < count; ++child) {
        if (before(entries_[child], entries_[least], less)) least = child;
      }
      if (!before(entries_[least], entry, less)) break;
      set(place, entries_[least]);
      place = least;
    }
    set(place, entry);
  }

  static constexpr std::uint32_t kArity = 4;

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;  // By slot; kNone: not in the heap.
};

}  // namespace holdfast::machine
