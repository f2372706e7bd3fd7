#include "src/stores/holdfast/status.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "holdfast/detail/number.h"

namespace holdfast::stores::holdfast {

Result<ServiceStatus> status_of(const redis::Reply& reply) {
  ServiceStatus status;
  std::string users;
  std::string full;
  std::string free;
  std::string size;
  std::string time;
  std::string quiet;
  std::string shards;
  const std::pair<std::string_view, std::string*> fields[] = {{"version", &status.version},
                                                              {"journal", &status.journal},
                                                              {"journal_id", &status.journal_id},
                                                              {"place", &status.place},
                                                              {"term", &status.term},
                                                              {"users", &users},
                                                              {"full", &full},
                                                              {"disk_free_bytes", &free},
                                                              {"disk_size_bytes", &size},
                                                              {"unix_ms", &time},
                                                              {"quiet_s", &quiet},
                                                              {"shard", &status.shard},
                                                              {"shards", &shards}};
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2) {
    for (const auto& [name, value] : fields) {
      if (reply.items[i].text == name) *value = reply.items[i + 1].text;
    }
  }
  if (shards.empty() || shards == "1") status.shard.clear();
  status.has_users = users == "1";
  status.full = full == "1";
  status.disk.free = ::holdfast::detail::parse_number<std::uint64_t>(free).value_or(0);
  status.disk.size = ::holdfast::detail::parse_number<std::uint64_t>(size).value_or(0);
  status.quiet =
      std::chrono::seconds(::holdfast::detail::parse_number<std::int64_t>(quiet).value_or(0));
  if (const auto ms = ::holdfast::detail::parse_number<std::int64_t>(time)) {
    status.wall_time = std::chrono::milliseconds(*ms);
  }
  if (status.journal.empty() || status.term.empty()) {
    return Error{Errc::kVersionMismatch,
                 "the lock service does not say what it is: update this program or the server"};
  }
  return status;
}

namespace {

void add_disk(port::Findings& findings, const ServiceStatus& status) {
  if (status.full) {
    port::add(findings, Severity::kProblem, "disk",
              "the journal at " + status.place +
                  " cannot be written: no lock is granted, and renewals go on",
              "make room on its disk");
    return;
  }
  if (status.disk.size == 0) return;
  const unsigned percent = status.disk.percent();
  const std::string text =
      "the journal's disk, or etcd's quota, is " + std::to_string(percent) + " % full";
  if (percent >= port::DiskSpace::kNearlyFull) {
    port::add(findings, Severity::kWarning, "disk", text + ": when it is full, no lock is granted",
              "make room on the disk of " + status.place);
  } else {
    port::add(findings, Severity::kOk, "disk", text);
  }
}

void add_restore(port::Findings& findings, const ServiceStatus& status) {
  if (status.quiet.count() <= 0) return;
  port::add(findings, Severity::kProblem, "restore",
            (status.shard.empty() ? "" : "shard " + status.shard + " of ") + "the journal at " +
                status.place + " is a copy that was put back: nothing " +
                (status.shard.empty() ? "" : "of it ") + "is granted for " +
                std::to_string(status.quiet.count()) + " s more",
            "wait, or when all clients are stopped, start the server with --clients-stopped");
}

void add_access(port::Findings& findings, bool has_users, Way way) {
  if (!has_users) {
    return port::add(findings, Severity::kOk, "access",
                     "without users: everybody who reaches the port may take and break every lock",
                     "keep the port on loopback, or start the server with --users FILE");
  }
  if (way == Way::kOpen) {
    return port::add(findings, Severity::kWarning, "access",
                     "with users, but not encrypted: the network hears the passwords",
                     "start the server with --tls-cert FILE, unless the network itself encrypts");
  }
  port::add(findings, Severity::kOk, "access",
            way == Way::kEncrypted ? "with users, and encrypted" : "with users, within this host");
}

}  // namespace

Way way_to(const redis::RedisAddress& address) {
  if (address.tls) return Way::kEncrypted;
  const bool local =
      std::all_of(address.nodes.begin(), address.nodes.end(), [](const port::Endpoint& each) {
        return each.host.starts_with("127.") || each.host == "::1" || each.host == "localhost";
      });
  return local ? Way::kWithinHost : Way::kOpen;
}

port::Findings findings_of(const ServiceStatus& status, Way way) {
  port::Findings findings;
  port::add(
      findings, Severity::kOk, "server",
      "Holdfast " + status.version + ", term " + status.term + ", journal " + status.journal_id);
  if (status.durable()) {
    port::add(findings, Severity::kOk, "journal",
              "each grant is in the journal at " + status.place +
                  " before it is answered: a restart forgets none",
              status.shared()
                  ? "run two servers or more on it, and ask 'holdfast doctor' about its etcd"
                  : "the folder must be on a local disk that keeps what fsync promises");
  } else {
    port::add(findings, Severity::kWarning, "journal",
              "the journal is in memory: a restart forgets all locks",
              "start the server with --data DIR");
  }
  add_restore(findings, status);
  add_disk(findings, status);
  add_access(findings, status.has_users, way);
  port::check_clock_rate(findings);
  return findings;
}

port::Findings findings_of_journal(const Result<redis::Reply>& reply) {
  port::Findings findings;
  if (!reply) {
    port::add(findings, Severity::kWarning, "etcd",
              "the server did not tell what it sees of its etcd: " + reply.error().message(),
              "update the server, or ask 'holdfast doctor --store etcd://...'");
    return findings;
  }
  for (std::size_t i = 0; i + 3 < reply->items.size(); i += 4) {
    const auto text = [&](std::size_t part) { return reply->items[i + part].text; };
    const Severity severity = text(0) == "2"   ? Severity::kProblem
                              : text(0) == "1" ? Severity::kWarning
                                               : Severity::kOk;
    port::add(findings, severity, "etcd " + text(1), text(2), text(3));
  }
  return findings;
}

}  // namespace holdfast::stores::holdfast
