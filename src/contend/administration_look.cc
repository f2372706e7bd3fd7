// Questions of people: who holds and who waits, in one lock or in all, and which parts are
// unreadable.
#include <algorithm>
#include <map>
#include <utility>

#include "src/base/printable.h"
#include "src/contend/administration.h"
#include "src/contend/naming.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

constexpr std::size_t kAskedAtOnce = 32;
constexpr std::size_t kMostProbed = 1000;
// Each lock is reported to the operator once. This many are remembered.
constexpr std::size_t kMostTold = 4096;

// The image has the instant zero, so the remaining times are those that the sessions report.
machine::LockImage image_of(const std::string& name, const Listing& listing) {
  const Record record = listing.record.value_or(Record{});
  machine::LockImage image;
  image.name = name;
  image.capacity = capacity_of(listing.queue, record, listing.record_rev);
  const std::vector<bool> held = holders(listing.queue, record, listing.record_rev);
  for (std::size_t i = 0; i < listing.queue.size(); ++i) {
    const QueueEntry& place = listing.queue[i];
    machine::TicketImage ticket;
    ticket.id = place.key.id;
    ticket.order = i + 1;
    ticket.mode = mode_of(place.key);
    ticket.held = held[i];
    ticket.system = place.key.shape == Shape::kShrink;
    ticket.upgrade_of = place.key.upgrade_of;
    if (ticket.mode.kind == machine::ModeKind::kPermits) {
      image.kind = machine::ModeKind::kPermits;
      ticket.mode.capacity = image.capacity;  // N may have changed since it came.
    }
    if (place.details) {
      if (place.details->weakened) ticket.mode = machine::Mode::shared();
      const bool known = held[i] && !place.details->unreadable;
      if (known) ticket.token = token_of(*place.details, place.created, place.modified);
      ticket.lease = place.details->kept ? place.details->kept->ttl : place.details->lease;
      if (place.details->left) ticket.lease = *place.details->left;
      ticket.owner = place.details->owner;
    }
    ticket.lease_end = machine::Instant(ticket.lease);
    image.last_token = std::max(image.last_token, ticket.token);
    image.tickets.push_back(std::move(ticket));
  }
  return image;
}

// Empty if there are none.
std::string text_of(const Unknown& unknown) {
  if (unknown.count == 0) return {};
  const std::string one = "'" + base::printable(unknown.one) + "'";
  if (unknown.count == 1) return "the key " + one + " is of no lock that this version knows";
  return std::to_string(unknown.count) + " keys, such as " + one +
         ", are of no lock that this version knows";
}

LockInfo info_of(const std::string& name, const Listing& listing) {
  std::optional<BreakInfo> broken;
  if (listing.record && listing.record->broken) {
    const Trace& trace = *listing.record->broken;
    broken = BreakInfo{port::to_public(machine::Token{0, trace.token}), port::to_public(trace.by)};
  }
  LockInfo info = port::to_lock_info(image_of(name, listing), machine::Instant{}, broken);
  // For a free lock, later holders than the broken one are unknown.
  if (broken && !info.holders.empty()) info.last_token = std::max(info.last_token, broken->token);
  return info;
}

// A text about unreadable contenders; empty if all can be read.
std::string trouble_of(const std::string& name, const Listing& listing) {
  const Error* first = nullptr;
  std::size_t count = 0;
  for (const QueueEntry& place : listing.queue) {
    if (!place.details || !place.details->unreadable) continue;
    if (count++ == 0) first = place.details->unreadable.get();
  }
  if (first == nullptr) return {};
  const std::string places = count == 1 ? ": it keeps its place in the queue"
                                        : ", and " + std::to_string(count - 1) +
                                              " more: they keep their places in the queue";
  return of_lock(name) + first->message() + places;
}

// Whether the error concerns only that lock, so that the store itself works.
bool is_damaged(const Error& error) {
  return error.code() == Errc::kCorruptState || error.code() == Errc::kVersionMismatch;
}

}  // namespace

Listing Administration::living(const std::string& lock, Listing listing, BootInstant deadline) {
  std::erase_if(listing.queue, [&](const QueueEntry& place) {
    if (!place.details || !place.details->over()) return false;
    backend_.drop(lock, place, deadline, [](const Result<bool>&) {});
    return true;
  });
  return listing;
}

void Administration::inspect(const std::string& name, BootInstant deadline,
                             Done<std::optional<LockInfo>> done) {
  backend_.list_in_full(
      name, deadline,
      [self = shared_from_this(), name, deadline, done = std::move(done)](Result<Listing> listing) {
        if (!listing) return done(of_lock(name, listing.error()));
        *listing = self->living(name, *std::move(listing), deadline);
        if (listing->refusal) return done(of_lock(name, *listing->refusal));
        self->tell_of(name, *listing);
        const bool known = !listing->queue.empty() || (listing->record && listing->record->broken);
        if (!known) return done(std::optional<LockInfo>());
        done(std::optional(info_of(name, *listing)));
      });
}

// Lists all locks of a prefix, and looks at them one by one.
struct ListingOfAll {
  struct Found {
    std::string name;
    std::optional<LockInfo> info;  // Set if the lock has an entry.
    std::string trouble;           // The unreadable part, or empty.
  };
  std::vector<Found> locks;
  Unknown unknown;
  std::size_t asked = 0;
  std::size_t under_way = 0;
  std::optional<Error> error{};
  base::BootInstant deadline{};
  std::function<void(ListingOfAll& all)> done;
};

