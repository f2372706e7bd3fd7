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

// `unconfirmed`: why what is held does not count.
void append_states(const Result<Reply>& reply, std::size_t count,
                   const std::optional<Error>& unconfirmed,
                   const std::vector<port::RenewItem>& items,
                   std::vector<Result<AcquisitionState>>& states) {
  for (std::size_t i = 0; i < count; ++i) {
    const port::RenewItem& item = items[states.size()];
    if (!reply) {
      states.emplace_back(reply.error());
    } else if (i < reply->items.size()) {
      auto state = renew_answer(reply->items[i].text, item);
      const bool held = state && state->status == port::AcquisitionStatus::kHeld;
      states.push_back(held && unconfirmed ? Result<AcquisitionState>(*unconfirmed)
                                           : std::move(state));
    } else {
      states.emplace_back(Error(Errc::kCorruptState, "the server left a renewal unanswered"));
    }
  }
}

}  // namespace

Renewer::Renewer(RemotePtr remote, const Requests& requests, Confirmation confirmation,
                 std::function<void(std::string)> on_alarm)
    : address_(remote->address.display()),
      requests_(requests),
      confirmation_(std::move(confirmation)),
      on_alarm_(std::move(on_alarm)),
      link_(std::move(remote)) {}

Result<std::vector<Reply>> Renewer::call(DirectLink::Turn& turn, std::string wire,
                                         std::size_t replies, base::BootInstant deadline) const {
  if (!confirmation_.wanted()) return turn.call(wire, replies, deadline);
  confirmation_.append(wire, deadline);
  return turn.call(wire, replies + Confirmation::kReplies, deadline);
}

std::optional<Error> Renewer::unconfirmed(std::vector<Reply>& replies) const {
  if (!confirmation_.wanted()) return std::nullopt;
  const Reply wait = std::move(replies.back());
  replies.pop_back();
  const Reply write = std::move(replies.back());
  replies.pop_back();
  if (confirmation_.given(write, wait)) return std::nullopt;
  return Error{Errc::kOutcomeUnknown, address_ + ": the lease counts as not renewed: " +
                                          confirmation_.missing(write, wait)};
}

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
  auto replies = call(*turn, std::move(wire), scripts.size(), deadline);
  if (!replies) return replies.error();
  const std::optional<Error> missing_first = unconfirmed(*replies);
  std::vector<Result<AcquisitionState>> states;
  states.reserve(items.size());
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    Result<Reply> reply = std::move((*replies)[i]);
    std::optional<Error> missing = missing_first;
    if (is_unknown_script(reply)) {
      sent = base::BootClock::now();
      auto again = call(*turn, scripts[i].whole(), 1, deadline);
      missing = again ? unconfirmed(*again) : std::nullopt;
      reply = again ? Result<Reply>(std::move(again->front())) : Result<Reply>(again.error());
    }
    if (reply && !reply->items.empty()) watch_clock(sent, reply->items.back().text);
    append_states(checked(std::move(reply), address_), scripts[i].key_count(), missing, items,
                  states);
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
