// Real lock libraries of other languages, each a process that the test commands (tests/peers).
//
// They are installed by scripts/redis-peers, in the versions that bench/peers pins.
// Thread-safety: one thread at a time. Errors: std::runtime_error.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/recipe_scenes.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"

namespace holdfast::faults {

// Why the library cannot be had; empty: it can. `name`: redisson, redis-py, redsync, redislock or
// node-redlock.
std::string no_peer(const std::string& name);

class RedisPeer {
 public:
  // `lease`: Redisson's watchdog time, and the fixed lease of the others.
  RedisPeer(const std::string& name, std::uint16_t port, milliseconds lease);
  ~RedisPeer();

  // Sends "VERB KEY", and returns the number by which the answer is found.
  int tell(const std::string& verb, const std::string& key);
  bool answered(int number) const { return !answer_now(number).empty(); }
  // "yes" or "no"; throws for everything else, and when there is none in time.
  bool answer(int number, milliseconds within = kLong) const;
  bool ask(const std::string& verb, const std::string& key) { return answer(tell(verb, key)); }

  bool running() { return process_->running(); }
  void kill9() { process_->kill9(); }

 private:
  std::string answer_now(int number) const;
  std::string said() const;

  support::TempFolder folder_{"peer"};
  int commands_ = -1;
  int last_ = 0;
  std::unique_ptr<support::ChildProcess> process_;
};

// For the scenes, which try only.
class PeerProgram final : public PlainProgram {
 public:
  explicit PeerProgram(RedisPeer& peer) : peer_(peer) {}
  bool try_lock(const std::string& name) override { return peer_.ask("try", name); }
  bool unlock(const std::string& name) override { return peer_.ask("give", name); }

 private:
  RedisPeer& peer_;
};

}  // namespace holdfast::faults
