// A process for things to happen to: does on the public API what its input says, line by line.
//
// Commands are listed in actor.cc; answers and events are described in line.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "holdfast/client.h"

namespace holdfast::faults {

using Words = std::vector<std::string>;

struct Actor {
  std::string url;
  std::optional<Client> client;
  std::optional<Lease> lease;
  using LossCallback = std::stop_callback<std::function<void()>>;
  std::unique_ptr<LossCallback> on_loss;
  std::int64_t* clock_offset = nullptr;

  // A forked child that has connected anew.
  int child = 0;
  int to_child = -1;
  int from_child = -1;
};

// From any thread: one write.
void say(const std::string& line);
std::string describe(const Error& error);
std::string describe(const Lease& lease);
std::string outcome(const Result<void>& result);
Result<void> connect(Actor& actor, const std::string& url);

// actor_fork.cc
void fork_and_look(Actor& actor, const Words& words);
void fork_and_keep(Actor& actor, const Words& words);
void end_kept(Actor& actor, const Words& words);
void fork_in_a_storm(Actor& actor, const Words& words);
void list_inherited(Actor& actor, const Words& words);
int print_descriptors();

}  // namespace holdfast::faults
