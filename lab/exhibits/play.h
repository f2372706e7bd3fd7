// One performance of an exhibit: its players, what they stand on, and the history that remains.
//
// Guarantee: a performance begins with empty stores. In a performance of Holdfast (beside the
// mistake) every player has Holdfast's lock, whatever its role asks for.
//
// Thread-safety: one thread at a time. Ownership: all processes, servers and files go with the
// objects. Errors: std::runtime_error.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_folder.h"

#include "lab/exhibits/player.h"
#include "lab/history/history.h"

namespace holdfast::lab {

// Servers that the exhibits share: they cost more time than the plays.
class House {
 public:
  static constexpr std::size_t kNodes = 3;

  support::RedisServer& redis() { return node(0); }
  support::RedisServer& node(std::size_t number);
  // Empties those that run.
  void clear();
  // "7.0.15"; of SQLite too.
  std::string redis_version();

 private:
  std::array<std::unique_ptr<support::RedisServer>, kNodes> nodes_;
};

// A server, and one that follows it over a link that can be cut.
class Replicated {
 public:
  Replicated();

  std::string primary_url() const { return primary_.url(); }
  std::string replica_url() const { return replica_->url(); }
  // From now on the replica does not hear what the primary is told.
  void cut();
  // The primary dies; the replica takes over with what it has.
  void fail_over();

 private:
  support::RedisServer primary_;
  support::FaultProxy link_;
  std::unique_ptr<support::RedisServer> replica_;
};

class Play {
 public:
  Play(House& house, bool beside);

  bool beside() const { return beside_; }
  House& house() { return house_; }
  std::string file(const std::string& name) const { return folder_.file(name); }

  // No URLs: the shared Redis.
  Player& player(const std::string& name, const SubjectKind& mistake,
                 std::vector<std::string> urls = {});
  // Writes go to a row of a database instead (sql_guard.h), for players that come after.
  void guard_with_sql() { sql_guard_ = file("page.db"); }

  // A fault at a target, around an action.
  void fault(FaultKind kind, const std::string& target, const std::function<void()>& action);
  void begin(FaultKind kind, const std::string& target);
  void end(FaultKind kind, const std::string& target);
  // The same, and the store has lost its memory (or part of it) afterwards.
  void memory_loss(FaultKind kind, const std::string& target, const std::function<void()>& action);

  // Ends all players.
  History history();
  const std::map<std::uint32_t, std::string>& names() const { return names_; }

 private:
  std::uint32_t target(const std::string& name);
  void mark(Kind kind, FaultKind fault, Phase phase, const std::string& target);

  House& house_;
  const bool beside_;
  support::TempFolder folder_{"exhibit"};
  const std::vector<std::string> locks_{"job", "warm-up"};
  std::vector<std::string> targets_;
  std::optional<Recorder> stage_;
  std::deque<Player> players_;
  std::map<std::uint32_t, std::string> names_;
  std::string sql_guard_;
};

// Long enough that everything within has happened, or a step of its own.
void sleep_for(milliseconds span);

}  // namespace holdfast::lab
