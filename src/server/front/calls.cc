#include "src/server/front/calls.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/base/lock_name.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/server/front/channels/channels.h"
#include "src/server/front/libraries/library_owner.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

using machine::AcquisitionId;
using machine::Duration;
using machine::Instant;
using machine::Mode;
using machine::ModeKind;
using machine::Outcome;

constexpr std::string_view kKeyHead = "hf1:{";
constexpr std::size_t kMostKeys = 128;
constexpr std::size_t kMostTogether = 64;  // Locks of one acquire_all.
constexpr std::size_t kLongestClient = 64;
constexpr std::size_t kMostListed = 1'000;
// The longest lease. Longer ones would only be mistakes, and sums of instants must not overflow.
constexpr Duration kLongest = std::chrono::hours(24 * 366);

struct Row {
  std::string_view word;
  Op op;
  std::size_t least_keys;
  std::size_t most_keys;
  std::size_t common;    // Words before those of the keys.
  std::size_t each_key;  // Words for each key.
};
constexpr Row kRows[] = {
    {"acquire", Op::kAcquire, 1, kMostKeys, 1, 5},
    {"acquire_all", Op::kAcquireAll, 1, kMostTogether, 1, 5},
    {"end", Op::kEnd, 1, kMostKeys, 1, 3},
    {"renew", Op::kRenew, 1, kMostKeys, 1, 4},
    {"downgrade", Op::kDowngrade, 1, 1, 0, 1},
    {"break", Op::kBreak, 1, 1, 0, 2},
    {"resize", Op::kResize, 1, 1, 0, 3},
    {"set_value", Op::kSetValue, 1, 1, 0, 5},
    {"inspect", Op::kInspect, 1, 1, 0, 0},
    {"value", Op::kValue, 1, 1, 0, 0},
    {"list", Op::kList, 0, 0, 3, 0},
    {"status", Op::kStatus, 0, 0, 0, 0},
    {"attach", Op::kAttach, 0, 0, 0, 0},
    {"watch", Op::kWatch, 0, 0, 2, 0},
    {"kept", Op::kKept, 1, 1, 0, 0},
    {"keep", Op::kKeep, 1, 1, 0, 2},
};

Error malformed(std::string_view op, const std::string& what) {
  return {Errc::kInvalidArgument, std::string(op) + ": " + what};
}

// Reads the words of one call, one after the other, and remembers whether all were valid.
class Cursor {
 public:
  Cursor(const Words& words, std::size_t at, Call& call) : words_(words), at_(at), call_(call) {}

  std::string_view word() { return at_ < words_.size() ? words_[at_++] : (good_ = false, ""); }

  template <typename T = std::uint64_t>
  T number() {
    return parsed<T>(word());
  }
  template <typename T>
  T parsed(std::string_view text, int base = 10) {
    const auto value = detail::parse_number<T>(text, base);
    if (!value) good_ = false;
    return value.value_or(T{});
  }
  // Microseconds, from 0 on.
  Duration duration() { return duration_of(word()); }
  Duration duration_of(std::string_view text) {
    const Duration length(parsed<std::int64_t>(text));
    if (length < Duration::zero() || length > kLongest) good_ = false;
    return length;
  }
  AcquisitionId id() { return id_of(word()); }
  AcquisitionId id_of(std::string_view text) {
    if (text.size() != 32) good_ = false;
    if (!good_) return {};
    return {half_of(text.substr(0, 16)), half_of(text.substr(16))};
  }
  // The name in a key. Only the spelling that clients write is accepted, so one lock never has two.
  std::string_view name_of(std::string_view key) {
    if (key.size() < kKeyHead.size() + 2 || !key.starts_with(kKeyHead) || key.back() != '}') {
      good_ = false;
      return {};
    }
    std::string_view name = key.substr(kKeyHead.size(), key.size() - kKeyHead.size() - 1);
    const auto escape = [](char c) { return c == '%' || c == '{' || c == '}'; };
    if (std::any_of(name.begin(), name.end(), escape)) {
      auto plain = detail::percent_decode(name);
      if (!plain || value_channel_of(*plain) != std::string(key) + ":v") {
        good_ = false;
        return {};
      }
      name = call_.decoded.emplace_back(*std::move(plain));
    }
    take(base::check_stored_name(name));
    return name;
  }
  // The beginning of the names of locks.
  std::string_view prefix() {
    const std::string_view text = word();
    take(text.empty() ? Result<void>() : base::check_stored_name(text));
    return text;
  }
  bool good() const { return good_; }
  void spoil() { good_ = false; }
  // The fault, in words.
  std::string trouble() const { return bad_name_ ? bad_name_->message() : kBadWord; }

