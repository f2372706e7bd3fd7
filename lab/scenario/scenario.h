// A run as data: the store, its clients and their work, the faults, and the expected outcome.
//
// docs/guide/lab-reference.md is the manual of the files. fields.h lists every field once, for
// reading and writing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/checker/expected.h"

namespace holdfast::lab {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

struct Topology;

struct StoreSpec {
  std::string kind{};         // A topology that comes with the lab; or url, or none.
  std::string topology{};     // Or the user's own file, relative to the scenario's.
  std::string url{};          // For kind url: the user's own store.
  std::string options{};      // Appended after '?' to the store's URL.
  bool proxy = false;         // Each client process reaches the servers through proxies of its own.
  bool replica = false;       // A second server follows the first.
  bool clock = false;         // The wall clock that the store reads can jump.
  bool server_clock = false;  // The servers' clock can, although the clients' could, too.
  bool durable = false;       // The server's data is on its disk.
  std::int64_t disk_mb = 0;   // Its files are on a disk of their own, so small (root only).
  bool network = false;       // A network of servers and clients can be cut (root only).
  std::int64_t nodes = 0;     // Number of servers; 0: the topology's default.
};

struct ClientSpec {
  std::string subject = "holdfast";
  std::int64_t processes = 3;
};

struct WorkloadSpec {
  std::string kind = "contend";
  std::int64_t owners = 1;  // Threads in each process.
  std::int64_t locks = 2;   // Names that they share.
  milliseconds ttl = 1000ms;
  milliseconds wait = 6000ms;
  milliseconds hold = 20ms;
  milliseconds think = 5ms;          // Between two holds.
  std::int64_t tries_percent = 25;   // Acquires that do not wait.
  std::int64_t cancels_percent = 0;  // Percent of the waits that are given up halfway.
  std::int64_t renews_percent = 0;   // Checks that ask for a renewal at once.
  std::int64_t writes = 1;           // Writes to the guarded resource per hold.
  bool careful = true;               // Calls held() before it writes, and stops after a loss.
  bool release = true;               // If false, forgets to now and then.
  std::int64_t readers_percent = 70;
  std::int64_t capacity = 3;  // permits: N.
  std::int64_t depth = 2;     // nested, multi: locks at a time.
};

struct NemesisSpec {
  std::string kind{};
  std::string target = "any";      // any, all, or a number: client 2; of servers: node 2, leader,
                                   // follower, member-leader, member-follower.
  std::string direction = "both";  // partition, blackhole, delay: both, to-server, to-client.
  std::string from = "all";        // isolate, and faults of links: from all nodes, or from one.
  std::string at{};                // kill, pause: at this point of the subject, not by the clock.
  milliseconds first = 500ms;
  milliseconds every = 2000ms;
  milliseconds lasts = 500ms;
  milliseconds delay = 100ms;  // delay, loss, reorder; clock: the jump.
  std::int64_t times = 0;      // At most this often; 0: no limit.
  std::int64_t one_in = 1;     // Strikes at one of this many passages.
};

struct Scenario {
  std::string name{};
  std::string about{};
  std::uint64_t seed = 1;
  milliseconds duration = 14s;
  milliseconds calm = 7s;  // At the end, without faults: all locks must move again.
  StoreSpec store{};
  std::shared_ptr<const Topology> topology{};  // Null: kind url, or none.
  ClientSpec clients{};
  std::vector<WorkloadSpec> workloads{};
  std::vector<NemesisSpec> nemeses{};
  milliseconds wake = 3s;   // CheckOptions.
  milliseconds grace = 5s;  // The same.
  bool judge_busy = true;   // False if the store answers busy for reasons of its own.
  Expectations expect{};

  Expected expected(Class kind) const { return expect[static_cast<std::size_t>(kind)]; }
};

// The keys of [expect], in the order of the classes.
inline constexpr std::array<const char*, kClasses> kClassKeys = {
    "malformed", "V0", "V1", "V2", "V3", "stuck", "orphaned", "lost_wake_up"};

CheckOptions check_options(const Scenario& scenario);

}  // namespace holdfast::lab
