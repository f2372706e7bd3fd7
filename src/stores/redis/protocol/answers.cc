#include "src/stores/redis/protocol/answers.h"

#include "holdfast/detail/number.h"
#include "src/base/random.h"
#include "src/machine/image.h"
#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::redis {
namespace {

using machine::Duration;
using machine::Instant;
using machine::Outcome;

struct Word {
  std::string_view text;
  Outcome outcome;
};
constexpr Word kWords[] = {
    {"held", Outcome::kHeld},         {"waiting", Outcome::kWaiting},
    {"busy", Outcome::kBusy},         {"gone", Outcome::kGone},
    {"released", Outcome::kReleased}, {"cancelled", Outcome::kCancelled},
    {"done", Outcome::kDone},         {"notheld", Outcome::kNotHeld},
    {"mismatch", Outcome::kMismatch}, {"toolarge", Outcome::kTooLarge},
    {"full", Outcome::kQueueFull},    {"deadlock", Outcome::kWouldDeadlock},
    {"invalid", Outcome::kInvalid},   {"exhausted", Outcome::kExhausted},
    {"ended", Outcome::kInvalid},
};

void read_terms(Fields& fields, machine::Reply& reply) {
  reply.seq = fields.number();
  reply.lease = Duration(fields.amount());
}

// "<family> <capacity>" of a mismatch.
machine::LockImage in_use(std::string_view text) {
  Fields fields(text);
  machine::LockImage image;
  const bool permits = fields.word() == "p";
  image.kind = permits ? machine::ModeKind::kPermits : machine::ModeKind::kExclusive;
  image.capacity = fields.number<std::uint32_t>();
  return image;
}

}  // namespace

Error no_answer(std::string_view text) {
  return {Errc::kCorruptState, "the server gave an answer that is none of Holdfast's scripts: '" +
                                   std::string(text.substr(0, 80)) + "'"};
}

Result<machine::Reply> parse_answer(std::string_view text) {
  Fields fields(text);
  const std::string_view head = fields.word();
  for (const Word& word : kWords) {
    if (word.text != head) continue;
    machine::Reply reply;
    reply.outcome = word.outcome;
    if (word.outcome == Outcome::kHeld) {
      reply.token = {0, fields.number()};
      read_terms(fields, reply);
      if (reply.token == machine::Token{}) return no_answer(text);
    } else if (word.outcome == Outcome::kWaiting) {
      read_terms(fields, reply);
      reply.position = fields.number<std::uint32_t>();
      reply.next_expiry = Instant(Duration(fields.number<std::int64_t>()));
    } else if (word.outcome == Outcome::kBusy) {
      reply.next_expiry = Instant(Duration(fields.number<std::int64_t>()));
    }
    // Only a mismatch has more words: how the lock is in use.
    const bool whole = fields.rest().empty() || word.outcome == Outcome::kMismatch;
    if (!fields.good() || !whole) return no_answer(text);
    return reply;
  }
  return no_answer(text);
}

Result<port::AcquisitionState> acquire_answer(std::string_view text,
                                              const port::AcquireRequest& request) {
  const auto reply = parse_answer(text);
  if (!reply) return reply.error();
  machine::LockImage current;
  if (reply->outcome == Outcome::kMismatch) {
    current = in_use(text.substr(text.find(' ') + 1));
  } else if (text == "invalid" && request.upgrade_of) {
    // The ticket to upgrade holds, but its mode cannot be upgraded.
    machine::TicketImage base;
    base.id = request.upgrade_of;
    base.held = true;
    current.tickets.push_back(base);
  }
  return port::to_acquire_result(*reply, request, &current, Instant());
}

Result<port::AcquisitionState> renew_answer(std::string_view text, const port::RenewItem& item) {
  if (text.starts_with("broken ")) {
    const BreakInfo trace = port::to_public(port::read_trace(text.substr(7)));
    const bool ours = port::to_public(item.token) == trace.token && item.token != port::Token{};
    if (ours) return port::broken_error(item.name, trace);
    return port::AcquisitionState{.status = port::AcquisitionStatus::kGone};
  }
  if (text.starts_with("error ")) return failed_answer(text, item.name);
  const auto reply = parse_answer(text);
  if (!reply) return reply.error();
  auto state = port::to_ticket_state(*reply, item.name, Instant());
  // A promoted server did not know of the grant, and has granted the lock anew. The holder's own
  // grant is lost: others may have held the lock meanwhile, and its token is not the newest.
  const bool other = state && state->status == port::AcquisitionStatus::kHeld &&
                     item.token != port::Token{} && state->token != item.token;
  if (other) return port::AcquisitionState{.status = port::AcquisitionStatus::kGone};
  return state;
}