 private:
  static constexpr const char* kBadWord = "a word that it cannot have";

  void take(const Result<void>& checked) {
    if (checked) return;
    good_ = false;
    bad_name_ = checked.error();
  }
  // Digits of base 16. Each request has an id or two.
  std::uint64_t half_of(std::string_view digits) {
    std::uint64_t value = 0;
    for (const char c : digits) {
      const char low = static_cast<char>(c | 0x20);
      const bool is_letter = low >= 'a' && low <= 'f';
      if (!is_letter && (c < '0' || c > '9')) good_ = false;
      value = (value << 4U) | static_cast<std::uint64_t>(is_letter ? low - 'a' + 10 : c - '0');
    }
    return value;
  }

  const Words& words_;
  std::size_t at_;
  Call& call_;
  bool good_ = true;
  std::optional<Error> bad_name_;
};

// "<P|T|Q><kind> <permits> <capacity> <may wait> <waiter ttl> <most waiters> <upgrade of>"
void read_terms(std::string_view text, Cursor& cursor, machine::Acquire& acquire) {
  std::array<std::string_view, 7> parts{};
  for (std::string_view& part : parts) {
    const std::size_t end = text.find(' ');
    part = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (part.empty()) return cursor.spoil();
  }
  if (parts[0].size() != 2 || !text.empty()) return cursor.spoil();
  const auto permits = cursor.parsed<std::uint32_t>(parts[1]);
  const auto capacity = cursor.parsed<std::uint32_t>(parts[2]);
  switch (parts[0][1]) {
    case 'e': acquire.mode = Mode::exclusive(); break;
    case 's': acquire.mode = Mode::shared(); break;
    case 'p': acquire.mode = Mode::of_permits(permits, capacity); break;
    default: cursor.spoil();
  }
  acquire.may_wait = parts[3] == "1";
  acquire.waiter_ttl = cursor.duration_of(parts[4]);
  acquire.max_waiters = cursor.parsed<std::uint32_t>(parts[5]);
  if (parts[6] != "-") acquire.upgrade_of = cursor.id_of(parts[6]);
}

machine::OwnerPtr owner_of(std::string_view json, OwnerCache& owners) {
  if (owners.owner == nullptr || owners.text != json) {
    owners.text = json;
    owners.owner = port::read_owner(json);
  }
  return owners.owner;
}

machine::Acquire read_acquire(std::string_view name, Cursor& cursor, Request& request,
                              OwnerCache& owners) {
  machine::Acquire acquire;
  acquire.name = name;
  acquire.id = cursor.id();
  request.issue = cursor.number();
  acquire.ttl = cursor.duration();
  acquire.owner = owner_of(cursor.word(), owners);
  read_terms(cursor.word(), cursor, acquire);
  return acquire;
}

machine::Action read_end(std::string_view name, Cursor& cursor, Request& request) {
  const AcquisitionId id = cursor.id();
  request.issue = cursor.number();
  const std::string_view how = cursor.word();
  if (how == "release") return machine::Release{name, id, {}};
  if (how != "cancel") cursor.spoil();
  return machine::Cancel{name, id, {}};
}

