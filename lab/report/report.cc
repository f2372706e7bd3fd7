// Writes report.json, and the folder with all forms of the report.
#include "lab/report/report.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>

#include <nlohmann/json.hpp>

#include "lab/checker/ledger.h"
#include "lab/history/text.h"
#include "lab/report/counts.h"
#include "lab/report/picture.h"
#include "lab/report/timeline.h"

namespace holdfast::lab {
namespace {

using Json = nlohmann::ordered_json;

Json classes_of(const JudgedRun& run) {
  Json classes = Json::array();
  for (std::size_t i = 0; i < kClasses; ++i) {
    const Expected expected = run.facts.expected[i];
    classes.push_back({{"class", name_of(static_cast<Class>(i))},
                       {"expected", name_of(expected)},
                       {"seen", run.verdict.counts[i]},
                       {"as_expected", as_expected(expected, run.verdict.counts[i])}});
  }
  return classes;
}

Json violation_of(const JudgedRun& run, const Violation& violation) {
  const Event& first = run.history.events[violation.first];
  const Event& second = run.history.events[violation.second];
  const std::int64_t zero = run.history.events.front().at_ns;
  Json owners = Json::array({owner_text(owner_of(first))});
  if (owner_of(first) != owner_of(second)) owners.push_back(owner_text(owner_of(second)));
  Json json = {{"class", name_of(violation.kind)},
               {"rule", violation.rule},
               {"message", violation.message},
               {"owners", std::move(owners)},
               {"begin_ns", violation.begin_ns - zero},
               {"end_ns", violation.end_ns == kNever ? Json() : Json(violation.end_ns - zero)},
               {"first", to_line(first)},
               {"second", to_line(second)}};
  if (second.lock < run.history.locks.size()) json["lock"] = run.history.locks[second.lock];
  return json;
}

Result<void> write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  // Writes all or nothing, because half a history looks like a whole one.
  const std::string torn = path + ".part";
  std::ofstream out(torn, std::ios::binary | std::ios::trunc);
  if (out) write(out);
  out.close();
  std::error_code problem;
  if (out) std::filesystem::rename(torn, path, problem);
  if (out && !problem) return {};
  std::filesystem::remove(torn, problem);
  return Error{Errc::kUnavailable, "cannot write '" + path + "'"};
}

}  // namespace

void write_json(const JudgedRun& run, std::ostream& out) {
  const Counts counts = count(run.history);
  Json faults = Json::object();
  for (const auto& [name, times] : counts.faults) faults[name] = times;
  Json violations = Json::array();
  for (const Violation& one : run.verdict.violations) violations.push_back(violation_of(run, one));
  Json json = {{"format", "holdfast-lab-report"},
               {"version", kReportVersion},
               {"scenario", run.facts.scenario},
               {"seed", std::to_string(run.facts.seed)},
               {"store", {{"name", run.facts.store}, {"version", run.facts.version}}},
               {"holdfast", run.facts.holdfast},
               {"replay", run.facts.replay},
               {"duration_ns", run.facts.duration_ns},
               {"as_expected", as_expected(run.facts.expected, run.verdict)},
               {"operations", counts.operations},
               {"acquisitions", run.verdict.acquisitions},
               {"events", run.verdict.events},
               {"refused_writes", run.verdict.refused_writes},
               {"faults", std::move(faults)},
               {"classes", classes_of(run)},
               {"violations", std::move(violations)}};
  if (!run.facts.commit.empty()) json["commit"] = run.facts.commit;
  out << json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) << "\n";
}

Result<void> write_report(const std::string& folder, const JudgedRun& run) {
  const auto timeline = [&](std::ostream& out) {
    const Picture picture = make_picture(run.history, run.verdict, run.facts.processes);
    draw(picture, run.facts.scenario + " on " + run.facts.store + " " + run.facts.version, out);
  };
  const std::pair<const char*, std::function<void(std::ostream&)>> files[] = {
      {"report.md", [&](std::ostream& out) { write_markdown(run, out); }},
      {"report.json", [&](std::ostream& out) { write_json(run, out); }},
      {"timeline.svg", timeline},
      {"history.txt", [&](std::ostream& out) { write(run.history, out); }}};
  for (const auto& [name, write_it] : files) {
    const Result<void> written = write_file(folder + "/" + name, write_it);
    if (!written) return written.error();
  }
  return {};
}

}  // namespace holdfast::lab
