#include "src/stores/redis/renewer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::redis {
namespace {

using port::AcquisitionState;

// Locks per script. All other clients wait while a script runs.
constexpr std::size_t kRenewalsPerScript = 128;

void append_states(const Result<Reply>& reply, std::size_t count,
                   const std::vector<port::RenewItem>& items,
                   std::vector<Result<AcquisitionState>>& states) {
  for (std::size_t i = 0; i < count; ++i) {
    const port::RenewItem& item = items[states.size()];
    if (!reply) {
      states.emplace_back(reply.error());
    } else if (i < reply->items.size()) {
      states.push_back(renew_answer(reply->items[i].text, item));
    } else {
      states.emplace_back(Error(Errc::kCorruptState, "the server left a renewal unanswered"));
    }
  }
}

}  // namespace

Renewer::Renewer(RemotePtr remote, const Requests& requests,
                 std::function<void(std::string)> on_alarm)
    : address_(remote->address.display()),
      requests_(requests),
      on_alarm_(std::move(on_alarm)),
      link_(std::move(remote)) {}

Result<std::vector<Result<AcquisitionState>>> Renewer::renew(
    const std::vector<port::RenewItem>& items, base::BootInstant deadline) {
  auto turn = link_.try_take();
  if (!turn) return Error(Errc::kClosed, address_ + ": the client is closed: connect again");
  std::string wire;
  std::vector<ScriptCall> scripts;
  for (std::size_t from = 0; from < items.size(); from += kRenewalsPerScript) {
    scripts.push_back(
        requests_.renew(items, from, std::min(items.size(), from + kRenewalsPerScript)));
    wire += scripts.back().by_hash();
  }
  base::BootInstant sent = base::BootClock::now();
  auto replies = turn->call(wire, scripts.size(), deadline);
  if (!replies) return replies.error();
  std::vector<Result<AcquisitionState>> states;
  states.reserve(items.size());
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    Result<Reply> reply = std::move((*replies)[i]);
    if (is_unknown_script(reply)) {
      sent = base::BootClock::now();
      auto again = turn->call(scripts[i].whole(), 1, deadline);
      reply = again ? Result<Reply>(std::move(again->front())) : Result<Reply>(again.error());
    }
    if (reply && !reply->items.empty()) watch_clock(sent, reply->items.back().text);
    append_states(checked(std::move(reply), address_), scripts[i].key_count(), items, states);
  }
  return states;
}

// Leases end by the server's wall clock, so operators are told when that clock was set.
void Renewer::watch_clock(base::BootInstant sent, std::string_view microseconds) {
  if (!requests_.by_server_time()) return;
  Fields fields(microseconds);
  const ServerClock::Micros told(fields.number<std::int64_t>());
  if (!fields.good()) return;
  const auto jump = clock_.observe(sent, base::BootClock::now(), told);
  if (!jump) return;
  const auto seconds = std::chrono::abs(std::chrono::round<std::chrono::seconds>(*jump));
  std::string line =
      address_ + ": the server's wall clock was set " + (*jump < jump->zero() ? "back" : "ahead") +
      " by about " + std::to_string(seconds.count()) +
      (*jump < jump->zero() ? " s: leases that are not renewed last that much longer"
                            : " s: leases ended that much early, and two may believe they hold a "
                              "lock; only fencing tokens tell them apart") +
      "; let NTP slew that clock, never step it";
  on_alarm_(std::move(line));
}

}  // namespace holdfast::stores::redis
