// Locks that live as long as a connection, or a transaction on it: the server ends a session that
// has been silent for the length of a lease, and its locks with it.
//
// Guarantee: a statement for a lock goes over the connection that the lock was asked for on, or not
// at all. An overdue answer closes the connection. Where that holds a lock, this comes after the
// length of a lease only: its holder does not believe any more then.
// Not guaranteed: that a lock is kept when its connection ends sooner (a terminated backend, a
// restart, a reset): it is free at once, and Lost is told when that arrives here.
//
// Thread-safety: as Backend. Ownership: the loop outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/port/examination.h"
#include "src/port/store.h"
#include "src/recipes/backend.h"
#include "src/sql/link.h"

namespace holdfast::recipes {

// The differences between the forms.
struct HeldTerms {
  struct Line {
    sql::Link::Settings link;
    // Looks at the answer to `open`, on the link's thread. Errors: the connection does not serve.
    std::function<Result<void>(const sql::Rows& rows)> check;
  };

  Guarantees guarantees;
  std::string place;  // The store and the server, for messages.
  std::function<Result<std::string>(const std::string& name)> key_of;
  std::function<Line()> make_line;
  std::chrono::milliseconds patience{3000};  // For an answer, where the connection holds nothing.
  // A lock has a connection to itself, and a transaction there; of so many.
  bool own_transaction = false;
  std::size_t connections = 1;

  sql::Request open;  // First on each connection.
  // own_transaction: ahead of `take`.
  std::function<sql::Request(const std::string& key)> begin;
  // Answers with 1 (held) or 0, the clock in microseconds, and the key as the server has it.
  std::function<sql::Request(const std::string& key)> take;
  std::function<sql::Request(const std::string& key)> give_back;
  sql::Request confirm;
  std::function<sql::Request(const std::string& key)> inspect;
  std::function<std::optional<LockInfo>(const std::string& name, const sql::Rows& rows)> describe;
  sql::Request examination;
  std::function<port::Findings(const sql::Rows& rows)> judge;

  std::function<bool(const sql::Answer&)> is_busy;  // A refusal that says: somebody has it.
  // Any other refusal, or why there is no connection.
  std::function<Errc(const sql::Answer&)> code_of;
};

std::shared_ptr<Backend> make_held_backend(HeldTerms terms, port::Loop& loop);

}  // namespace holdfast::recipes