Result<port::AcquisitionState> downgrade_answer(std::string_view text, const std::string& name) {
  const auto reply = parse_answer(text);
  if (!reply) return reply.error();
  return port::to_ticket_state(*reply, name, Instant());
}

Result<port::EndStatus> end_answer(std::string_view text, const std::string& name) {
  const auto reply = parse_answer(text);
  if (!reply) return reply.error();
  return port::to_end_status(*reply, name);
}

Result<bool> done_answer(std::string_view text, const std::string& name) {
  const auto reply = parse_answer(text);
  if (!reply) return reply.error();
  return port::to_done(*reply, name);
}

Error failed_answer(std::string_view text, const std::string& name) {
  const std::string what = "lock '" + name + "'";
  if (auto known = script_error(text, what)) return *std::move(known);
  // Retrying does not help here, unlike with the other refusals.
  Reply said;
  said.text = text.substr(6);
  Error error = to_error(said, what);
  // A script answers TRYAGAIN before it writes.
  if (error.code() == Errc::kPermissionDenied || said.text.starts_with("TRYAGAIN ")) return error;
  return {Errc::kOutcomeUnknown, what + ": the server said " + std::string(text.substr(6))};
}

std::optional<Error> script_error(std::string_view message, std::string_view what) {
  const auto from = [&](std::string_view word) -> std::optional<std::string> {
    const std::size_t at = message.find(word);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = message.substr(at + word.size());
    rest = rest.substr(0, rest.find(" script:"));  // Redis appends script and line.
    return std::string(rest);
  };
  if (const auto version = from("HOLDFAST-VERSION ")) {
    return Error(Errc::kVersionMismatch,
                 std::string(what) + ": the lock was written in format " + *version +
                     ", which a later version of Holdfast made; update this program");
  }
  if (const auto place = from("HOLDFAST-CORRUPT ")) {
    return Error(Errc::kCorruptState, std::string(what) + ": what is stored is not Holdfast's (" +
                                          *place +
                                          "); look at it with redis-cli, and delete the "
                                          "key if nobody holds the lock");
  }
  return std::nullopt;
}

std::optional<port::Push> parse_push(std::string_view payload) {
  Fields fields(payload);
  const std::string_view kind = fields.word();
  const auto id = parse_id(fields.word());
  if (!id || !*id) return std::nullopt;
  port::Push push;
  push.id = *id;
  if (kind == "hint") {
    push.kind = port::Push::Kind::kHint;
    return push;
  }
  if (kind == "delayed") {
    push.kind = port::Push::Kind::kDelayed;
    push.state.status = port::AcquisitionStatus::kWaiting;
    push.state.opens_in = Duration(fields.amount());
    return fields.good() ? std::optional(push) : std::nullopt;
  }
  if (kind != "granted") return std::nullopt;
  push.kind = port::Push::Kind::kGranted;
  push.state.status = port::AcquisitionStatus::kHeld;
  push.state.token = {0, fields.number()};
  push.state.seq = fields.number();
  push.state.lease = Duration(fields.amount());
  if (!fields.good() || push.state.token == port::Token{}) return std::nullopt;
  return push;
}

std::optional<std::string_view> told_value(std::string_view payload) {
  constexpr std::string_view kHead = "value ";
  if (!payload.starts_with(kHead)) return std::nullopt;
  return payload.substr(kHead.size());
}

std::string id_text(const port::AcquisitionId& id) { return base::to_hex(id.high, id.low); }

std::optional<port::AcquisitionId> parse_id(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = detail::parse_number<std::uint64_t>(text.substr(0, 16), 16);
  const auto low = detail::parse_number<std::uint64_t>(text.substr(16), 16);
  if (!high || !low) return std::nullopt;
  return port::AcquisitionId{*high, *low};
}

std::string padded(std::uint64_t value) {
  std::string digits = std::to_string(value);
  if (digits.size() < kPaddedSize) digits.insert(0, kPaddedSize - digits.size(), '0');
  return digits;
}

}  // namespace holdfast::stores::redis