machine::Renew read_renew(std::string_view name, Cursor& cursor) {
  machine::Renew renew;
  renew.name = name;
  renew.id = cursor.id();
  renew.seq = cursor.number();
  renew.ttl = cursor.duration();
  renew.waiter_ttl = cursor.duration();
  return renew;
}

machine::Action read_set_value(std::string_view name, Cursor& cursor) {
  const AcquisitionId id = cursor.id();
  const std::string value(cursor.word());
  const std::string_view wanted = cursor.word();
  const auto seq = cursor.number();
  const Duration length = cursor.duration();
  const bool sets = wanted == "v";
  if (!sets && wanted != "-") cursor.spoil();
  if (length == Duration::zero()) {
    if (!sets) cursor.spoil();
    return machine::SetValue{name, id, value};
  }
  return machine::Keep{name, id, seq, length, sets ? std::optional(value) : std::nullopt};
}

machine::Break read_break(std::string_view name, Cursor& cursor) {
  const std::string_view token = cursor.word();
  machine::Break command;
  command.name = name;
  // "-": a token of an epoch that this server never gave. Nobody holds with zero.
  if (token != "-") command.token = {0, cursor.parsed<std::uint64_t>(token)};
  command.by = port::read_trace(cursor.word()).by;
  return command;
}

void read_requests(Cursor& cursor, const Row& row, const Words& words, std::size_t keys, Call& call,
                   OwnerCache& owners) {
  const std::string_view client = row.common == 1 ? cursor.word() : std::string_view();
  if (client.size() > kLongestClient) return cursor.spoil();
  call.requests.reserve(keys + 1);
  for (std::size_t i = 0; i < keys && cursor.good(); ++i) {
    const std::string_view name = cursor.name_of(words[3 + i]);
    Request& request = call.requests.emplace_back();
    request.client = client;
    switch (call.op) {
      case Op::kAcquire:
      case Op::kAcquireAll: request.action = read_acquire(name, cursor, request, owners); break;
      case Op::kEnd: request.action = read_end(name, cursor, request); break;
      case Op::kRenew: request.action = read_renew(name, cursor); break;
      case Op::kDowngrade: {
        const AcquisitionId id = cursor.id();
        request.action = machine::Downgrade{name, id, {}};
        // A renewal that is not later than any changes nothing, and tells how the ticket stands.
        call.requests.push_back({.action = machine::Renew{name, id, 0, std::chrono::seconds(1),
                                                          std::chrono::seconds(1)}});
        break;
      }
      case Op::kBreak: request.action = read_break(name, cursor); break;
      case Op::kResize: {
        machine::Resize resize;
        resize.name = name;
        resize.id = cursor.id();
        request.client = cursor.word();
        resize.capacity = cursor.number<std::uint32_t>();
        request.action = resize;
        break;
      }
      case Op::kSetValue: request.action = read_set_value(name, cursor); break;
      case Op::kKeep:
        call.keeps.version = cursor.number();
        call.keeps.text = cursor.word();
        call.keeps.key = call.name = name;
        break;
      case Op::kInspect:
      case Op::kKept:
      case Op::kValue: call.name = name; break;
      case Op::kList:
      case Op::kStatus:
      case Op::kAttach:
      case Op::kWatch: break;
    }
  }
}

void append_terms(std::string& text, const machine::Reply& reply) {
  text += ' ';
  append_number(text, reply.seq);
  text += ' ';
  append_number(text, reply.lease.count());
}

std::int64_t left(Instant end, Instant at) { return std::max<std::int64_t>(0, (end - at).count()); }

std::string id_text(const AcquisitionId& id) { return base::to_hex(id.high, id.low); }

char kind_letter(ModeKind kind) {
  return kind == ModeKind::kPermits ? 'p' : kind == ModeKind::kShared ? 's' : 'e';
}

