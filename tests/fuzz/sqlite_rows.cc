// A database whose rows somebody has written to by hand: operations say that it is corrupt, or go
// on in peace.

#include <memory>

#include "src/stores/sqlite/operations.h"
#include "tests/fuzz/target.h"
#include "tests/support/temp_folder.h"

namespace holdfast::fuzz::sqlite_rows {
namespace {

using namespace stores::sqlite;

// One database in a folder of its own, for all inputs.
class Place {
 public:
  Place() {
    tuning_.now = [] { return machine::Instant(machine::Duration(1000)); };
    tuning_.fast_path = false;
    tuning_.reach = 1;
    auto opened = Database::open(folder_.file("locks.db"), tuning_);
    demand(opened.has_value(), "there is a database");
    database_ = *std::move(opened);
    run("PRAGMA synchronous = OFF");
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Database& database() { return *database_; }
  void run(const char* sql) {
    (void)sqlite3_exec(database_->handle(), sql, nullptr, nullptr, nullptr);
  }

 private:
  stores::SqliteTuning tuning_;
  const support::TempFolder folder_{"fuzz"};
  std::unique_ptr<Database> database_;
};

// A column: what stands there when nobody meddles, a number, NULL, or a text.
void bind(sqlite3_stmt* statement, int at, Input& input) {
  const std::uint8_t first = input.rest().empty() ? 0 : static_cast<std::uint8_t>(input.rest()[0]);
  if (first == 0xf0) {
    input.byte();
    sqlite3_bind_null(statement, at);
  } else if (first == 0xf1 || first == 0xf2) {
    input.byte();
    const std::string_view text = input.text(input.byte() % 64);
    if (first == 0xf1) {
      sqlite3_bind_blob(statement, at, text.data(), static_cast<int>(text.size()),
                        SQLITE_TRANSIENT);
    } else {
      sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()),
                        SQLITE_TRANSIENT);
    }
  } else if (first == 0xf3) {  // An id.
    input.byte();
    const char id[16] = {static_cast<char>(input.byte()), 1};
    sqlite3_bind_blob(statement, at, id, sizeof id, SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_int64(statement, at, input.number());
  }
}

// `name` is the first column's value.
void insert(Database& database, const char* sql, int columns, Input& input) {
  sqlite3_stmt* statement = nullptr;
  demand(sqlite3_prepare_v2(database.handle(), sql, -1, &statement, nullptr) == SQLITE_OK,
         "the statement is one");
  sqlite3_bind_blob(statement, 1, "x", 1, SQLITE_STATIC);
  for (int at = 2; at <= columns; ++at) bind(statement, at, input);
  (void)sqlite3_step(statement);
  sqlite3_finalize(statement);
}

template <typename T>
void check(const Result<T>& result) {
  if (result) return;
  const Errc code = result.error().code();
  demand(code != Errc::kUnavailable && code != Errc::kOutcomeUnknown,
         "damage is not taken for a failure that will pass: " + result.error().message());
  demand(!result.error().message().empty(), "it is told what it is");
}

machine::AcquisitionId id_of(std::uint8_t n) {
  machine::AcquisitionId id;
  auto* bytes = reinterpret_cast<unsigned char*>(&id);
  bytes[0] = n;
  bytes[1] = 1;
  return id;
}

void operate(Operations& operations, Input& input) {
  Notices notices;
  const machine::AcquisitionId id = id_of(input.byte());
  const base::BootInstant deadline = base::BootInstant::max();
  switch (input.byte() % 8) {
    case 0: {
      port::AcquireRequest request;
      request.name = "x";
      request.id = id;
      request.ttl = request.waiter_ttl = machine::Duration(1000);
      request.mode.kind = static_cast<machine::ModeKind>(input.byte() % 3);
      request.mode.capacity = input.byte() % 8 + 1U;
      return check(operations.acquire(request, notices));
    }
    case 1:
      for (const auto& state : operations.renew(
               {{"x", id, input.byte(), machine::Duration(500), machine::Duration(500), {}}},
               notices)) {
        check(state);
      }
      return;
    case 2: return check(operations.release({"x", id, deadline}, notices));
    case 3: return check(operations.downgrade({"x", id, deadline}, notices));
    case 4:
      return check(operations.break_lock({"x", {0, input.byte()}, nullptr, deadline}, notices));
    case 5: return check(operations.resize({"x", id, deadline}, input.byte(), notices));
    case 6: return check(operations.set_value({"x", id, deadline}, "v", notices));
    default: return check(operations.get_value("x"));
  }
}

}  // namespace

void run(std::string_view bytes) {
  static Place place;
  Database& database = place.database();
  place.run("DELETE FROM locks; DELETE FROM tickets; DELETE FROM extras");
  database.set_deadline(base::BootInstant::max());
  Input input(bytes);
  insert(database, "INSERT INTO locks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 18, input);
  for (int n = input.byte() % 6; n > 0; --n) {
    insert(database, "INSERT INTO tickets VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 14, input);
  }
  if (input.byte() % 2 == 1) insert(database, "INSERT INTO extras VALUES(?,?,?,?,?)", 5, input);

  Operations operations(database, "me");
  const auto look = [&] {
    const auto info = operations.inspect("x");
    check(info);
    if (info && *info) {
      for (const HolderInfo& holder : (*info)->holders) {
        demand(holder.time_left.count() >= 0, "whose lease is over is left out");
      }
    }
    check(operations.list("", 10));
    (void)operations.look("x", id_of(1));
  };
  look();
  for (int step = 0; step < 6 && !input.empty(); ++step) operate(operations, input);
  look();
}

}  // namespace holdfast::fuzz::sqlite_rows

HOLDFAST_FUZZ_TARGET(sqlite_rows)
