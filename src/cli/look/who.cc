#include "src/cli/look/who.h"

#include "src/cli/options/duration.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

std::optional<std::chrono::milliseconds> left_of(const OwnerInfo& who,
                                                 std::chrono::milliseconds time_left) {
  if (time_left.count() == 0 && !knows_since(who)) return std::nullopt;
  return time_left;
}

std::string who_text(const OwnerInfo& who) {
  // All callers of HTTP have the same program. Their owner is the name that they gave.
  if (who.program == "http" && !who.owner.empty()) return "http: " + printable(who.owner);
  const std::string& name = who.program.empty() ? who.owner : who.program;
  return name.empty() ? "-" : printable(name);
}

std::string host_text(const OwnerInfo& who) { return who.host.empty() ? "-" : printable(who.host); }

std::string pid_text(const OwnerInfo& who) { return who.pid == 0 ? "-" : std::to_string(who.pid); }

std::string since_text(const OwnerInfo& who) {
  return knows_since(who) ? local_time(who.since) : "-";
}

std::string token_text(const Token& token) { return token == Token{} ? "-" : token.to_string(); }

std::string left_text(const HolderInfo& holder) {
  const auto left = left_of(holder.who, holder.time_left);
  return left ? format_duration(*left) : "-";
}

std::string sentence_of(const OwnerInfo& who, const std::string& more) {
  std::string out = who.program.empty() && who.owner.empty() ? "another program" : who_text(who);
  if (!who.host.empty()) out += " on " + printable(who.host);
  std::string inner = who.pid == 0 ? "" : "pid " + std::to_string(who.pid);
  if (!more.empty()) inner += (inner.empty() ? "" : ", ") + more;
  return inner.empty() ? out : out + " (" + inner + ")";
}

}  // namespace holdfast::cli
