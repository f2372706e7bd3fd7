// A journal that keeps nothing: every commit is done at once, and a restart begins empty. It is for
// tests, and for users who want no more than Redis gives without persistence.
//
// Thread-safety: as Journal's.
#pragma once

#include <string>

#include "src/server/journal/journal.h"

namespace holdfast::server {

class MemoryJournal final : public Journal {
 public:
  Result<void> open() override;
  std::string id() const override { return id_; }
  std::string term() const override { return term_; }
  Result<SnapshotHead> head() override { return SnapshotHead{}; }
  Result<std::string> chunk(const SnapshotHead&, std::uint32_t) override { return std::string(); }
  Result<std::uint64_t> last() override { return std::uint64_t{0}; }
  Result<std::string> batch(std::uint64_t) override { return std::string(); }
  Commit commit(std::uint64_t, std::string_view) override { return Commit::kCommitted; }
  std::uint64_t room() const override { return 0; }
  Commit put_chunk(std::uint64_t, std::uint32_t, std::string_view) override {
    return Commit::kCommitted;
  }
  Commit put_head(const SnapshotHead&) override { return Commit::kCommitted; }
  Result<bool> trim() override { return false; }
  std::string reason() const override { return {}; }
  std::string place() const override { return "memory:"; }

 private:
  std::string id_;
  std::string term_;
};

}  // namespace holdfast::server