namespace {

void add_findings(std::vector<Finding>& findings, const ListingOfAll& all, std::size_t number) {
  if (all.unknown.count > 0) {
    findings.push_back({Severity::kWarning, "keys", text_of(all.unknown),
                        "upgrade, if a later version wrote it; otherwise remove it"});
  }
  std::size_t others = 0;
  std::string trouble;
  for (const auto& lock : all.locks) {
    if (lock.trouble.empty()) continue;
    if (trouble.empty()) {
      trouble = lock.trouble;
    } else {
      ++others;
    }
  }
  if (others > 0) {
    trouble += "; so it is with " + std::to_string(others) + " more: 'holdfast ls' names them";
  }
  if (!trouble.empty()) {
    findings.push_back({Severity::kWarning, "locks", trouble,
                        "upgrade, if a later version wrote it; otherwise mend it with the store's "
                        "own tools"});
  }
  if (number > all.locks.size()) {
    findings.push_back({Severity::kOk, "locks",
                        "looked into " + std::to_string(all.locks.size()) + " of " +
                            std::to_string(number) + ": 'holdfast ls' looks into all",
                        ""});
  }
}

}  // namespace

void Administration::list(std::string prefix, std::size_t limit, BootInstant deadline,
                          Done<std::vector<LockInfo>> done) {
  // Some names are unused folders, so the limit applies to the found locks.
  backend_.list_locks(
      std::move(prefix), SIZE_MAX, deadline,
      [self = shared_from_this(), limit, deadline, done = std::move(done)](Result<Locks> locks) {
        if (!locks) return done(locks.error());
        if (limit == 0) return done(std::vector<LockInfo>());
        self->look_into(*std::move(locks), deadline, [self, limit, done](ListingOfAll& all) {
          if (all.error) return done(*all.error);
          self->tell_of(all.unknown);
          std::vector<LockInfo> infos;
          for (auto& lock : all.locks) {
            self->tell_of(lock.name, lock.trouble);
            if (lock.info && infos.size() < limit) infos.push_back(*std::move(lock.info));
          }
          done(std::move(infos));
        });
      });
}

void Administration::look_into(Locks locks, BootInstant deadline,
                               std::function<void(ListingOfAll& all)> done) {
  auto all = std::make_shared<ListingOfAll>();
  for (std::string& name : locks.names) all->locks.push_back({std::move(name), {}, {}});
  all->unknown = std::move(locks.unknown);
  all->deadline = deadline;
  all->done = std::move(done);
  list_next(all);
}

void Administration::list_next(const std::shared_ptr<ListingOfAll>& all) {
  while (all->under_way < kAskedAtOnce && all->asked < all->locks.size() && !all->error) {
    const std::size_t at = all->asked++;
    ++all->under_way;
    backend_.list_in_full(all->locks[at].name, all->deadline,
                          [self = shared_from_this(), all, at](Result<Listing> listing) {
                            --all->under_way;
                            auto& lock = all->locks[at];
                            if (listing) {
                              *listing =
                                  self->living(lock.name, *std::move(listing), all->deadline);
                              all->unknown.add(listing->unknown);
                              if (!listing->queue.empty()) lock.info = info_of(lock.name, *listing);
                              lock.trouble = trouble_of(lock.name, *listing);
                            } else if (is_damaged(listing.error())) {
                              // The others are still listed.
                              lock.trouble = of_lock(lock.name, listing.error()).message();
                            } else {
                              all->error = of_lock(lock.name, listing.error());
                            }
                            self->list_next(all);
                          });
  }
  if (all->under_way == 0 && all->done) std::exchange(all->done, nullptr)(*all);
}

// Reports each finding once, even to a caller that looks every second.
void Administration::tell_of(const Unknown& unknown) {
  const std::string text = text_of(unknown);
  if (std::exchange(told_of_keys_, text) == text || text.empty() || closed_) return;
  alarm_(backend_.guarantees().store + ": " + text + ": left out");
}

void Administration::tell_of(const std::string& lock, const Listing& listing) {
  tell_of(lock, trouble_of(lock, listing));
}

void Administration::tell_of(const std::string& lock, const std::string& trouble) {
  if (closed_) return;
  if (trouble.empty()) return void(told_of_locks_.erase(lock));
  if (told_of_locks_.size() >= kMostTold) told_of_locks_.clear();
  if (std::exchange(told_of_locks_[lock], trouble) == trouble) return;
  alarm_(backend_.guarantees().store + ": " + trouble);
}

void Administration::tell_of_trouble(const std::string& lock, const Listing& listing) {
  const std::string trouble = trouble_of(lock, listing);
  if (!trouble.empty()) tell_of(lock, trouble);
}

// Looks into the locks, too; if there are many, only into the first ones.
void Administration::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  backend_.probe(deadline, [self = shared_from_this(), deadline,
                            done = std::move(done)](Result<std::vector<Finding>> findings) {
    if (!findings || self->closed_) return done(std::move(findings));
    self->backend_.list_locks(
        "", SIZE_MAX, deadline,
        [self, deadline, findings = *std::move(findings), done](Result<Locks> locks) mutable {
          // If they cannot be listed, other findings say why, or none of them is ours.
          if (!locks || self->closed_) return done(std::move(findings));
          const std::size_t number = locks->names.size();
          if (number > kMostProbed) locks->names.resize(kMostProbed);
          self->look_into(
              *std::move(locks), deadline,
              [findings = std::move(findings), number, done](ListingOfAll& all) mutable {
                add_findings(findings, all, number);
                done(std::move(findings));
              });
        });
  });
}

}  // namespace holdfast::contend
