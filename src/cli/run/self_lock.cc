#include "src/cli/run/self_lock.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "holdfast/detail/transient.h"
#include "src/cli/process/process_tree.h"
#include "src/cli/run/narrator.h"
#include "src/cli/text/json.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

bool is_entry(const Json& entry) {
  return entry.is_array() && entry.size() == 3 &&
         std::all_of(entry.begin(), entry.end(), [](const Json& part) { return part.is_string(); });
}

Json inherited() {
  Json known = Json::array();
  const char* text = std::getenv("HOLDFAST_HELD");
  if (text == nullptr) return known;
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array()) return known;
  std::copy_if(list.begin(), list.end(), std::back_inserter(known), is_entry);
  return known;
}

bool names(const Json& entry, const HolderInfo& holder) {
  return entry[1] == holder.who.owner && entry[2] == holder.token.to_string();
}

}  // namespace

Result<std::optional<HeldAround>> find_held_around(const Client& client, const std::string& name) {
  using Found = std::optional<HeldAround>;
  const Json held = inherited();
  if (held.empty()) return Found();
  const auto info = client.inspect(name);
  if (!info && detail::is_transient(info.error().code())) return info.error();
  if (!info || !*info) return Found();
  for (const HolderInfo& holder : (*info)->holders) {
    const auto ours = std::find_if(held.begin(), held.end(),
                                   [&](const Json& entry) { return names(entry, holder); });
    if (ours != held.end()) return Found({(*ours)[0], holder});
  }
  return Found();
}

Error self_deadlock(const HeldAround& around, const std::string& name) {
  return {Errc::kWouldDeadlock,
          "a deadlock with itself: this runs inside 'holdfast run " + printable(around.name) +
              "', which holds " + in_quotes(name) +
              " (HOLDFAST_HELD says so) and ends only after this. Leave out the inner lock, use"
              " another name, or run under that one's lease with --reenter"};
}

std::optional<Error> cannot_reenter(const HeldAround& around, const std::string& name, Mode mode) {
  const std::string run = "'holdfast run " + printable(around.name) + "' holds " + in_quotes(name);
  const Mode held = around.holder.mode;
  const bool covers = held == mode || (held == Mode::exclusive() && mode == Mode::shared());
  if (!covers) {
    return Error(Errc::kWouldDeadlock,
                 run +
                     " in another mode, so --reenter cannot run under its lease: ask for the"
                     " stronger mode in the outer one");
  }
  const OwnerInfo& who = around.holder.who;
  if (who.host == make_identity().host && is_ancestor(static_cast<pid_t>(who.pid))) {
    return std::nullopt;
  }
  return Error(Errc::kWouldDeadlock,
               run +
                   " (HOLDFAST_HELD says so), but this process does not descend from it, so"
                   " nobody would end this when the lock is lost. Start it without"
                   " HOLDFAST_HELD, and it waits for the lock");
}

std::string held_variable(const std::string& name, const std::string& owner, Token token) {
  Json list = inherited();
  list.push_back(Json::array({name, owner, token.to_string()}));
  return list.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace holdfast::cli
