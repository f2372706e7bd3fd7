// A run as data: which store, who uses it how, what is done to them, and what must come of it.
//
// docs/guide/lab-reference.md is the manual of the files. Every field is in fields.h, once, for
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
  std::string topology{};     // Or the file of one of the user's own, as seen from the scenario's.
  std::string url{};          // For kind url: the user's own store; it is not touched otherwise.
  std::string options{};      // Behind the '?' of the store's URL.
  bool proxy = false;         // Each client process reaches the servers through proxies of its own.
  bool replica = false;       // A second server follows the first.
  bool clock = false;         // The wall clock that the store reads can jump.
  bool server_clock = false;  // Its servers' clock can, where clients' could, too.
  bool durable = false;       // The server's data is on its disk.
  std::int64_t disk_mb = 0;   // Its files are on a disk of their own, so small (root only).
  bool network = false;       // Between its servers is one that can be cut (root only).
  std::int64_t nodes = 0;     // Servers; 0: as many as the topology has by itself.
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
  std::int64_t tries_percent = 25;   // Do not wait.
  std::int64_t cancels_percent = 0;  // Percent of the waits that are given up half-way.
  std::int64_t renews_percent = 0;   // Looks that ask for a renewal at once.
  std::int64_t writes = 1;           // To the guarded resource, per hold.
  bool careful = true;               // Asks held() before it writes, and stops when it is lost.
  bool release = true;               // false: forgets to, now and then.
  std::int64_t readers_percent = 70;
  std::int64_t capacity = 3;  // permits: N.
  std::int64_t depth = 2;     // nested, multi: locks at a time.
};

struct NemesisSpec {
  std::string kind{};
  std::string target = "any";      // any, all, or a number: client 2; of servers: node 2, leader.
  std::string direction = "both";  // partition, blackhole, delay: both, to-server, to-client.
  std::string at{};                // kill, pause: at this point of the subject, not by the clock.
  milliseconds first = 500ms;
  milliseconds every = 2000ms;
  milliseconds lasts = 500ms;
  milliseconds delay = 100ms;  // delay, loss, reorder; clock: the jump.
  std::int64_t times = 0;      // At most so often; 0: no limit.
  std::int64_t one_in = 1;     // One in so many passages of a point.
};

struct Scenario {
  std::string name{};
  std::string about{};
  std::uint64_t seed = 1;
  milliseconds duration = 14s;
  milliseconds calm = 7s;  // At the end nothing is broken, and all must move again.
  StoreSpec store{};
  std::shared_ptr<const Topology> topology{};  // Null: kind url, or none.
  ClientSpec clients{};
  std::vector<WorkloadSpec> workloads{};
  std::vector<NemesisSpec> nemeses{};
  milliseconds wake = 3s;   // CheckOptions.
  milliseconds grace = 5s;  // The same.
  bool judge_busy = true;   // false: the store answers busy for reasons of its own.
  Expectations expect{};

  Expected expected(Class kind) const { return expect[static_cast<std::size_t>(kind)]; }
};

// The keys of [expect], in the order of the classes.
inline constexpr std::array<const char*, kClasses> kClassKeys = {
    "malformed", "V0", "V1", "V2", "V3", "stuck", "orphaned", "lost_wake_up"};

CheckOptions check_options(const Scenario& scenario);

}  // namespace holdfast::lab
