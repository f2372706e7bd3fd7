#include "lab/exhibits/sql_guard.h"

namespace holdfast::lab {

SqlGuard::SqlGuard(const std::string& path) : database_(path) {
  database_.change("CREATE TABLE IF NOT EXISTS page (id INTEGER PRIMARY KEY, token TEXT, writes)");
  database_.change("INSERT OR IGNORE INTO page VALUES (1, '', 0)");
}

WriteAnswer SqlGuard::write(Token token) {
  WriteAnswer answer;
  const std::string before = database_.ask("SELECT token FROM page").value_or("");
  answer.seen = Token::parse(before).value_or(Token{});
  const auto writes = database_.ask(
      "UPDATE page SET token = ?1, writes = writes + 1 WHERE token <= ?1 RETURNING writes",
      {token.to_string()});
  answer.accepted = writes.has_value();
  if (writes) answer.sequence = std::stoull(*writes);
  return answer;
}

}  // namespace holdfast::lab
