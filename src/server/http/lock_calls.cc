// /v1/locks: requests for locks as JSON, and the service's answers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/base/lock_name.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/server/front/libraries/library_owner.h"
#include "src/server/http/routes.h"
#include "src/server/id_numbers.h"

namespace holdfast::server {
namespace {

using machine::AcquisitionId;
using machine::Outcome;
using nlohmann::json;

constexpr std::size_t kLongestText = 256;
constexpr std::size_t kMostOnePage = 100;
constexpr std::chrono::milliseconds kLongestWait{300'000};

// One call, as its path and body say.
struct LockCall {
  Service* service;  // Null: this server does not lead the shard.
  HttpWaits* waits;
  std::string name;
  json body;
  HttpCaller caller;
  Answered done;
};

std::int64_t millis(machine::Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

HttpAnswer as_json(unsigned status, const json& body) {
  return {.status = status,
          .body = body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

HttpAnswer failed(const Error& error) {
  switch (error.code()) {
    case Errc::kPermissionDenied:
      return http_error(403, "no_right", error.message(), "ask for the right in the users file");
    case Errc::kQueueFull: {
      HttpAnswer answer = http_error(429, "too_many", error.message(), "wait, then repeat it");
      answer.headers.emplace_back("Retry-After", "1");
      return answer;
    }
    case Errc::kOutcomeUnknown:
      return http_error(503, "outcome_unknown", error.message(), "repeat it with the same id");
    case Errc::kInvalidArgument: return bad_request(error.message());
    case Errc::kUnsupported:
      return http_error(409, "used_up", error.message(), "ask the operator for another namespace");
    case Errc::kCorruptState:
      return http_error(503, "stopped", error.message(), "ask the operator");
    case Errc::kCancelled:
      return http_error(409, "released", error.message(), "ask again, with another id");
    case Errc::kClosed: return http_error(409, "replaced", error.message(), "await the later call");
    default: {
      HttpAnswer answer = http_error(503, "unavailable", error.message(), "repeat it");
      answer.headers.emplace_back("Retry-After", "1");
      return answer;
    }
  }
}

HttpAnswer standing_by(const std::string& leader) {
  HttpAnswer answer =
      http_error(503, "standing_by",
                 leader.empty() ? "no server leads yet" : "the server at " + leader + " leads",
                 leader.empty() ? "repeat it" : "ask the HTTP port of that server");
  answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer restored(machine::Duration quiet) {
  HttpAnswer answer = http_error(
      503, "restored", quiet_text(quiet),
      "ask again then; or, if every client of this journal was stopped, the operator starts the "
      "server with --clients-stopped");
  answer.headers.emplace_back("Retry-After", std::to_string((millis(quiet) + 999) / 1000));
  return answer;
}

std::optional<AcquisitionId> read_id(const std::string& text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = detail::parse_number<std::uint64_t>(std::string_view(text).substr(0, 16), 16);
  const auto low = detail::parse_number<std::uint64_t>(std::string_view(text).substr(16), 16);
  if (!high || !low || (*high | *low) == 0) return std::nullopt;
  return AcquisitionId{*high, *low};
}

// The fields of a body. An unknown one is refused: it may ask for what this server does not do.
class Fields {
 public:
  explicit Fields(const json& body) : body_(body) {}

  std::string text(const char* name, const std::string& otherwise = {}) {
    const json* found = find(name);
    if (found == nullptr) return otherwise;
    if (!found->is_string()) return spoil(std::string("'") + name + "' must be a text");
    auto value = found->get<std::string>();
    if (value.size() > kLongestText) {
      return spoil(std::string("'") + name + "' has more than " + std::to_string(kLongestText) +
                   " bytes");
    }
    return value;
  }
  AcquisitionId id(bool required) {
    const std::string given = text("id");
    if (given.empty() && !required) {
      const auto drawn = base::random_128();
      return {drawn.high, drawn.low};
    }
    const auto value = read_id(given);
    if (!value) spoil("'id' must be 32 hexadecimal digits, not all 0");
    return value.value_or(AcquisitionId{});
  }
  std::chrono::milliseconds ttl() {
    return time("ttl_ms", std::chrono::milliseconds(100),
                std::chrono::duration_cast<std::chrono::milliseconds>(kLongestLease));
  }
  std::chrono::milliseconds wait() {
    if (find("wait_ms") == nullptr) return {};
    return time("wait_ms", std::chrono::milliseconds(0), kLongestWait);
  }
  std::uint64_t count() {
    const json* found = find("count");
    if (found == nullptr) return 1;
    if (found->is_number_unsigned()) return found->get<std::uint64_t>();
    spoil("'count' must be a whole number");
    return 0;
  }
  // Why the body is refused; empty: it is fine. It is asked last, when all fields were looked for.
  // An unknown one comes first, because it may be the reason why another one is missing.
  std::string trouble() const {
    for (const auto& [name, value] : body_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      std::string all;
      for (const std::string& each : known_) all += (all.empty() ? "" : ", ") + each;
      return "this call has no field '" + name.substr(0, 64) + "': it has " + all;
    }
    return trouble_;
  }
  std::string spoil(const std::string& why) {
    if (trouble_.empty()) trouble_ = why;
    return {};
  }

 private:
  std::chrono::milliseconds time(const char* name, std::chrono::milliseconds least,
                                 std::chrono::milliseconds most) {
    const json* found = find(name);
    if (found != nullptr && found->is_number_unsigned()) {
      const auto value = found->get<std::uint64_t>();
      if (value >= static_cast<std::uint64_t>(least.count()) &&
          value <= static_cast<std::uint64_t>(most.count())) {
        return std::chrono::milliseconds(value);
      }
    }
    spoil(std::string("'") + name + "' must be a whole number from " +
          std::to_string(least.count()) + " to " + std::to_string(most.count()));
    return {};
  }
  const json* find(const char* name) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
    const auto found = body_.find(name);
    return found == body_.end() ? nullptr : &*found;
  }

  const json& body_;
  std::vector<std::string> known_;  // The call's fields, in the order in which it looked for them.
  std::string trouble_;
};

std::string user_of(const LockCall& call) {
  return call.caller.account == nullptr ? std::string() : call.caller.account->user->name;
}

machine::OwnerPtr owner_of(const LockCall& call, Fields& fields) {
  machine::OwnerInfo owner;
  owner.owner = fields.text("owner", user_of(call));
  owner.reason = fields.text("reason");
  owner.host = call.caller.address;
  owner.program = "http";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  owner.since_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return std::make_shared<const machine::OwnerInfo>(std::move(owner));
}

// A call that was sent before may have begun the lease, so this is what is left of it.
HttpAnswer grant(const LockCall& call, AcquisitionId id, const Answer& answer) {
  const auto left = std::max(answer.reply.lease_end - answer.at, machine::Duration::zero());
  return as_json(200, {{"name", call.name},
                       {"id", base::to_hex(id.high, id.low)},
                       {"token", std::to_string(answer.reply.token.counter)},
                       {"ttl_ms", millis(std::min(left, answer.reply.lease))}});
}

// Nobody holds any more, and lock-delays keep the lock closed.
HttpAnswer still_closed(machine::Duration left, const std::string& advice) {
  const std::int64_t ms = millis(left);
  HttpAnswer answer = http_error(
      409, "busy",
      "nobody holds the lock any more; its last holder's lock-delay keeps it closed for " +
          std::to_string(ms) + " ms",
      advice);
  answer.headers.emplace_back("Retry-After", std::to_string((ms + 999) / 1000));
  return answer;
}

// The ticket has left the queue, and the id is used up.
HttpAnswer waited_in_vain(const Answer& answer) {
  constexpr char kAdvice[] = "repeat it later, with a new id";
  if (answer.reply.opens_at > answer.at) {
    return still_closed(answer.reply.opens_at - answer.at, kAdvice);
  }
  return http_error(409, "busy", "the lock was not free in time", kAdvice);
}

HttpAnswer other_mode() {
  return http_error(409, "mismatch", "an earlier call with this id asked for another mode",
                    "use a new id");
}

HttpAnswer refusal(const Answer& answer) {
  switch (answer.reply.outcome) {
    case Outcome::kCancelled: return waited_in_vain(answer);
    case Outcome::kBusy: {
      constexpr char kAdvice[] = "repeat it later, with the same id or none";
      if (answer.reply.opens_at > answer.at) {
        return still_closed(answer.reply.opens_at - answer.at, kAdvice);
      }
      const auto left = std::max(answer.reply.next_expiry - answer.at, machine::Duration::zero());
      return http_error(409, "busy",
                        "others hold the lock; the first of their leases ends in " +
                            std::to_string(millis(left)) + " ms unless it is renewed",
                        kAdvice);
    }
    case Outcome::kGone:
      return http_error(410, "gone", "this acquisition has ended, or never was",
                        "acquire again with a new id");
    case Outcome::kNotHeld:
      return http_error(409, "not_held", "nobody holds with this token", "inspect the lock again");
    case Outcome::kMismatch:
      if (answer.in_use && answer.in_use->kind != machine::ModeKind::kPermits) return other_mode();
      return http_error(409, "mismatch", "the lock is in use in another way",
                        "use it in the way in which others do");
    default:
      return http_error(409, "refused", "the lock cannot be had in this way", "inspect the lock");
  }
}

// Answers `call` with what becomes of the request.
template <typename Then>
Done<Answer> answering(const std::shared_ptr<LockCall>& call, Then then) {
  return [call, then](const Result<Answer>& answer) {
    call->done(answer ? then(*answer) : failed(answer.error()));
  };
}

template <typename Then>
void submit(const std::shared_ptr<LockCall>& call, Request request, Then then) {
  request.user = user_of(*call);
  call->service->submit(request, answering(call, then));
}

void acquire(const std::shared_ptr<LockCall>& call, Fields& fields) {
  machine::Acquire wish;
  wish.name = call->name;
  wish.id = fields.id(/*required=*/false);
  const std::chrono::milliseconds ttl = fields.ttl();
  const std::chrono::milliseconds wait = fields.wait();
  wish.ttl = ttl;
  // Whoever is granted at the end of the wait has a whole lease left.
  wish.waiter_ttl = ttl + wait;
  wish.may_wait = wait > std::chrono::milliseconds::zero();
  if (wish.waiter_ttl > kLongestLease) fields.spoil("'ttl_ms' and 'wait_ms' are too long together");
  wish.owner = owner_of(*call, fields);
  const std::string mode = fields.text("mode", "exclusive");
  if (mode == "shared") wish.mode = machine::Mode::shared();
  if (mode != "shared" && mode != "exclusive") fields.spoil("'mode' is exclusive or shared");
  if (const auto why = fields.trouble(); !why.empty()) return call->done(bad_request(why));
  const auto then = [call, id = wish.id](const Answer& answer) {
    return answer.reply.outcome == Outcome::kHeld ? grant(*call, id, answer) : refusal(answer);
  };
  HttpWaits& waits = *call->waits;
  if (waits.has_in_other_mode(call->name, wish.id, wish.mode)) return call->done(other_mode());
  if (wish.may_wait) {
    if (!waits.has_room(call->caller.address)) {
      return call->done(
          failed({Errc::kQueueFull, "too many calls wait, in all or of this address"}));
    }
    return waits.enter(
        {*call->service, call->caller.address, user_of(*call), wait, call->caller.departure}, wish,
        answering(call, then));
  }
  // An earlier call with this id may wait.
  waits.replace(call->name, wish.id);
  submit(call, {.client = waits.client(), .action = wish},
         [call, then, id = wish.id](const Answer& answer) {
           if (answer.reply.outcome != Outcome::kWaiting) return then(answer);
           call->service->submit(
               {.action = machine::Cancel{call->name, id, {}}, .user = user_of(*call)},
               [](const Result<Answer>&) {});
           return waited_in_vain(answer);
         });
}

// The service orders renewals by a number that its native clients count. HTTP callers do not, so
// the number after the ticket's own is taken.
void renew(const std::shared_ptr<LockCall>& call, Fields& fields) {
  const AcquisitionId id = fields.id(/*required=*/true);
  const machine::Duration ttl = fields.ttl();
  if (const auto why = fields.trouble(); !why.empty()) return call->done(bad_request(why));
  call->service->inspect(call->name, [call, id, ttl](const Result<LockSight>& sight) {
    if (!sight) return call->done(failed(sight.error()));
    std::uint64_t seq = 0;
    if (sight->lock) {
      for (const auto& ticket : sight->lock->tickets) {
        if (ticket.id == id && ticket.held) seq = ticket.seq + 1;
      }
    }
    if (seq == 0) return call->done(refusal({.reply = {.outcome = Outcome::kGone}}));
    submit(call, {.action = machine::Renew{call->name, id, seq, ttl, ttl}},
           [call, id](const Answer& answer) {
             // One that reaches no further changes nothing, and is told what is left.
             return answer.reply.outcome == Outcome::kHeld ? grant(*call, id, answer)
                                                           : refusal(answer);
           });
  });
}

void release(const std::shared_ptr<LockCall>& call, Fields& fields) {
  const AcquisitionId id = fields.id(/*required=*/true);
  if (const auto why = fields.trouble(); !why.empty()) return call->done(bad_request(why));
  call->waits->release(call->name, id);
  submit(call, {.action = machine::Release{call->name, id, {}}}, [call](const Answer& answer) {
    const Outcome outcome = answer.reply.outcome;
    if (outcome != Outcome::kReleased && outcome != Outcome::kCancelled) return refusal(answer);
    return as_json(200, {{"name", call->name}, {"released", outcome == Outcome::kReleased}});
  });
}

void break_lock(const std::shared_ptr<LockCall>& call, Fields& fields) {
  const auto token = detail::parse_number<std::uint64_t>(fields.text("token"));
  if (!token || *token == 0) fields.spoil("'token' must be the text that inspection shows");
  const auto by = owner_of(*call, fields);
  if (by->reason.empty()) fields.spoil("'reason' must say why");
  if (const auto why = fields.trouble(); !why.empty()) return call->done(bad_request(why));
  submit(call, {.action = machine::Break{call->name, {0, *token}, {}, by}},
         [call](const Answer& answer) {
           if (answer.reply.outcome != Outcome::kReleased) return refusal(answer);
           return as_json(200, {{"name", call->name}, {"broken", true}});
         });
}

void next_ids(const std::shared_ptr<LockCall>& call, Fields& fields) {
  const std::uint64_t count = fields.count();
  if (const auto why = fields.trouble(); !why.empty()) return call->done(bad_request(why));
  take_numbers(
      *call->service, call->name, count, /*as_range=*/false, user_of(*call),
      [call, count](const auto& taken) {
        if (!taken && taken.error().code() == Errc::kInvalidArgument && fits_one_call(count)) {
          return call->done(http_error(404, "no_such_ids", taken.error().message(),
                                       "ask the operator to make them"));
        }
        if (!taken) return call->done(failed(taken.error()));
        if (!taken->with_time.empty()) {
          json ids = json::array();
          for (const std::uint64_t id : taken->with_time) ids.push_back(std::to_string(id));
          return call->done(as_json(
              200, {{"name", call->name}, {"ids", std::move(ids)}, {"count", taken->count}}));
        }
        call->done(as_json(200, {{"name", call->name},
                                 {"first", std::to_string(taken->first)},
                                 {"last", std::to_string(taken->last())},
                                 {"count", taken->count}}));
      });
}

json ticket_json(const machine::TicketImage& ticket, machine::Instant at,
                 const AccountPtr& account) {
  json out = {
      {"mode", ticket.mode.kind == machine::ModeKind::kShared      ? "shared"
               : ticket.mode.kind == machine::ModeKind::kExclusive ? "exclusive"
                                                                   : "permits"},
      {"expires_in_ms", millis(std::max(ticket.lease_end - at, machine::Duration::zero()))}};
  if (ticket.held) out["token"] = std::to_string(ticket.token.counter);
  if (const auto delay = port::delay_of(ticket); ticket.held && delay.count() > 0) {
    out["lock_delay_ms"] = delay.count();
  }
  if (ticket.owner != nullptr) {
    out["owner"] = shown_owner(account, ticket.owner)->owner;
    out["host"] = ticket.owner->host;
    out["pid"] = ticket.owner->pid;
    out["program"] = ticket.owner->program;
    out["reason"] = ticket.owner->reason;
    out["since_unix_ms"] = ticket.owner->since_unix_ms;
  }
  return out;
}

// A queue may be long, and the loop writes its text.
constexpr std::size_t kShownTickets = 100;

// Ids are never shown: who has one can end that hold.
json sight_json(const LockSight& sight, const AccountPtr& account) {
  json holders = json::array();
  json queue = json::array();
  std::size_t holding = 0;
  std::size_t waiting = 0;
  LockInfo info;  // Its holders alone.
  if (sight.lock) {
    for (const auto& ticket : sight.lock->tickets) {
      if (ticket.system) continue;
      if (ticket.held) info.holders.push_back(port::to_holder_info(ticket, sight.at));
      if (++(ticket.held ? holding : waiting) > kShownTickets) continue;
      (ticket.held ? holders : queue).push_back(ticket_json(ticket, sight.at, account));
    }
  }
  json out = {{"name", sight.name},
              {"holding", holding},
              {"waiting", waiting},
              {"holders", holders},
              {"queue", queue}};
  if (const auto left = info.opens_in(); left.count() > 0) out["opens_in_ms"] = left.count();
  if (sight.last_break) {
    out["last_break"] = {{"token", std::to_string(sight.last_break->token.counter)}};
    if (sight.last_break->by != nullptr) {
      out["last_break"]["by"] = sight.last_break->by->owner;
      out["last_break"]["reason"] = sight.last_break->by->reason;
    }
  }
  return out;
}

// A page of locks, from all shards that this server leads.
struct Page {
  std::vector<LockSight> sights{};
  std::size_t limit = 0;
  std::size_t left = 0;  // Shards that have not answered.
  std::optional<Error> failure{};
  json elsewhere = json::array();  // The shards of other servers.
};

// JSON is UTF-8, and earlier servers took names that are not. These are told in hexadecimal digits
// behind a control character, which no name has.
constexpr char kInHex = '\x01';

std::string after_text(const std::string& name) {
  if (base::is_utf8(name)) return name;
  std::string text(1, kInHex);
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    text += detail::kLowerDigits[byte >> 4U];
    text += detail::kLowerDigits[byte & 0xfU];
  }
  return text;
}

std::optional<std::string> read_after(const std::string& text) {
  if (!text.starts_with(kInHex)) return text;
  std::string name;
  for (std::size_t at = 1; at < text.size(); at += 2) {
    const auto byte = detail::parse_number<std::uint8_t>(text.substr(at, 2), 16);
    if (!byte) return std::nullopt;
    name += static_cast<char>(*byte);
  }
  return name;
}

HttpAnswer page_answer(Page& page, const AccountPtr& account) {
  if (page.failure) return failed(*page.failure);
  std::sort(page.sights.begin(), page.sights.end(),
            [](const LockSight& one, const LockSight& other) { return one.name < other.name; });
  if (page.sights.size() > page.limit) page.sights.resize(page.limit);
  json locks = json::array();
  for (const LockSight& each : page.sights) locks.push_back(sight_json(each, account));
  json out = {{"locks", locks}};
  if (page.sights.size() == page.limit) out["next_after"] = after_text(page.sights.back().name);
  if (!page.elsewhere.empty()) out["elsewhere"] = std::move(page.elsewhere);
  return as_json(200, out);
}

// All shards have the same page at most, so the first names of all are among theirs.
void list_shards(const HttpScene& scene, const std::shared_ptr<LockCall>& call,
                 const std::string& prefix, const std::string& after, std::size_t limit) {
  const auto page = std::make_shared<Page>(Page{.limit = limit, .left = scene.leading()});
  for (std::size_t shard = 0; shard < scene.shards.size(); ++shard) {
    if (scene.shards[shard].service != nullptr) continue;
    page->elsewhere.push_back({{"shard", shard}, {"leader", scene.shards[shard].leader}});
  }
  for (const HttpShard& each : scene.shards) {
    if (each.service == nullptr) continue;
    each.service->list(prefix, after, limit, [call, page](Result<std::vector<LockSight>> sights) {
      if (!sights) {
        page->failure = sights.error();
      } else {
        std::move(sights->begin(), sights->end(), std::back_inserter(page->sights));
      }
      if (--page->left == 0) call->done(page_answer(*page, call->caller.account));
    });
  }
}

void list(const HttpScene& scene, const std::shared_ptr<LockCall>& call, const HttpQuery& query) {
  const auto text = [&query](const char* word, const std::string& otherwise) {
    const auto found = query.find(word);
    return found == query.end() ? otherwise : found->second;
  };
  const std::string prefix = text("prefix", "");
  const auto good = base::check_lock_prefix(prefix);
  if (!good) return call->done(bad_request(good.error().message()));
  const auto after = read_after(text("after", ""));
  if (!after || after->size() > base::kLongestStoredName) {
    return call->done(bad_request("'after' must be what 'next_after' was"));
  }
  const auto limit =
      detail::parse_number<std::size_t>(text("limit", std::to_string(kMostOnePage))).value_or(0);
  if (limit < 1 || limit > kMostOnePage) {
    return call->done(
        bad_request("'limit' must be a whole number from 1 to " + std::to_string(kMostOnePage)));
  }
  const AccountPtr& account = call->caller.account;
  if (account != nullptr && !account->user->may_list(prefix)) {
    return call->done(failed({Errc::kPermissionDenied, "no right to observe all of these"}));
  }
  list_shards(scene, call, prefix, *after, limit);
}

void inspect(const std::shared_ptr<LockCall>& call) {
  call->service->inspect(call->name, [call](const Result<LockSight>& sight) {
    if (!sight) return call->done(failed(sight.error()));
    LockSight named = *sight;
    named.name = call->name;
    call->done(as_json(200, sight_json(named, call->caller.account)));
  });
}

struct Verb {
  std::string_view word;
  Right right;
  void (*run)(const std::shared_ptr<LockCall>&, Fields&);
};
constexpr Verb kVerbs[] = {{"acquire", Right::kAcquire, acquire},
                           {"renew", Right::kAcquire, renew},
                           {"release", Right::kAcquire, release},
                           {"break", Right::kBreak, break_lock}};

// A primitive's inner locks are out of reach: no name of a user has a part '..' (safety rule 60).
// nullopt: it is no name, and the caller was told why.
std::optional<std::string> read_name(std::string_view part, const Answered& done) {
  auto name = detail::percent_decode(part);
  if (!name) return done(bad_request("the name in the path is not percent-encoded")), std::nullopt;
  const auto good = base::check_lock_name(*name);
  if (!good) return done(bad_request(good.error().message())), std::nullopt;
  return name;
}

// nullopt: the user may, and not too often.
std::optional<HttpAnswer> refuse_user(const LockCall& call, Right right, const std::string& name) {
  const AccountPtr& account = call.caller.account;
  if (auto denied = refuse(account, right, name)) return failed(*denied);
  if (account == nullptr) return std::nullopt;
  if (auto often = account->refuse_rate(base::BootClock::now())) return failed(*often);
  return std::nullopt;
}

// Reads a body. The answer is why it is refused; empty: it is fine. If a field has two values,
// either could be the one that was meant.
std::string read_body(const std::string& text, json& body) {
  std::set<std::string> fields;
  std::string twice;
  // Nothing nests, so deep texts are refused before they are built.
  const auto look = [&](int depth, json::parse_event_t event, const json& parsed) {
    if (event != json::parse_event_t::key || depth != 1) return depth <= 1;
    const auto name = parsed.get<std::string>();
    if (!fields.insert(name).second) twice = name.substr(0, 64);
    return true;
  };
  if (!base::is_utf8(text)) return "the body is not UTF-8";
  body = json::parse(text.empty() ? "{}" : text, look, /*allow_exceptions=*/false);
  if (!body.is_object()) return "the body must be one object of JSON";
  if (twice.empty()) return {};
  return "the body has the field '" + twice + "' more than once: give it one value";
}

// `run` with the fields of the body, if the user may.
void change(const std::shared_ptr<LockCall>& call, Right right, const std::string& name,
            const HttpRequest& request, void (*run)(const std::shared_ptr<LockCall>&, Fields&)) {
  if (request.method != "POST") return call->done(wrong_method("POST"));
  if (const auto refused = refuse_user(*call, right, name)) return call->done(*refused);
  if (const auto quiet = call->service->quiet(); quiet.count() > 0) {
    return call->done(restored(quiet));
  }
  const auto why = read_body(request.body, call->body);
  if (!why.empty()) return call->done(bad_request(why));
  Fields fields(call->body);
  run(call, fields);
}

void change_lock(const std::shared_ptr<LockCall>& call, std::string_view word,
                 const HttpRequest& request) {
  const auto* verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                  [&](const Verb& each) { return each.word == word; });
  if (verb == std::end(kVerbs)) {
    return call->done(http_error(404, "no_such_path", "a lock has no such call",
                                 "use acquire, renew, release or break"));
  }
  change(call, verb->right, call->name, request, verb->run);
}

std::shared_ptr<LockCall> make_call(const HttpScene& scene, const HttpCaller& caller,
                                    const Answered& done) {
  return std::make_shared<LockCall>(LockCall{.service = nullptr,
                                             .waits = scene.waits,
                                             .name = {},
                                             .body = {},
                                             .caller = caller,
                                             .done = done});
}

// False: this server does not lead that shard, and the caller was told so.
bool go_to(const HttpScene& scene, std::uint32_t shard, LockCall& call) {
  const HttpShard& found = scene.shards[shard];
  call.service = found.service;
  call.caller.departure->shard = shard;
  if (call.service == nullptr) call.done(standing_by(found.leader));
  return call.service != nullptr;
}

}  // namespace

void answer_lock_call(const HttpScene& scene, std::string_view path, const HttpQuery& query,
                      const HttpRequest& request, const HttpCaller& caller, const Answered& done) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const auto call = make_call(scene, caller, done);
  if (path.empty()) {
    if (scene.leading() == 0) return done(standing_by(scene.shards.front().leader));
    if (!reads) return done(wrong_method("GET, HEAD"));
    if (caller.account != nullptr) {
      if (auto often = caller.account->refuse_rate(base::BootClock::now()))
        return done(failed(*often));
    }
    return list(scene, call, query);
  }
  path.remove_prefix(1);
  const std::size_t slash = path.find('/');
  auto name = read_name(path.substr(0, slash), done);
  if (!name) return;
  call->name = *std::move(name);
  if (!go_to(scene, scene.shard_of(call->name), *call)) return;
  if (slash != path.npos) return change_lock(call, path.substr(slash + 1), request);
  if (!reads) return done(wrong_method("GET, HEAD"));
  if (const auto refused = refuse_user(*call, Right::kObserve, call->name)) return done(*refused);
  inspect(call);
}

// All numbers are in the first shard.
void answer_id_call(const HttpScene& scene, std::string_view path, const HttpRequest& request,
                    const HttpCaller& caller, const Answered& done) {
  const auto call = make_call(scene, caller, done);
  if (!go_to(scene, 0, *call)) return;
  const std::size_t slash = path.find('/');
  const auto name = read_name(path.substr(0, slash), done);
  if (!name) return;
  if (slash == path.npos || path.substr(slash + 1) != "next") {
    return done(http_error(404, "no_such_path", "ids have no such call", "use next"));
  }
  call->name = *name;
  change(call, Right::kAcquire, name_of_ids(*name), request, next_ids);
}

}  // namespace holdfast::server
