// A dialect is what one kind of SQL server does its own way: the texts of its statements, the
// meaning of its errors, and what is looked at when a store is opened and examined. Everything else
// about a store on such a server is in this folder.
//
// All of the statements work on the tables of docs/design/0032-sql-stores.md. Each is one
// transaction, keeps no row locked after its answer, and reads the server's clock in microseconds
// where no instant is given.
//
// Thread-safety: `write` on the engine's thread; everything else from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/port/examination.h"
#include "src/port/store.h"
#include "src/sql/link.h"
#include "src/sql/values.h"
#include "src/sql/writes.h"

namespace holdfast::sql {

// A grant or a release of a lock that nobody else uses.
struct FastCommand {
  bool grants = false;  // A release otherwise.
  std::string name;
  machine::AcquisitionId id{};
  // A performance hint: the lock's row was there before. A grant then only updates it, and where
  // there is no row it is left to the machine.
  bool has_row = false;
  // A grant has the columns of the new holder, too.
  std::int64_t mode = 0;
  std::int64_t permits = 0;
  std::int64_t kind = 0;
  std::int64_t capacity = 0;
  std::int64_t ttl = 0;
  std::int64_t waiter_ttl = 0;
  std::string owner{};
};

// An instant in microseconds instead of the server's clock.
using Now = std::optional<std::int64_t>;

enum class Failure : std::uint8_t {
  kOther,
  kChangedNothing,  // Worth another try: a deadlock, a lock timeout, a serialization failure.
  kPermission,
  kNoTables,
  kForeignTables,  // Not of this store, or of another version of it.
  kSettings,       // The URL or the environment names something that is not there.
  kReadOnly
};

// The error of a failure that has nothing to do with the store's own tables.
inline Errc code_of(Failure failure) {
  if (failure == Failure::kPermission) return Errc::kPermissionDenied;
  return failure == Failure::kSettings ? Errc::kInvalidArgument : Errc::kUnavailable;
}

class Dialect {
 public:
  // One question while a store is opened. Errors: as of a Question, but never kOutcomeUnknown.
  using Ask = std::function<Result<RowsPtr>(Request request)>;

  virtual ~Dialect() = default;

  // "postgres": as messages and the name of its page have it.
  virtual std::string_view store() const = 0;
  // The server, as messages name it; no password is in it.
  virtual const std::string& address() const = 0;
  // Two clients with one address and one place have the same locks.
  virtual const std::string& place() const = 0;

  // A row with the token, where the lock was free, or the release of the only holder was carried
  // out; no row: it is left to the machine.
  virtual Request fast(const FastCommand& command, Now now) const = 0;
  // The same for many locks, none of them twice, by name. Name and token of each carried out.
  virtual Request fast_many(const std::vector<const FastCommand*>& commands, Now now) const = 0;
  // The release of a lock that others may wait for, with the grant to the next of them. `own`: the
  // channel of this client. One row where all of it is exclusive, with the columns below; no row:
  // it is left to the machine. nullopt: this server has no such statement.
  enum HandedOn : int {
    kLeft,  // Tickets that have rows of their own: 0: nobody waits any more.
    kNext,  // The new holder's id, NULL where nobody waited; what follows is about it.
    kNextToken,
    kNextSeq,
    kNextLease,
    kNextWake  // Where its client listens.
  };
  virtual std::optional<Request> hand_on(const FastCommand& /*release*/,
                                         const std::string& /*own*/, Now /*now*/) const {
    return std::nullopt;
  }
  // A row per ticket that was extended: its place (from 1), flags, token, waiters ahead, time to
  // the next expiry. An item without an id is left out.
  virtual Request renew(const std::vector<port::RenewItem>& items, Now now) const = 0;

  // Holders of these locks, at least of these ids: id, token, seq, lease. Also the first waiters of
  // each, where there are few: id, no token, and how many are ahead.
  using Waiter = std::pair<machine::AcquisitionId, std::string>;  // With the name of its lock.
  virtual Request look(const std::vector<Waiter>& waiters) const = 0;
  // One row per lock and ticket, ordered by both, with the columns of read_lock.h.
  virtual Request read(const std::vector<std::string>& names, Now now) const = 0;
  // The same of the locks that somebody uses; `below`: no such name is listed, nor one after it.
  virtual Request list(const std::string& from, const std::optional<std::string>& below,
                       std::size_t limit, Now now) const = 0;
  virtual Request value(const std::string& name) const = 0;
  // One row: the number of locks that were written, all or none. Where they are apart: a row with
  // the name of each that was written.
  virtual Request write(const Writes& writes) = 0;
  // How many steps may be written at once, apart.
  virtual std::size_t most_apart() const { return 1; }

  // kRefused and kNotSent.
  virtual Failure failure_of(const Answer& answer) const = 0;

  // The tables: src/sql/schema.h makes them.
  // "the schema holdfast": what they are found by.
  virtual std::string tables() const = 0;
  virtual int format() const = 0;
  struct FoundTables {
    std::optional<std::int64_t> format{};  // nullopt: it is told nowhere.
    bool complete = false;               // Every table is there.
  };
  // Errors: kUnavailable (the server only reads), kPermissionDenied.
  virtual Result<FoundTables> find_tables(const Ask& ask) const = 0;
  // Makes what is not there, as one request; and the same for the server's own client.
  virtual Request creation() const = 0;
  virtual std::string script() const = 0;

  // Records: the key `key` of the table `records`. One row: 0 where this server takes writes, the
  // version (NULL: there is none), the text.
  virtual Request read_record(const std::string& key) const = 0;
  // A row where it was carried out, in a synced transaction.
  virtual Request create_record(const std::string& key, const std::string& text) const = 0;
  virtual Request replace_record(const std::string& key, std::int64_t version,
                                 const std::string& text) const = 0;
  // The server's wall clock, in milliseconds since 1970.
  virtual Request wall_time() const = 0;
  // A question, and why by its answer an answered change may be lost; empty: it is not.
  virtual Request durability() const = 0;
  virtual std::string forgets(const Rows& rows) const = 0;

  virtual Guarantees guarantees() const = 0;
  // A question for `holdfast doctor`, and what its rows mean.
  virtual Request examination() const = 0;
  virtual port::Findings judge(const Rows& rows, bool listening) const = 0;
};

// The error of an answer that is not kDone.
Error error_of(const Dialect& dialect, const Answer& answer);

}  // namespace holdfast::sql
