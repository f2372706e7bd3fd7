// The reads of a shard, its kept texts, and what is answered while its journal is full.
#include "src/server/shard.h"

#include <algorithm>
#include <utility>

namespace holdfast::server {
namespace {

using machine::Instant;

constexpr const char* kUncommitted =
    "its last change is not in the server's journal yet, which cannot be written for now: make "
    "room on the journal's disk";
constexpr const char* kUnproven =
    "it is not sure that this server still leads, until its journal can be written: make room on "
    "the journal's disk";

using Version = std::optional<std::uint64_t>;

// Among the names of locks, which have no control characters.
std::string place_of(const std::string& key) { return '\n' + key; }

}  // namespace

std::size_t Shard::inspect(Instant boot, const std::string& name, Done<LockSight> done) {
  if (failed_) return done(Error(Errc::kUnavailable, failed_->message())), 0;
  look_at_deadline(boot);
  advance(boot);
  end_due(name);
  LockSight found = look(name);
  const std::size_t tickets = found.lock ? found.lock->tickets.size() : 0;
  answer_read(name, std::move(done), std::move(found));
  return tickets;
}

template <typename T>
void Shard::answer_read(const std::string& name, Done<T> done, T answer) {
  if (full_ && !clean(name)) return done(uncommitted(name));
  // A token may be judged by this answer, so no clock decides whether this server still leads.
  if (full_) return answer_while_full(std::move(done), std::move(answer), confirms_);
  if (confirms_) filling_.confirms = true;
  answer_when_committed(std::move(done), std::move(answer), /*fails_when_full=*/true);
}

// The answer tells what is committed. The batch under way may wait for long, so another write is to
// prove that this server leads (rule 34).
template <typename T>
void Shard::answer_while_full(Done<T> done, T answer, bool needs_proof) {
  if (!needs_proof && committed_ >= sure_after_) return done(std::move(answer));
  if (!confirms_) return done(Error(Errc::kUnavailable, kUnproven));
  unproven_.push_back(waiting_for(std::move(done), std::move(answer)));
}

bool Shard::take_proof() {
  if (!full_ || unproven_.empty() || !being_proven_.empty()) return false;
  being_proven_ = std::exchange(unproven_, {});
  return true;
}

void Shard::proved(bool leads) {
  const Error why(Errc::kUnavailable, kUnproven);
  for (const Waiting& each : std::exchange(being_proven_, {})) each(leads ? nullptr : &why);
}

void Shard::kept(Instant boot, const std::string& key, Done<std::optional<KeptText>> done) {
  if (failed_) return done(Error(Errc::kUnavailable, failed_->message()));
  look_at_deadline(boot);
  const KeptText* now = kept_.find(key);
  answer_read(place_of(key), std::move(done), now == nullptr ? std::nullopt : std::optional(*now));
}

void Shard::keep(Instant boot, const KeepText& wish, Done<std::optional<std::uint64_t>> done) {
  change_kept(
      boot, wish.user, [&wish](const KeptTexts&) { return wish; }, std::move(done));
}

void Shard::change_kept(Instant boot, const std::string& user, const Service::Change& change,
                        Done<std::optional<std::uint64_t>> done) {
  Request of_user;
  of_user.user = user;
  if (auto refused = refuse(boot, of_user)) return done(*std::move(refused));
  look_at_deadline(boot);
  const auto wish = change(kept_);
  if (wish) return put_kept(user, *wish, std::move(done));
  // A refusal tells of texts, too, and those may not be committed yet.
  wait_for_commit([done = std::move(done), why = wish.error()](
                      const Error* failed) { done(failed != nullptr ? *failed : why); },
                  /*fails_when_full=*/true);
}

void Shard::put_kept(const std::string& user, const KeepText& wish,
                     Done<std::optional<std::uint64_t>> done) {
  if (wish.key.size() > kLongestKeptKey || wish.text.size() > kLongestKeptText) {
    return done(Error(Errc::kInvalidArgument,
                      "a kept text has " + std::to_string(kLongestKeptText) +
                          " bytes at most, and its key " + std::to_string(kLongestKeptKey)));
  }
  const KeptText* now = kept_.find(wish.key);
  const std::uint64_t version = now == nullptr ? 0 : now->version;
  const std::string place = place_of(wish.key);
  // The newer version may not be committed yet.
  if (version != wish.version) return answer_read(place, std::move(done), Version());
  if (!kept_.has_room_for(wish.key, wish.text.size())) {
    return done(Error(Errc::kUnsupported,
                      "this server keeps " + std::to_string(KeptTexts::kMost) + " texts at most"));
  }
  // Above the number of every batch before, and so above a version that a lost term gave.
  KeptText next{wish.text, std::max(version + 1, filling_.number)};
  const std::size_t before = filling_.writer.size();
  filling_.writer.add_kept(wish.key, next);
  filling_.names.insert(place_of_name(place));
  charge(backlog_of(user, {}), before);
  // Later requests work on the new text. Their answers wait for the same commit.
  const Version answer(next.version);
  kept_.set(wish.key, std::move(next));
  answer_when_committed(std::move(done), answer);
}

// A read must not hang until somebody makes room, and must not tell what may never be committed.
Error Shard::uncommitted(std::string_view name) {
  if (name.starts_with('\n')) name.remove_prefix(1);  // A kept text's.
  return {Errc::kUnavailable, "'" + std::string(name) + "': " + kUncommitted};
}

std::size_t Shard::list(Instant boot, const std::string& prefix, const std::string& after,
                        std::size_t limit, Done<std::vector<LockSight>> done) {
  if (failed_) return done(Error(Errc::kUnavailable, failed_->message())), 0;
  look_at_deadline(boot);
  advance(boot);
  const std::uint32_t left = std::exchange(ends_left_, UINT32_MAX);  // A list may have every lock.
  end_due({});
  ends_left_ = left;
  std::size_t tickets = 0;
  std::vector<LockSight> found;
  for (const std::string& name : machine_.names_in_use(prefix, after, limit)) {
    found.push_back(look(name));
    tickets += found.back().lock ? found.back().lock->tickets.size() : 0;
  }
  if (!full_) {
    answer_when_committed(std::move(done), std::move(found), /*fails_when_full=*/true);
    return tickets;
  }
  for (const Batch* batch : {under_way_ ? &*under_way_ : nullptr, &filling_}) {
    for (std::size_t i = 0; batch != nullptr && i < batch->told.size(); ++i) {
      const std::string& name = batch->told[i].effect.name;
      const bool in_page = found.size() < limit || (limit > 0 && name <= found.back().name);
      if (in_page && name > after && name.starts_with(prefix)) {
        return done(uncommitted(name)), tickets;
      }
    }
  }
  answer_while_full(std::move(done), std::move(found), /*needs_proof=*/false);
  return tickets;
}

LockSight Shard::look(const std::string& name) const {
  LockSight found;
  found.name = name;
  found.lock = machine_.inspect(name);
  if (const BreakTrace* trace = traces_.find(name)) found.last_break = *trace;
  found.at = now_;
  return found;
}

void Shard::set_full(bool full) {
  full_ = full;
  if (!full) {
    // The batch that found room may have begun before these were asked for.
    for (auto* reads : {&being_proven_, &unproven_}) {
      for (Waiting& each : *reads) {
        filling_.confirms = true;
        filling_.waiting.push_back({filling_.told.size(), std::move(each), true});
      }
      reads->clear();
    }
    return;
  }
  const Error why(Errc::kUnavailable, kUncommitted);
  for (const Waiting& each : take_waiting(&Later::fails_when_full)) each(&why);
}

}  // namespace holdfast::server
