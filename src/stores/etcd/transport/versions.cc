#include "src/stores/etcd/transport/versions.h"

#include <array>
#include <charconv>
#include <optional>
#include <string>

namespace holdfast::stores::etcd {
namespace {

using Version = std::array<int, 3>;

std::optional<Version> parse_version(std::string_view text) {
  Version version{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < version.size(); ++i) {
    const auto [stop, error] = std::from_chars(at, end, version[i]);
    if (error != std::errc{}) return std::nullopt;
    at = stop;
    if (i + 1 < version.size()) {
      if (at == end || *at != '.') return std::nullopt;
      ++at;
    }
  }
  return version;
}

// Fixed by that patch of each release line. Earlier lines are not fixed, later ones are.
struct Bug {
  std::vector<Version> mended;
  Severity severity;
  const char* what;
};

const Bug& leases_that_end_early() {
  static const Bug bug = {
      {{3, 4, 31}, {3, 5, 13}},
      Severity::kWarning,
      "a leader that stood still may end sessions that were renewed meanwhile (etcd #15247)"};
  return bug;
}

const std::vector<Bug>& known_bugs() {
  static const std::vector<Bug> bugs = {
      leases_that_end_early(),
      {{{3, 4, 38}, {3, 5, 23}, {3, 6, 5}},
       Severity::kWarning,
       "a renewal may be confirmed although the lease has ended (etcd #20590); Holdfast reads its "
       "session's key after each renewal, which detects it"},
      {{{3, 4, 42}, {3, 5, 28}},
       Severity::kWarning,
       "a member that stood still may answer reads with old data (etcd #20418, mended with "
       "#21421)"},
      {{{3, 4, 0}, {3, 5, 3}},
       Severity::kProblem,
       "members may come to hold different data (etcd #13766)"},
  };
  return bugs;
}

bool has(const Bug& bug, const Version& version) {
  for (const Version& mended : bug.mended) {
    if (mended[0] == version[0] && mended[1] == version[1]) return version[2] < mended[2];
  }
  return version < bug.mended.front();
}

std::string mended_in(const Bug& bug, const Version& version) {
  for (const Version& mended : bug.mended) {
    if (mended[0] != version[0] || mended[1] < version[1]) continue;
    return std::to_string(mended[0]) + "." + std::to_string(mended[1]) + "." +
           std::to_string(mended[2]);
  }
  return "a later version";
}

}  // namespace

bool may_end_leases_early(std::string_view version) {
  const auto parsed = parse_version(version);
  return !parsed || has(leases_that_end_early(), *parsed);
}

std::vector<Finding> judge_version(std::string_view version) {
  const auto parsed = parse_version(version);
  const std::string text(version.substr(0, 40));
  if (!parsed) {
    return {{Severity::kWarning, "version", "'" + text + "' is not understood", ""}};
  }
  if (*parsed < Version{3, 4, 0}) {
    return {{Severity::kProblem, "version", text + " is too old", "use etcd 3.4 or later"}};
  }
  std::vector<Finding> findings;
  for (const Bug& bug : known_bugs()) {
    if (!has(bug, *parsed)) continue;
    findings.push_back({bug.severity, "version", text + ": " + bug.what,
                        "upgrade to " + mended_in(bug, *parsed) + " or later"});
  }
  return findings;
}

}  // namespace holdfast::stores::etcd
