#include "src/port/examination.h"

#include <cstdio>

#include "holdfast/options.h"
#include "src/base/chrony.h"

namespace holdfast::port {
namespace {

std::string percent(double ppm) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", ppm / 10'000);
  return text;
}

}  // namespace

void add(Findings& findings, Severity severity, std::string topic, std::string what,
         std::string advice) {
  findings.push_back({severity, std::move(topic), std::move(what), std::move(advice)});
}

void check_clock_rate(Findings& findings) {
  const auto slew = base::chrony_max_slew_ppm();
  const double bearable = ClientOptions().clock_rate_error_ppm / 2.0;
  if (!slew || *slew <= bearable) return;
  add(findings, Severity::kWarning, "clock rate",
      "chrony may let this host's clock run wrong by " + percent(*slew) +
          " while it corrects it (maxslewrate); leases allow two hosts to differ by " +
          percent(2 * bearable),
      "set 'maxslewrate " + std::to_string(static_cast<long>(bearable)) +
          "' in chrony's configuration on all hosts, or a larger clock_rate_error_ppm");
}

void Examination::add_failed_trial(const char* topic, const Error& why, const char* page) {
  const bool denied = why.code() == Errc::kPermissionDenied;
  add(Severity::kProblem, denied ? topic : "trial", why.message(),
      denied ? std::string("give the permissions that docs/stores/") + page + " names"
             : "a lock cannot be taken and given back now: see what the server says");
}

}  // namespace holdfast::port
