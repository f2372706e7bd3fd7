// The store's operations on one connection: the uncontended statement first, the lock machine in a
// transaction for everything else.
//
// Guarantee: the statements give what the machine would (tests/differential). An error means that
// nothing was applied, except kOutcomeUnknown. A grant is reported only while the file is still the
// one at its path.
// Thread-safety: none; one thread at a time per object.
// Time: as Database; callers set its deadline first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/machine/command.h"
#include "src/machine/image.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/sqlite/database.h"
#include "src/stores/sqlite/lock_rows.h"

namespace holdfast::stores::sqlite {

using rows::Notice;
using Notices = std::vector<Notice>;

// The error of a renewal whose file has gone.
Result<port::AcquisitionState> lost_with_file(const port::RenewItem& item, const std::string& path);

class Operations {
 public:
  // `wake`: where this store listens; written beside the tickets it makes.
  Operations(Database& database, std::string wake)
      : database_(database),
        wake_(std::move(wake)),
        fast_path_(database.tuning().fast_path),
        reach_(database.tuning().reach) {}

  Database& database() { return database_; }

  // `notices` gets what is to be told once these return.
  Result<port::AcquisitionState> acquire(const port::AcquireRequest& request, Notices& notices);
  // In one transaction, which is rolled back unless all of them hold. `ended`: what cannot be had.
  Result<port::Store::Grants> acquire_all(const std::vector<port::AcquireRequest>& requests,
                                          const rows::EndedIds& ended, Notices& notices);
  Result<std::vector<Result<port::EndStatus>>> release_all(
      const std::vector<port::AcquisitionRequest>& requests, Notices& notices);
  Result<port::EndStatus> release(const port::AcquisitionRequest& request, Notices& notices);
  Result<port::EndStatus> cancel(const port::AcquisitionRequest& request, Notices& notices);
  Result<port::AcquisitionState> downgrade(const port::AcquisitionRequest& request,
                                           Notices& notices);
  Result<bool> break_lock(const port::BreakRequest& request, Notices& notices);
  Result<bool> set_value(const port::AcquisitionRequest& request, std::string value,
                         Notices& notices);
  Result<bool> keep(const port::KeepRequest& request, Notices& notices);
  Result<bool> resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
                      Notices& notices);
  // In transactions of at most 128, so that other processes get in between.
  std::vector<Result<port::AcquisitionState>> renew(const std::vector<port::RenewItem>& items,
                                                    Notices& notices);

  Result<std::optional<LockInfo>> inspect(const std::string& name);
  Result<std::vector<LockInfo>> list(const std::string& prefix, std::size_t limit);
  Result<std::string> get_value(const std::string& name);
  // One step: forgets those of the next 64 locks that nobody has used for SqliteTuning::idle_kept,
  // with what stands beside them. Their tokens go on: the floor is raised to them. False: these
  // were the last of the locks, and the next step begins with the first.
  Result<bool> clean_up();
  // Reads a ticket's state and changes nothing. It serves a hint that has arrived.
  std::optional<port::AcquisitionState> look(std::string_view name, machine::AcquisitionId id);

 private:
  struct Applied {
    machine::Reply reply;
    std::optional<machine::LockImage> after;
    machine::Instant at;
  };

  // A step of the machine that has not been saved.
  struct Step {
    StoredLock before;
    machine::Effects effects;
    Applied applied;
    std::int64_t due = 0;
  };

  // Runs the machine on one lock, of whose queue so many are loaded; inside a transaction.
  Result<Step> run(std::string_view name, machine::Action action, std::size_t reach);
  Result<void> save(const Step& step);
  Result<void> count_ahead(std::string_view name, machine::AcquisitionId id, Step& step);
  Result<Applied> apply(std::string_view name, const machine::Action& action, Notices& notices);
  Result<Applied> apply_alone(std::string_view name, const machine::Action& action,
                              Notices& notices);

  Result<port::AcquisitionState> acquire_inside(const port::AcquireRequest& request,
                                                Notices& notices);
  Result<port::EndStatus> release_inside(const port::AcquisitionRequest& request, Notices& notices);

  // nullopt: not a case for it. `alone`: not inside a transaction.
  std::optional<Result<port::AcquisitionState>> fast_acquire(const port::AcquireRequest& request,
                                                             bool alone = true);
  std::optional<Result<port::EndStatus>> fast_release(const port::AcquisitionRequest& request,
                                                      bool alone = true);
  std::optional<Result<port::AcquisitionState>> fast_renew(const port::RenewItem& item);
  std::optional<Result<port::AcquisitionState>> beat(const port::RenewItem& item);
  Result<std::uint32_t> ahead_of(std::string_view name, std::int64_t order);
  Result<port::AcquisitionState> waiting_state(const port::RenewItem& item, std::int64_t order,
                                               std::int64_t now);
  Result<port::AcquisitionState> renew_one(const port::RenewItem& item, Notices& notices);
  Result<port::AcquisitionState> still_here(const port::AcquireRequest& request,
                                            Result<port::AcquisitionState> result);
  machine::OwnerPtr with_wake(const machine::OwnerPtr& owner) const;
  Result<LockInfo> describe(const StoredLock& lock, std::int64_t now);

  Database& database_;
  const std::string wake_;
  const bool fast_path_;
  const std::size_t reach_;
  std::string owner_bytes_;  // Keeps its memory from one acquisition to the next.
};

}  // namespace holdfast::stores::sqlite
