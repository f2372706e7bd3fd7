#include "src/stores/redis/renewer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/fields.h"
#include "src/stores/redis/renewal_threads.h"

namespace holdfast::stores::redis {
namespace {

using port::AcquisitionState;

// Locks per script. All other clients wait while a script runs.
constexpr std::size_t kRenewalsPerScript = 128;

// An error of one lock of several, as the scripts tell it.
constexpr std::string_view kError = "error ";

// `unconfirmed`: why what is held does not count.
Renewer::Answer answer_of(const Reply& reply, const std::optional<Error>& unconfirmed,
                          const port::RenewItem& item) {
  std::string_view said = reply.text;
  if (said.starts_with(kError)) said.remove_prefix(kError.size());
  auto state = renew_answer(reply.text, item);
  if (is_redirection(said)) return {std::move(state), std::string(said)};
  const bool held = state && state->status == port::AcquisitionStatus::kHeld;
  if (held && unconfirmed) return {Result<AcquisitionState>(*unconfirmed)};
  return {std::move(state)};
}

void append_answers(const Result<Reply>& reply, const Result<Reply>& good, std::size_t count,
                    const std::optional<Error>& unconfirmed,
                    const std::vector<port::RenewItem>& items,
                    std::vector<Renewer::Answer>& answers) {
  for (std::size_t i = 0; i < count; ++i) {
    const port::RenewItem& item = items[answers.size()];
    if (!good) {
      const bool redirected = reply && is_redirection(reply->text);
      answers.push_back({good.error(), redirected ? reply->text : std::string()});
    } else if (i < good->items.size()) {
      answers.push_back(answer_of(good->items[i], unconfirmed, item));
    } else {
      answers.push_back({Error(Errc::kCorruptState, "the server left a renewal unanswered")});
    }
  }
}

}  // namespace

Renewer::Renewer(RemotePtr remote, const Requests& requests, Confirmation confirmation,
                 std::function<void(std::string)> on_alarm)
    : address_(remote->address.display()),
      requests_(requests),
      confirmation_(std::move(confirmation)),
      on_alarm_(std::move(on_alarm)) {
  const std::size_t links =
      confirmation_.wanted() ? RenewalThreads::kForRenewals + RenewalThreads::kForHeartbeats : 1;
  while (links_.size() < links) links_.push_back(std::make_unique<DirectLink>(remote));
}

std::optional<DirectLink::Turn> Renewer::take_link() noexcept {
  for (const auto& link : links_) {
    if (auto turn = link->try_take()) return turn;
  }
  return std::nullopt;
}

Result<std::vector<Reply>> Renewer::call(DirectLink::Turn& turn,
                                         const std::vector<std::string>& requests,
                                         base::BootInstant deadline, How how,
                                         bool confirms) const {
  const bool prefixed = how == How::kAfterAsk;
  std::string wire;
  for (const std::string& request : requests) wire += (prefixed ? asking() : "") + request;
  const std::size_t number = requests.size() * (prefixed ? 2 : 1);
  if (confirms) confirmation_.append(wire, deadline);
  auto replies = turn.call(wire, number + (confirms ? Confirmation::kReplies : 0), deadline);
  if (!replies || !prefixed) return replies;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    replies->erase(replies->begin() + static_cast<std::ptrdiff_t>(i));
  }
  return replies;
}

std::optional<Error> Renewer::unconfirmed(std::vector<Reply>& replies) const {
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
  auto answers = ask(items, deadline, How::kTogether);
  if (!answers) return answers.error();
  std::vector<Result<AcquisitionState>> states;
  states.reserve(items.size());
  for (Answer& each : *answers) states.push_back(std::move(each.state));
  return states;
}

Result<std::vector<Renewer::Answer>> Renewer::ask(const std::vector<port::RenewItem>& items,
                                                  base::BootInstant deadline, How how) {
  const bool confirms =
      confirmation_.wanted() && !std::all_of(items.begin(), items.end(), is_heartbeat);
  auto answers = ask_once(items, deadline, how, confirms);
  if (!answers || confirms || !confirmation_.wanted()) return answers;
  // The whole request goes again. The confirmation alone could go to another server, if the
  // connection was lost in between.
  std::vector<port::RenewItem> granted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Result<AcquisitionState>& state = (*answers)[i].state;
    if (!state || state->status != port::AcquisitionStatus::kHeld) continue;
    granted.push_back(items[i]);
    places.push_back(i);
  }
  if (granted.empty()) return answers;
  auto confirmed = ask_once(granted, deadline, how, /*confirms=*/true);
  for (std::size_t i = 0; i < places.size(); ++i) {
    (*answers)[places[i]] = confirmed ? std::move((*confirmed)[i]) : Answer{confirmed.error()};
  }
  return answers;
}

Result<std::vector<Renewer::Answer>> Renewer::ask_once(const std::vector<port::RenewItem>& items,
                                                       base::BootInstant deadline, How how,
                                                       bool confirms) {
  auto turn = take_link();
  if (!turn) return Error(Errc::kClosed, address_ + ": the client is closed: connect again");
  const std::size_t most = how == How::kTogether ? kRenewalsPerScript : 1;
  std::vector<ScriptCall> scripts;
  std::vector<std::string> requests;
  for (std::size_t from = 0, to = 0; from < items.size(); from = to) {
    const std::uint16_t slot = requests_.slot_of(items[from].name);
    while (to < items.size() && to - from < most && requests_.slot_of(items[to].name) == slot) ++to;
    scripts.push_back(requests_.renew(items, from, to));
    requests.push_back(scripts.back().by_hash());
  }
  base::BootInstant sent = base::BootClock::now();
  auto replies = call(*turn, requests, deadline, how, confirms);
  if (!replies) return replies.error();
  const std::optional<Error> missing_first = confirms ? unconfirmed(*replies) : std::nullopt;
  std::vector<Answer> answers;
  answers.reserve(items.size());
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    Result<Reply> reply = std::move((*replies)[i]);
    std::optional<Error> missing = missing_first;
    if (is_unknown_script(reply)) {
      sent = base::BootClock::now();
      auto again = call(*turn, {scripts[i].whole()}, deadline, how, confirms);
      missing = again && confirms ? unconfirmed(*again) : std::nullopt;
      reply = again ? Result<Reply>(std::move(again->front())) : Result<Reply>(again.error());
    }
    if (reply && !reply->items.empty()) watch_clock(sent, reply->items.back().text);
    append_answers(reply, checked(reply, address_), scripts[i].key_count(), missing, items,
                   answers);
  }
  return answers;
}

// Leases end by the server's wall clock, so operators are told when that clock was set.
void Renewer::watch_clock(base::BootInstant sent, std::string_view microseconds) {
  if (!requests_.by_server_time()) return;
  Fields fields(microseconds);
  const ServerClock::Micros told(fields.number<std::int64_t>());
  if (!fields.good()) return;
  const auto jump = [&] {
    const base::LocalLock lock(mutex_);
    return clock_.observe(sent, base::BootClock::now(), told);
  }();
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

void Renewer::give_up() noexcept {
  for (const auto& link : links_) link->give_up();
}
void Renewer::close() {
  for (const auto& link : links_) link->close();
}
void Renewer::abandon() noexcept {
  for (const auto& link : links_) link->abandon();
}

}  // namespace holdfast::stores::redis
