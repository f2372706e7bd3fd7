// The changes that were last reported to callers, noted in FILE.use: outside of the database, which
// somebody may overwrite with an old copy of itself.
//
// A connection notes each change after its commit and before its caller is told of it. A database
// without a change that is noted here is therefore an older state, however it came to its place.
// A note has the lock's name and the instant in its row since then. These instants never go back.
// Code that deletes rows keeps the noted ones, or calls clear().
//
// Each connection has one of a few slots, by chance. Two connections that share a slot may write a
// note at the same moment. Then the later change may stay without a note until the next one.
//
// Cost: one write of the note to the page cache, 0.3 us; kill -9 does not undo it.
// Thread-safety: as pwrite(2); a note that two wrote at once, or half, is not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::stores::sqlite {

struct ReportedChange {
  std::string name;
  std::int64_t at = 0;
};

class ReportedChanges {
 public:
  explicit ReportedChanges(int use) : use_(use) {}

  // Best effort: a note that cannot be written weakens what an old copy is found out by.
  void note(std::uint64_t connection, std::string_view name, std::int64_t at) const;
  std::vector<ReportedChange> all() const;
  // Also gives the notes room on the disk. False: cannot be written.
  bool clear() const;

  // In a slot of its own: how far the clean-up has come; empty: to the end.
  std::string cleaned_to() const;
  void note_cleaned_to(std::string_view name) const;

 private:
  int use_;
};

}  // namespace holdfast::stores::sqlite
