// Shared objects in the order of the instants at which they are due: a heap whose objects know
// their places, so that each is moved or taken out in O(log n).
//
// A program may hold 100,000 locks, and each is due at some time. An entry takes 24 bytes here, and
// 64 in a map.
//
// Not guaranteed: an order among those that are due at the same instant.
//
// Thread-safety: one thread at a time. Ownership: holds the objects that are in it. An object is in
// one heap at a time, and its `due_place` is the heap's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "src/base/clock.h"

namespace holdfast::base {

// The place of an object that is in no heap.
inline constexpr std::uint32_t kNotDue = std::numeric_limits<std::uint32_t>::max();

// `T` has a member `std::uint32_t due_place = kNotDue`.
template <typename T>
class DueHeap {
 public:
  struct Entry {
    BootInstant at;
    std::shared_ptr<T> what;
  };

  bool empty() const { return entries_.empty(); }
  const Entry& first() const { return entries_.front(); }
  // In no order.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  static bool contains(const T& what) { return what.due_place != kNotDue; }
  BootInstant at(const T& what) const { return entries_[what.due_place].at; }

  // Adds the object or moves it.
  void put(const std::shared_ptr<T>& what, BootInstant at) {
    if (contains(*what)) {
      entries_[what->due_place].at = at;
    } else {
      what->due_place = static_cast<std::uint32_t>(entries_.size());
      entries_.push_back({at, what});
    }
    settle(what->due_place);
  }

  // Takes the object out if it is in. Returns it, because nobody else may hold it.
  std::shared_ptr<T> remove(T& what) {
    if (!contains(what)) return nullptr;
    const std::uint32_t place = std::exchange(what.due_place, kNotDue);
    std::shared_ptr<T> removed = std::move(entries_[place].what);
    Entry last = std::move(entries_.back());
    entries_.pop_back();
    if (place < entries_.size()) {
      set(place, std::move(last));
      settle(place);
    }
    return removed;
  }

  void clear() {
    for (Entry& entry : entries_) entry.what->due_place = kNotDue;
    entries_.clear();
  }

  // Calls `visit` with entries, of which each comes after one that is due before it. If `visit`
  // returns false, those after it are left out. It must not change the heap.
  template <typename Visit>
  void walk(Visit visit, std::size_t from = 0) const {
    if (from >= entries_.size() || !visit(entries_[from])) return;
    walk(visit, 2 * from + 1);
    walk(visit, 2 * from + 2);
  }

 private:
  void set(std::size_t place, Entry entry) {
    entry.what->due_place = static_cast<std::uint32_t>(place);
    entries_[place] = std::move(entry);
  }

  // Moves the entry up or down to where it belongs.
  void settle(std::size_t place) {
    Entry entry = std::move(entries_[place]);
    while (place > 0 && entry.at < entries_[(place - 1) / 2].at) {
      set(place, std::move(entries_[(place - 1) / 2]));
      place = (place - 1) / 2;
    }
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= entries_.size()) break;
      if (child + 1 < entries_.size() && entries_[child + 1].at < entries_[child].at) ++child;
      if (!(entries_[child].at < entry.at)) break;
      set(place, std::move(entries_[child]));
      place = child;
    }
    set(place, std::move(entry));
  }

  std::deque<Entry> entries_;  // Grows without holding everything twice.
};

}  // namespace holdfast::base
