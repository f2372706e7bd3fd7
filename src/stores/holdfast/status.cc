#include "src/stores/holdfast/status.h"

#include <utility>

namespace holdfast::stores::holdfast {

Result<ServiceStatus> status_of(const redis::Reply& reply) {
  ServiceStatus status;
  const std::pair<std::string_view, std::string*> fields[] = {{"version", &status.version},
                                                              {"journal", &status.journal},
                                                              {"journal_id", &status.journal_id},
                                                              {"place", &status.place},
                                                              {"term", &status.term}};
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2) {
    for (const auto& [name, value] : fields) {
      if (reply.items[i].text == name) *value = reply.items[i + 1].text;
    }
  }
  if (status.journal.empty() || status.term.empty()) {
    return Error{Errc::kVersionMismatch,
                 "the lock service does not say what it is: update this program or the server"};
  }
  return status;
}

port::Findings findings_of(const ServiceStatus& status) {
  port::Findings findings;
  port::add(findings, Severity::kOk, "server",
            "Holdfast " + status.version + ", term " + status.term + ", journal " +
                status.journal_id);
  if (status.durable()) {
    port::add(findings, Severity::kOk, "journal",
              "each answer is in the journal at " + status.place +
                  " before it leaves: a restart forgets no grant",
              "the folder must be on a local disk that keeps what fsync promises");
  } else {
    port::add(findings, Severity::kWarning, "journal",
              "the journal is in memory: a restart forgets all locks",
              "start the server with --data DIR");
  }
  port::add(findings, Severity::kOk, "transport",
            "without encryption and without users, for the programs of this host",
            "keep the port on loopback: everybody who reaches it may take and break locks");
  port::check_clock_rate(findings);
  return findings;
}

}  // namespace holdfast::stores::holdfast
