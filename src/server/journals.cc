#include <string_view>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/server/journal.h"
#include "src/server/memory_journal.h"
#include "src/server/sqlite_journal.h"

namespace holdfast::server {

Result<void> MemoryJournal::open() {
  const auto drawn = base::random_128();
  id_ = base::to_hex(drawn.high, drawn.low);
  // A restarted server has another journal, whose terms nobody compares with these.
  term_ = "1-" + id_.substr(0, 8);
  return {};
}

Result<std::unique_ptr<Journal>> make_journal(const std::string& url) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (url == "memory:") return std::unique_ptr<Journal>(std::make_unique<MemoryJournal>());
  if (url.starts_with(kSqlite) && url.size() > kSqlite.size()) {
    std::string folder = url.substr(kSqlite.size());
    if (folder.starts_with("//")) folder.erase(0, 2);
    if (const auto mark = folder.find('?'); mark != folder.npos) {
      return Error(Errc::kInvalidArgument, "journal '" + url + "': " + folder.substr(mark) +
                                               " is not understood, because sqlite:FOLDER has no "
                                               "options; --data takes any name of a folder");
    }
    if (!folder.empty()) {
      return std::unique_ptr<Journal>(
          std::make_unique<SqliteJournal>(SqliteJournalOptions{folder}));
    }
  }
  return Error(Errc::kInvalidArgument,
               "journal '" + url + "': write sqlite:FOLDER, or memory: to keep nothing");
}

}  // namespace holdfast::server
