// Shared by the stores' doctors: findings, and the questions that several of them ask.
//
// Thread-safety: none. Ownership: a derived class keeps itself alive through its callbacks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/port/store.h"

namespace holdfast::port {

using Findings = std::vector<Finding>;

void add(Findings& findings, Severity severity, std::string topic, std::string what,
         std::string advice = {});

// Warns when chrony may let this host's clock run wrong by more than leases allow for. Deadlines
// count on this host's clock and leases end by the server's: both may slew, in opposite directions.
void check_clock_rate(Findings& findings);

// The base of a doctor that asks a server one question after the other.
class Examination {
 protected:
  explicit Examination(Done<Findings> done) : done_(std::move(done)) {}
  ~Examination() = default;

  void add(Severity severity, std::string topic, std::string what, std::string advice = {}) {
    port::add(findings_, severity, std::move(topic), std::move(what), std::move(advice));
  }
  // `why`: something that a lock does was tried, and failed. A permission that is missing is a
  // finding of `topic`, with the advice to read `page`.
  void add_failed_trial(const char* topic, const Error& why, const char* page);
  // `secure`: the scheme with TLS.
  void add_not_encrypted(const char* what, const std::string& secure) {
    add(Severity::kOk, "transport", what, "use " + secure + " where others can read the network");
  }
  void finish() { done_(std::move(findings_)); }
  void give_up(const Error& why) const { done_(why); }

  Findings findings_;

 private:
  const Done<Findings> done_;
};

}  // namespace holdfast::port
