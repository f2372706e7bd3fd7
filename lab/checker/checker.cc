#include "lab/checker/checker.h"

#include <algorithm>
#include <ostream>

#include "lab/checker/rules.h"

namespace holdfast::lab {

void Findings::add(Class kind, std::string_view rule, std::size_t first, std::size_t second,
                   std::int64_t begin, std::int64_t end,
                   const std::function<std::string()>& message) {
  if (++verdict_.counts[static_cast<std::size_t>(kind)] > options_.reported_per_class) return;
  verdict_.violations.push_back({kind, rule, first, second, begin, end, message()});
}

void Findings::add(const Violation& violation) {
  add(violation.kind, violation.rule, violation.first, violation.second, violation.begin_ns,
      violation.end_ns, [&] { return violation.message; });
}

std::string overlap_text(const Ledger& ledger, const Span& earlier, const Span& later,
                         std::string_view who_thought) {
  const History& history = *ledger.history;
  const auto side = [&](const Span& span) {
    const Acquisition& acquisition = ledger.acquisitions[span.acquisition];
    return owner_text(acquisition.owner) + " (" + std::string(name_of(acquisition.mode)) +
           ", token " + token_text(acquisition.token) + ", event " +
           std::to_string(acquisition.acquire.ret) + ") from " + time_text(history, span.start) +
           " to " + time_text(history, span.end);
  };
  const std::uint32_t lock = ledger.acquisitions[later.acquisition].lock;
  return lock_text(history, lock) + ": " + std::string(who_thought) + " by " + side(earlier) +
         " and by " + side(later) + ": overlap of " +
         span_text(std::min(earlier.end, later.end) - std::max(earlier.start, later.start));
}

bool Verdict::clean() const {
  return std::all_of(counts.begin(), counts.end(), [](std::size_t count) { return count == 0; });
}

CheckOptions options_of(const History& history) {
  CheckOptions options;
  if (!history.limits) return options;
  options.wake_ns = history.limits->wake_ns;
  options.grace_ns = history.limits->grace_ns;
  options.linger_ns = history.limits->linger_ns;
  options.extends = history.limits->extends;
  options.fenced = history.limits->fenced;
  if (!history.limits->busy) options.busy_samples = 0;
  return options;
}

namespace {

// Limits the times so that sums and differences cannot overflow. No clock has run for 70 years.
bool on_the_axis(const History& history, Findings& findings) {
  constexpr std::int64_t kEdge = std::int64_t{1} << 61U;
  const auto beyond = [](std::int64_t time) { return time < -kEdge || time > kEdge; };
  bool fine = true;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    const Event& event = history.events[i];
    if (!beyond(event.at_ns) && !beyond(event.deadline_ns) && !beyond(event.ttl_ns)) continue;
    fine = false;
    findings.add(Class::kMalformed, "malformed", i, i, 0, 0, [&] {
      return "history: a time that no clock can have shown, so nothing is judged, event " +
             std::to_string(i);
    });
  }
  return fine;
}

}  // namespace

Verdict check(const History& history, const CheckOptions& options) {
  Verdict verdict;
  verdict.events = history.events.size();
  if (history.events.empty()) return verdict;
  Findings findings(options, verdict);
  if (!on_the_axis(history, findings)) return verdict;
  const Ledger ledger = take_apart(history);
  verdict.acquisitions = ledger.acquisitions.size();
  verdict.refused_writes = ledger.refused.size();
  for (const Violation& problem : ledger.problems) findings.add(problem);
  check_store_order(ledger, options, verdict, findings);
  check_beliefs(ledger, findings);
  check_resource(ledger, findings);
  check_refusals(ledger, findings);
  if (options.fenced) check_tokens_over_losses(ledger, findings);
  check_deadlines(ledger, findings);
  check_liveness(ledger, options, findings);
  check_busy(ledger, options, verdict, findings);
  return verdict;
}

void print(const Verdict& verdict, std::ostream& out) {
  out << verdict.events << " events, " << verdict.acquisitions << " acquisitions";
  for (std::size_t i = 0; i < kClasses; ++i) {
    out << ", " << name_of(static_cast<Class>(i)) << " " << verdict.counts[i];
  }
  out << "\n";
  for (const Violation& violation : verdict.violations) {
    out << name_of(violation.kind) << " " << violation.rule << ": " << violation.message << "\n";
  }
}

}  // namespace holdfast::lab
