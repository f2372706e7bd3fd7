// One performance of an exhibit: its players, its servers and files, and its history.
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

// Servers that the exhibits share, because starting them takes longer than a play.
class House {
 public:
  static constexpr std::size_t kNodes = 3;

  support::RedisServer& redis() { return node(0); }
  support::RedisServer& node(std::size_t number);
  // Empties the running servers.
  void clear();
  // "7.0.15"; likewise for SQLite.
  std::string redis_version();

 private:
  std::array<std::unique_ptr<support::RedisServer>, kNodes> nodes_;
};

// A server and its replica, over a link that can be cut.
class Replicated {
 public:
  // The primary's wall clock follows `clock_shift_file`, if that is given.
  explicit Replicated(const std::string& clock_shift_file = {});

  std::string primary_url() const { return primary_.url(); }
  std::string replica_url() const { return replica_->url(); }
  // From now on the replica gets no more changes.
  void cut();
  // The primary dies, and the replica takes over with its own state.
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

  // Without URLs it uses the shared Redis.
  Player& player(const std::string& name, const SubjectKind& mistake,
                 std::vector<std::string> urls = {});
  // Later players write to a row of a database instead (sql_guard.h).
  void guard_with_sql() { sql_guard_ = file("page.db"); }

  // Later players ask for this instead of an exclusive lock.
  void asks_for(Mode mode) { mode_ = mode; }

  // Records a fault at a target around an action.
  void fault(FaultKind kind, const std::string& target, const std::function<void()>& action);
  void begin(FaultKind kind, const std::string& target);
  void end(FaultKind kind, const std::string& target);
  // The same for an action after which the store has lost its memory, or part of it.
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
  Mode mode_ = Mode::exclusive();
};

// Waits until earlier steps have had their effect; also a step of its own.
void sleep_for(milliseconds span);

}  // namespace holdfast::lab