void append_ticket(std::string& text, const machine::TicketImage& ticket,
                   const AccountPtr& account) {
  text += ticket.held ? "h " : "w ";
  text += ticket.system ? 'x' : kind_letter(ticket.mode.kind);
  text += ' ' + std::to_string(ticket.mode.permits) + ' ' + std::to_string(ticket.order) + ' ' +
          std::to_string(ticket.seq) + ' ' + std::to_string(ticket.lease.count()) + ' ' +
          std::to_string(ticket.token.counter) + " - - " +
          port::write_owner(shown_owner(account, ticket.owner));
}

}  // namespace

std::optional<std::string> event_text(const machine::Effect& effect, Instant at,
                                      const machine::OwnerPtr& owner) {
  const auto event = port::to_event(effect, at);
  if (!event) return std::nullopt;
  std::string_view word;
  switch (event->kind) {
    case LockEventKind::kGranted: word = "granted"; break;
    case LockEventKind::kQueued: word = "queued"; break;
    case LockEventKind::kReleased: word = "released"; break;
    case LockEventKind::kExpired: word = "expired"; break;
    case LockEventKind::kCancelled: word = "cancelled"; break;
    case LockEventKind::kBroken: word = "broken"; break;
    case LockEventKind::kForgotten:
    case LockEventKind::kMissed: return std::nullopt;
  }
  return std::string(word) + ' ' + std::to_string(event->token.counter) + ' ' +
         std::to_string(event->time_left.count()) + ' ' + std::to_string(event->name.size()) + ' ' +
         event->name + ' ' + port::write_owner(owner);
}

std::string channel_of(std::string_view client) {
  return std::string(kClientChannel).append(client);
}

std::string value_channel_of(std::string_view name) {
  const auto stays = [](char c) { return c != '%' && c != '{' && c != '}'; };
  return std::string(kKeyHead) + detail::percent_encode(name, stays) + "}:v";
}

std::optional<std::string> lock_of_value_channel(std::string_view channel) {
  constexpr std::string_view kTail = "}:v";
  const std::size_t ends = kKeyHead.size() + kTail.size();
  if (channel.size() < ends || !channel.starts_with(kKeyHead) || !channel.ends_with(kTail)) {
    return std::nullopt;
  }
  auto name = detail::percent_decode(channel.substr(kKeyHead.size(), channel.size() - ends));
  return name && value_channel_of(*name) == channel ? name : std::nullopt;
}

Result<Call> read_call(const Words& words, OwnerCache& owners) {
  if (words.size() < 3) return malformed("HF1", "needs a call and its number of keys");
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const Row& each) { return each.word == words[1]; });
  if (row == std::end(kRows)) {
    return malformed("HF1", "there is no such call: the client is of another version");
  }
  const auto keys = detail::parse_number<std::size_t>(words[2]);
  if (!keys || *keys < row->least_keys || *keys > row->most_keys ||
      words.size() != 3 + *keys + row->common + *keys * row->each_key) {
    return malformed(row->word, "wrong number of keys or words");
  }
  Result<Call> made = Call{};
  Call& call = *made;
  call.op = row->op;
  Cursor cursor(words, 3 + *keys, call);
  if (call.op == Op::kList) {
    call.name = cursor.prefix();
    call.limit = std::min(cursor.number<std::size_t>(), kMostListed);
    call.after = cursor.word();
  } else if (call.op == Op::kWatch) {
    call.name = cursor.prefix();
    call.after = cursor.word();
  } else {
    read_requests(cursor, *row, words, *keys, call, owners);
  }
  if (!cursor.good()) return malformed(row->word, cursor.trouble());
  return made;
}

