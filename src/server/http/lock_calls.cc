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
#include "src/server/http/lock_answers.h"
#include "src/server/id_numbers.h"

namespace holdfast::server {
namespace {

using machine::AcquisitionId;
using machine::Outcome;
using nlohmann::json;

constexpr std::size_t kLongestText = 256;
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
    if (!waits.has_room(call->caller.connection)) {
      return call->done(
          failed({Errc::kQueueFull, "too many calls wait, in all or of this address"}));
    }
    return waits.enter(
        {*call->service, call->caller.connection, user_of(*call), wait, call->caller.departure},
        wish, answering(call, then));
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

// A body that the leader refuses has no time to wait.
std::chrono::milliseconds wait_of(const HttpRequest& request) {
  json body;
  if (is_read(request) || !read_body(request.body, body).empty()) return {};
  const auto found = body.find("wait_ms");
  if (found == body.end() || !found->is_number_unsigned()) return {};
  const auto most = static_cast<std::uint64_t>(kLongestWait.count());
  return std::chrono::milliseconds(std::min(found->get<std::uint64_t>(), most));
}

HttpAnswer not_forwarded(const HttpRequest& request, const std::string& leader) {
  const bool again = !request.forwarded.empty();
  if (again || leader.empty()) return standing_by(leader);
  return standing_by(leader, "it has told no HTTP port that others reach");
}

// The caller's password is right here, so nothing is for the caller to correct.
HttpAnswer other_users(const std::string& leader) {
  return http_error(
      503, "other_users",
      "the server at " + leader + " leads, and does not accept this user and password",
      "ask the operator: all servers need the same users file");
}

// The leader judges rights, and its answer is the caller's.
void forward(const HttpScene& scene, std::uint32_t shard, const LockCall& call,
             const HttpRequest& request) {
  const std::string& leader = scene.shards[shard].leader;
  if (!scene.can_forward(request, leader)) return call.done(not_forwarded(request, leader));
  const AccountPtr& account = call.caller.account;
  if (account != nullptr) {
    if (auto often = account->refuse_rate(base::BootClock::now())) return call.done(failed(*often));
  }
  call.caller.departure->then = scene.forwarder->ask(
      {leader, shard, call.caller.address, wait_of(request)}, request,
      [leader, reads = is_read(request), done = call.done](Result<HttpAnswer> answer) {
        if (answer && answer->status == 401) return done(other_users(leader));
        if (answer) return done(*std::move(answer));
        const Error& error = answer.error();
        if (error.code() == Errc::kUnavailable) return done(standing_by(leader, error.message()));
        if (error.code() == Errc::kQueueFull) return done(failed(error));
        const std::string why = "the server at " + leader + " was asked: " + error.message();
        done(failed({reads ? Errc::kUnavailable : Errc::kOutcomeUnknown, why}));
      });
}

// False: this server does not lead that shard. Then the one that does is asked.
bool go_to(const HttpScene& scene, std::uint32_t shard, LockCall& call,
           const HttpRequest& request) {
  call.service = scene.shards[shard].service;
  call.caller.departure->shard = shard;
  if (call.service == nullptr) forward(scene, shard, call, request);
  return call.service != nullptr;
}

}  // namespace

void answer_lock_call(const HttpScene& scene, std::string_view path, const HttpQuery& query,
                      const HttpRequest& request, const HttpCaller& caller, const Answered& done) {
  const bool reads = is_read(request);
  const auto call = make_call(scene, caller, done);
  if (path.empty()) {
    if (!reads) return done(wrong_method("GET, HEAD"));
    if (caller.account != nullptr) {
      if (auto often = caller.account->refuse_rate(base::BootClock::now()))
        return done(failed(*often));
    }
    return answer_list(scene, query, request, caller, done);
  }
  path.remove_prefix(1);
  const std::size_t slash = path.find('/');
  auto name = read_name(path.substr(0, slash), done);
  if (!name) return;
  call->name = *std::move(name);
  if (!go_to(scene, scene.shard_of(call->name), *call, request)) return;
  if (slash != path.npos) return change_lock(call, path.substr(slash + 1), request);
  if (!reads) return done(wrong_method("GET, HEAD"));
  if (const auto refused = refuse_user(*call, Right::kObserve, call->name)) return done(*refused);
  inspect(call);
}

// All numbers are in the first shard.
void answer_id_call(const HttpScene& scene, std::string_view path, const HttpRequest& request,
                    const HttpCaller& caller, const Answered& done) {
  const auto call = make_call(scene, caller, done);
  if (!go_to(scene, 0, *call, request)) return;
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
