// `status`: is a lock held? For scripts.

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/look/who.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::string holder_text(const HolderInfo& holder) {
  return sentence_of(holder.who) + ", token " + token_text(holder.token);
}

std::string status_text(const std::string& name, const std::optional<LockInfo>& info) {
  const std::string begin = printable(name) + ": ";
  std::string out;
  if (info) {
    const Duration opens_in = info->opens_in();
    const bool closed = opens_in > Duration::zero();
    if (closed) out = begin + "free after a lock-delay of " + format_duration(opens_in) + "\n";
    for (const HolderInfo& holder : info->holders) {
      out += begin + (closed ? "last held by " : "held by ") + holder_text(holder) +
             (closed ? "" : ", " + left_text(holder) + " left") + "\n";
    }
  }
  if (out.empty()) out = begin + "free\n";
  if (info && !info->waiters.empty()) {
    out += begin + std::to_string(info->waiters.size()) + " waiting\n";
  }
  return out +
         "This may be over already. To act only while nobody else does, take the lock:"
         " holdfast run --no-wait\n";
}

}  // namespace

int status_command(const LookOptions& options) {
  return with_client(options.common, [&](Client& client, const Settings& settings) {
    const auto info = client.inspect(options.name);
    if (!info) {
      fail(info.error(), settings.shown_store);
      return kExitError;  // Whatever the error: it says neither "held" nor "free".
    }
    const Json json = *info ? to_json(**info) : free_lock_json(options.name);
    const int told = answer(options.common, json, status_text(options.name, *info));
    return told != 0 || (*info && !(*info)->holders.empty()) ? told : kExitFree;
  });
}

}  // namespace holdfast::cli
