// Starts, kills, stops, restarts and awaits the client processes of a run.
//
// Guarantee: a death is recorded, with its stamp, before the signal is sent. Every process has a
// number of its own, even if it replaces a dead one.
// Ownership: this object ends all of them.
//
// Thread-safety: one thread at a time.
// Errors: std::runtime_error: a client failed; the message has its output.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

#include "lab/recorder/recorder.h"
#include "lab/rig/rig.h"
#include "lab/scenario/scenario.h"

namespace holdfast::lab {

struct WorkersPlan {
  std::string program;  // holdfast-lab itself.
  std::string folder;
  std::string prefix;
  std::int64_t begin_ns = 0;
  std::int64_t until_ns = 0;
};

class Workers {
 public:
  Workers(const Scenario& scenario, const Rig& rig, Recorder& recorder, WorkersPlan orders);

  void start(std::uint32_t slot);
  void kill(std::uint32_t slot);
  void pause(std::uint32_t slot);
  void resume(std::uint32_t slot);
  // Handles processes that ended by themselves: one that died at a point comes back after a while.
  void tend();
  // Kills the remaining processes.
  void abandon();
  // Waits for all to end, and kills those that do not. Returns the number of killed ones.
  std::size_t finish(milliseconds limit);

  pid_t pid(std::uint32_t slot) const;
  std::uint32_t started() const { return last_number_; }
  std::size_t died_at_points() const { return died_at_points_; }

 private:
  struct Member {
    std::uint32_t number = 0;
    bool expected_dead = false;
    bool ended = false;
    std::int64_t back_at_ns = 0;  // 0 if it does not come back by itself.
    std::unique_ptr<support::ChildProcess> process;
  };

  std::string log_of(std::uint32_t number) const;
  void look_at(std::uint32_t slot);
  void give_back_memory(std::uint32_t slot);

  const Scenario& scenario_;
  const Rig& rig_;
  Recorder& recorder_;
  const WorkersPlan orders_;
  std::vector<Member> members_;
  std::vector<std::uint64_t> recorded_;  // By slot: events of dead processes.
  std::uint32_t last_number_ = 0;
  std::size_t died_at_points_ = 0;
};

}  // namespace holdfast::lab
