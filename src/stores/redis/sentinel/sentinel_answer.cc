#include "src/stores/redis/sentinel/sentinel_answer.h"

#include <algorithm>

#include "holdfast/detail/number.h"
#include "src/stores/redis/protocol/errors.h"

namespace holdfast::stores::redis {
namespace {

Error strange(std::string_view where, const std::string& what) {
  return {Errc::kUnavailable, std::string(where) + ": " + what + ": is a Sentinel running there?"};
}

}  // namespace

std::string_view sentinel_field(const Reply& list, std::string_view name) {
  for (std::size_t i = 0; i + 1 < list.items.size(); i += 2) {
    if (list.items[i].text == name) return list.items[i + 1].text;
  }
  return {};
}

Result<SentinelAnswer> sentinel_answer(const Reply& master, const Reply& address,
                                       std::string_view where, std::string_view primary) {
  if (master.text.starts_with("ERR No such master")) {
    return Error{Errc::kInvalidArgument,
                 std::string(where) + ": this Sentinel watches no primary '" +
                     std::string(primary) + "': correct primary= of the URL"};
  }
  for (const Reply* each : {&master, &address}) {
    if (each->error_word() == "ERR") {
      return strange(where, "the server refuses SENTINEL (" + each->text.substr(0, 80) + ")");
    }
    if (each->error_word() == "NOPERM") {
      return Error{Errc::kPermissionDenied,
                   std::string(where) + ": this user may not ask who is the primary: "
                       "docs/stores/redis-topologies.md has the line that allows it"};
    }
    if (each->is_error()) {
      return to_error(*each, std::string(where) + ": cannot ask the Sentinel", /*reads_only=*/true);
    }
  }
  const auto epoch = detail::parse_number<std::uint64_t>(sentinel_field(master, "config-epoch"));
  if (address.items.size() != 2 || !epoch) {
    return strange(where, "the server answers SENTINEL in an unknown form");
  }
  const auto port = detail::parse_number<std::uint16_t>(address.items[1].text);
  if (!port || *port == 0 || address.items[0].text.empty()) {
    return strange(where, "the server names an address that is none");
  }
  return SentinelAnswer{address.items[0].text, *port, *epoch};
}

std::optional<SentinelAnswer> choose(const std::vector<SentinelAnswer>& answers,
                                     const std::optional<SentinelAnswer>& current) {
  std::uint64_t highest = current ? current->epoch : 0;
  for (const SentinelAnswer& each : answers) highest = std::max(highest, each.epoch);
  std::optional<SentinelAnswer> chosen;
  std::ptrdiff_t votes = 0;
  for (const SentinelAnswer& each : answers) {
    if (each.epoch != highest) continue;
    if (current && each == *current) return each;
    const auto same = std::count(answers.begin(), answers.end(), each);
    if (same > votes) chosen = each;
    votes = std::max(votes, same);
  }
  return chosen;
}

}  // namespace holdfast::stores::redis
