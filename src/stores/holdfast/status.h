// The account that a running lock service gives of itself, and the doctor's findings from it.
//
// Thread-safety: pure functions. Errors: kVersionMismatch: the answer lacks what it must have.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "src/port/examination.h"
#include "src/port/service/journal.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::holdfast {

struct ServiceStatus {
  std::string version;
  std::string journal;  // "sqlite", "etcd", "memory".
  std::string journal_id;
  std::string place;  // The folder, for people.
  std::string term;
  bool has_users = false;
  bool full = false;             // The journal takes nothing for now.
  std::chrono::seconds quiet{};  // A restored copy: nothing is granted for so long.
  std::string shard;             // The one that this is about; empty: there is only one.
  port::DiskSpace disk{};        // `free` and `size` only. Zero: not known.
  // Since 1970. A server of before does not tell it.
  std::optional<std::chrono::milliseconds> wall_time{};

  bool durable() const { return journal != "memory"; }
  // Several servers share the journal, so another one may take over.
  bool shared() const { return journal.starts_with("etcd"); }
};

// Reads the answer to "HF1 status 0": names and values in turn.
Result<ServiceStatus> status_of(const redis::Reply& reply);

// How this client's connections reach the server.
enum class Way { kEncrypted, kWithinHost, kOpen };
Way way_to(const redis::RedisAddress& address);

port::Findings findings_of(const ServiceStatus& status, Way way);
// Reads the answer to "HF1 examine 0": four texts for each finding. A server that does not know the
// call, or could not ask, is a finding itself.
port::Findings findings_of_journal(const Result<redis::Reply>& reply);

}  // namespace holdfast::stores::holdfast
