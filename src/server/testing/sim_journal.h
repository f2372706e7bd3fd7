// A journal whose disk outlives its server: what a simulated crash leaves behind.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/server/journal/journal.h"

namespace holdfast::server::testing {

struct SimDisk {
  std::map<std::uint64_t, std::string> batches;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::string> chunks;
  SnapshotHead head;
  std::uint64_t term = 0;
  std::uint64_t room = 40;
  std::uint64_t changes = 0;
};

class SimJournal final : public Journal {
 public:
  explicit SimJournal(SimDisk& disk) : disk_(disk) {}

  // Sets the answer of the next calls that write. Nothing is written unless it is kCommitted.
  void answer(Commit next) { next_ = next; }

  // As a journal that several servers share.
  void confirm_renewals() { confirms_ = true; }
  bool confirms_renewals() const noexcept override { return confirms_; }
  bool is_shared() const noexcept override { return confirms_; }
  // Called within each commit and confirm, on the thread that makes them.
  std::function<void()> on_write;
  // It takes no room.
  Commit confirm() override {
    if (on_write) on_write();
    ++confirmed;
    const Commit done = next_;
    return done == Commit::kLater ? Commit::kCommitted : done;
  }
  std::atomic<int> confirmed = 0;
  // No batch finds room until a trim() has dropped something.
  void fill() { full_ = true; }
  // trim() drops nothing until let_trim().
  void hold_trimming() { trims_ = false; }
  void let_trim() { trims_ = true; }

  // Commits wait until let_commit().
  void hold_commits() { holds_ = true; }
  void let_commit() {
    holds_ = false;
    holds_.notify_all();
  }

  // So much of a disk of 100 GB is in use.
  void use_percent(std::uint64_t percent) { percent_ = percent; }

  // Chunks and batches cannot be read for now.
  void fail_reads(std::optional<Error> why) { unreadable_ = std::move(why); }

  Result<void> open() override {
    term_ = ++disk_.term;
    return {};
  }
  std::string id() const override { return "sim"; }
  std::string term() const override { return std::to_string(term_); }
  Result<SnapshotHead> head() override { return disk_.head; }
  Result<std::string> chunk(const SnapshotHead& head, std::uint32_t index) override {
    if (unreadable_) return *unreadable_;
    const auto found = disk_.chunks.find({head.batch, index});
    if (found == disk_.chunks.end()) return Error(Errc::kCorruptState, "no such chunk");
    return found->second;
  }
  Result<std::uint64_t> last() override {
    const std::uint64_t newest = disk_.batches.empty() ? 0 : disk_.batches.rbegin()->first;
    return std::max(disk_.head.batch, newest);
  }
  Result<std::string> batch(std::uint64_t number) override {
    if (unreadable_) return *unreadable_;
    const auto found = disk_.batches.find(number);
    if (found == disk_.batches.end()) return Error(Errc::kCorruptState, "no such batch");
    return found->second;
  }
  Commit commit(std::uint64_t number, std::string_view bytes) override {
    holds_.wait(true);
    if (full_ || number - disk_.head.batch > disk_.room) return Commit::kLater;
    if (on_write) on_write();
    return write([&] {
      disk_.batches[number] = bytes;
      // The ring: what stood in this row before is gone.
      if (number > disk_.room) disk_.batches.erase(number - disk_.room);
    });
  }
  std::uint64_t room() const override { return disk_.room; }
  DiskSpace space() const override {
    constexpr std::uint64_t kPercent = 1'000'000'000;
    return {.journal = 0, .free = (100 - percent_) * kPercent, .size = 100 * kPercent};
  }
  Commit put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) override {
    return write([&] { disk_.chunks[{batch, index}] = bytes; });
  }
  Commit put_head(const SnapshotHead& head) override {
    return write([&] { disk_.head = head; });
  }
  Result<bool> trim() override {
    if (!trims_) return Error(Errc::kUnavailable, "not yet");
    const auto old = std::find_if(disk_.chunks.begin(), disk_.chunks.end(), [&](const auto& each) {
      return each.first.first != disk_.head.batch;
    });
    if (old == disk_.chunks.end()) return false;
    const auto place = old->first;
    if (write([&] { disk_.chunks.erase(place); }) != Commit::kCommitted) {
      return Error(Errc::kUnavailable, "not now");
    }
    full_ = false;
    return true;
  }
  std::string reason() const override { return "the simulation says so"; }
  std::string place() const override { return "sim"; }

 private:
  template <typename Change>
  Commit write(const Change& change) {
    if (term_ != disk_.term) return Commit::kRefused;
    const Commit done = next_;
    if (done == Commit::kCommitted) {
      change();
      ++disk_.changes;
    }
    return done;
  }

  SimDisk& disk_;
  std::uint64_t term_ = 0;
  // Set on another thread.
  std::atomic<Commit> next_ = Commit::kCommitted;
  std::atomic<bool> holds_ = false;
  std::atomic<bool> full_ = false;
  std::atomic<bool> trims_ = true;
  std::atomic<std::uint64_t> percent_ = 0;
  std::optional<Error> unreadable_;
  bool confirms_ = false;
};

}  // namespace holdfast::server::testing
