#include "src/stores/redis/protocol/requests.h"

#include <cstdint>

#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

// "<P|T|Q><kind> <permits> <capacity> <may wait> <waiter ttl> <most waiters> <upgrade>"
std::string terms_of(const port::AcquireRequest& request) {
  const machine::Mode& mode = request.mode;
  const bool permits = mode.kind == machine::ModeKind::kPermits;
  const bool plain = mode.kind == machine::ModeKind::kExclusive && !request.upgrade_of;
  std::string text;
  text.reserve(96);
  text += !plain ? 'Q' : request.may_wait ? 'P' : 'T';
  text += permits ? 'p' : mode.kind == machine::ModeKind::kShared ? 's' : 'e';
  text += ' ';
  text += std::to_string(permits ? mode.permits : 1);
  text += ' ';
  text += std::to_string(permits ? mode.capacity : 1);
  text += ' ';
  text += request.may_wait ? "1 " : "0 ";
  text += std::to_string(request.waiter_ttl.count());
  text += ' ';
  text += std::to_string(request.max_waiters);
  text += ' ';
  text += request.upgrade_of ? id_text(request.upgrade_of) : std::string("-");
  return text;
}

std::optional<SlotTags> tags_in(ScriptHost place) {
  if (place != ScriptHost::kCluster) return std::nullopt;
  return SlotTags();
}

}  // namespace

bool malformed(const port::AcquireRequest& request) {
  const machine::Mode& mode = request.mode;
  const bool exclusive = mode.kind == machine::ModeKind::kExclusive;
  const bool permits = mode.kind == machine::ModeKind::kPermits;
  return !request.id || request.ttl <= port::Duration::zero() ||
         (request.may_wait && request.waiter_ttl <= port::Duration::zero()) ||
         (request.upgrade_of && !exclusive) ||
         (permits && (mode.permits == 0 || mode.capacity == 0));
}

Requests::Requests(std::string client, std::function<machine::Instant()> now, ScriptHost place)
    : client_(std::move(client)), now_(std::move(now)), place_(place), tags_(tags_in(place)) {}

std::uint16_t Requests::slot_of(std::string_view lock) const {
  return tags_ ? redis::slot_of(lock) : std::uint16_t{0};
}

std::string Requests::channel_in(std::uint16_t slot) const {
  return channel_of(client_) + (tags_ ? tags_->of(slot) : std::string());
}

ScriptCall Requests::call(ScriptName name, std::string_view lock,
                          std::initializer_list<std::string_view> args) const {
  ScriptCall made = begin(name);
  made.add_lock(lock);
  for (const std::string_view arg : args) made.add(arg);
  finish(made, lock);
  return made;
}

void Requests::finish(ScriptCall& made, std::string_view lock) const {
  if (now_) made.add_padded(static_cast<std::uint64_t>(now_().time_since_epoch().count()));
  if (!tags_) return;
  const std::uint16_t slot = slot_of(lock);
  made.end_in_slot(slot, tags_->of(slot));
}

ScriptCall Requests::acquire(const port::AcquireRequest& request) const {
  ScriptCall made = begin(ScriptName::kAcquire);
  made.add_lock(request.name);
  made.add(client_);
  const std::string terms = terms_of(request);
  // Only short requests are batched: a long one would delay the answers of the others.
  if (by_server_time() && terms.front() != 'Q') made.begin_own(BatchPart::Kind::kAcquire);
  made.add_id(request.id);
  made.add_padded(request.issue);
  made.add(request.ttl.count());
  made.add(port::write_owner(request.owner));
  made.add(terms);
  finish(made, request.name);
  return made;
}

ScriptCall Requests::acquire_all(const std::vector<port::AcquireRequest>& requests) const {
  ScriptCall made = begin(ScriptName::kAcquireAll);
  for (const port::AcquireRequest& request : requests) made.add_lock(request.name);
  made.add(client_);
  for (const port::AcquireRequest& request : requests) {
    made.add_id(request.id);
    made.add_padded(request.issue);
    made.add(request.ttl.count());
    made.add(port::write_owner(request.owner));
    made.add(terms_of(request));
  }
  finish(made, requests.front().name);
  return made;
}

ScriptCall Requests::end_all(const std::vector<port::AcquisitionRequest>& requests) const {
  ScriptCall made = begin(ScriptName::kEnd);
  for (const port::AcquisitionRequest& request : requests) made.add_lock(request.name);
  made.add(client_);
  for (const port::AcquisitionRequest& request : requests) {
    made.add_id(request.id);
    made.add_padded(request.issue);
    made.add("release");
  }
  finish(made, requests.front().name);
  return made;
}

ScriptCall Requests::end(std::string_view how, const port::AcquisitionRequest& request) const {
  ScriptCall made = begin(ScriptName::kEnd);
  made.add_lock(request.name);
  made.add(client_);
  if (by_server_time() && how == "release") made.begin_own(BatchPart::Kind::kRelease);
  made.add_id(request.id);
  made.add_padded(request.issue);
  made.add(how);
  finish(made, request.name);
  return made;
}

ScriptCall Requests::renew(const std::vector<port::RenewItem>& items, std::size_t from,
                           std::size_t to) const {
  ScriptCall made = begin(ScriptName::kRenew);
  for (std::size_t i = from; i < to; ++i) made.add_lock(items[i].name);
  made.add(client_);
  for (std::size_t i = from; i < to; ++i) {
    const port::RenewItem& item = items[i];
    made.add_id(item.id);
    made.add(item.seq);
    made.add(item.ttl.count());
    made.add(item.waiter_ttl.count());
  }
  finish(made, items[from].name);
  return made;
}

}  // namespace holdfast::stores::redis