std::string answer_text(const Answer& answer, bool base_ended) {
  const machine::Reply& reply = answer.reply;
  std::string text;
  switch (reply.outcome) {
    case Outcome::kHeld:
      text.reserve(80);  // Three numbers of 20 digits, at once.
      text = "held ";
      append_number(text, reply.token.counter);
      append_terms(text, reply);
      return text;
    case Outcome::kWaiting:
      text = "waiting";
      append_terms(text, reply);
      text += ' ' + std::to_string(reply.position) + ' ';
      append_number(text, left(reply.next_expiry, answer.at));
      return text;
    case Outcome::kBusy:
      text = "busy ";
      append_number(text, left(reply.next_expiry, answer.at));
      return text;
    case Outcome::kGone: return "gone";
    case Outcome::kReleased: return "released";
    case Outcome::kCancelled: return "cancelled";
    case Outcome::kDone: return "done";
    case Outcome::kNotHeld: return "notheld";
    case Outcome::kMismatch:
      text = "mismatch ";
      text += answer.in_use && answer.in_use->kind == ModeKind::kPermits ? "p " : "e ";
      text += std::to_string(answer.in_use ? answer.in_use->capacity : 1);
      return text;
    case Outcome::kTooLarge: return "toolarge";
    case Outcome::kQueueFull: return "full";
    case Outcome::kWouldDeadlock: return "deadlock";
    case Outcome::kInvalid: return base_ended ? "ended" : "invalid";
    case Outcome::kExhausted: return "exhausted";
  }
  return "invalid";
}

std::string renewal_text(const Answer& answer) {
  const bool broken = answer.reply.outcome == Outcome::kGone && answer.last_break;
  return broken ? "broken " + port::write_trace(*answer.last_break) : answer_text(answer);
}

std::string failure_text(const Error& error) {
  switch (error.code()) {
    case Errc::kQueueFull: return "OVERLOADED " + error.message();
    case Errc::kUnavailable: return "UNAVAILABLE " + error.message();
    case Errc::kPermissionDenied: return "NOPERM " + error.message();
    case Errc::kUnsupported: return "UNSUPPORTED " + error.message();
    case Errc::kVersionMismatch: return "SHARDS " + error.message();
    default: return "ERR " + error.message();
  }
}

void append_sight(std::string& out, const LockSight& sight, std::optional<machine::Token> last,
                  const AccountPtr& account) {
  const bool shows_ids = may(account, Right::kAcquire, sight.name);
  std::string record;
  std::string tickets;
  std::size_t parts[3] = {0, 0, 0};  // Items of the tickets, the holders, the waiters.
  std::string ends[2];
  std::uint64_t place = 0;  // Stands for a ticket's id.
  if (!sight.lock && last) record = "1 free " + std::to_string(last->counter);
  if (sight.lock) {
    const machine::LockImage& lock = *sight.lock;
    record = "1 many " + std::to_string(lock.last_token.counter) +
             (lock.kind == ModeKind::kPermits ? " p f " : " e f ") + std::to_string(lock.capacity);
    for (const machine::TicketImage& ticket : lock.tickets) {
      const std::string id = shows_ids ? id_text(ticket.id) : id_text({0, ++place});
      std::string text;
      append_ticket(text, ticket, account);
      append_text(tickets, id);
      append_text(tickets, text);
      parts[0] += 2;
      std::string& list = ends[ticket.held ? 0 : 1];
      append_text(list, id);
      append_text(list, std::to_string(ticket.lease_end.time_since_epoch().count()));
      parts[ticket.held ? 1 : 2] += 2;
    }
  }
  append_array(out, 6);
  append_text(out, std::to_string(sight.at.time_since_epoch().count()));
  append_text(out, record);
  append_array(out, parts[0]);
  out += tickets;
  append_array(out, parts[1]);
  out += ends[0];
  append_array(out, parts[2]);
  out += ends[1];
  append_text(out, sight.last_break ? port::write_trace(*sight.last_break) : std::string());
}

std::string push_text(const port::Push& push) {
  if (push.kind == port::Push::Kind::kHint) return "hint " + id_text(push.id);
  if (push.kind == port::Push::Kind::kDelayed) {
    return "delayed " + id_text(push.id) + ' ' +
           std::to_string(push.state.opens_in.value_or(machine::Duration::zero()).count());
  }
  return "granted " + id_text(push.id) + ' ' + std::to_string(push.state.token.counter) + ' ' +
         std::to_string(push.state.seq) + ' ' + std::to_string(push.state.lease.count());
}

}  // namespace holdfast::server
