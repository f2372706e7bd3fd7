// Forgets locks that nobody uses any more, a few at a time.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/stores/sqlite/operations.h"

namespace holdfast::stores::sqlite {
namespace {

constexpr std::size_t kStep = 64;  // As in kIdleLocks.

// Returns the idle locks among the next rows after `last`, and moves `last` to the end of these
// rows. `last` is empty when there are no more.
Result<std::vector<std::string>> idle_locks(Database& database, std::string& last,
                                            std::int64_t boot, std::int64_t wall) {
  std::vector<std::string> idle;
  std::string seen;
  std::size_t rows = 0;
  Statement& next = database.get(Sql::kIdleLocks);
  const ResetAtEnd reset(next);
  next.bind(1, std::string_view(last)).bind(2, boot).bind(3, wall);
  int code = next.step();
  for (; code == SQLITE_ROW; code = next.step(), ++rows) {
    seen = next.blob(0);
    if (next.integer(1) != 0) idle.push_back(seen);
  }
  if (code != SQLITE_DONE) return database.error(code);
  last = rows == kStep ? seen : std::string();
  return idle;
}

}  // namespace

Result<bool> Operations::clean_up() {
  const ReportedChanges notes = database_.file()->reported();
  const std::int64_t kept = database_.tuning().idle_kept.count();
  const std::int64_t boot = database_.now() - kept;
  std::string last = notes.cleaned_to();
  auto idle = idle_locks(database_, last, boot, Database::wall_now() - kept);
  if (!idle) return idle.error();
  // Locks with a noted change are kept: their rows show that the database is in its latest state.
  std::set<std::string> noted;
  for (ReportedChange& change : notes.all()) noted.insert(std::move(change.name));
  std::erase_if(*idle, [&](const std::string& name) { return noted.contains(name); });
  notes.note_cleaned_to(last);
  if (idle->empty()) return !last.empty();
  const auto done = database_.transaction([&]() -> Result<void> {
    const auto tokens = database_.load_tokens();
    if (!tokens) return tokens.error();
    std::int64_t floor = tokens->floor;
    for (const std::string& name : *idle) {
      const std::string_view key = name;
      int code = database_.get(Sql::kForgetLock).bind(1, key).bind(2, boot).run();
      if (code != SQLITE_OK) return database_.error(code);
      if (database_.changes() == 0) continue;  // Used just now.
      // The lock's own counter goes with its row, so the floor keeps its tokens growing.
      floor = std::max(floor, database_.told());
      code = database_.get(Sql::kForgetExtras).bind(1, key).run();
      if (code != SQLITE_OK) return database_.error(code);
    }
    const int code = database_.get(Sql::kRaiseTokens).bind(1, tokens->ceiling).bind(2, floor).run();
    if (code != SQLITE_OK) return database_.error(code);
    return {};
  });
  if (!done) return done.error();
  return !last.empty();
}

}  // namespace holdfast::stores::sqlite
