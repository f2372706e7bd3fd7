#include "src/server/front/libraries/library_steps.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/base/lock_name.h"
#include "src/base/random.h"
#include "src/server/front/libraries/library_owner.h"

namespace holdfast::server {

Error refusal(const std::string& what) {
  return {Errc::kInvalidArgument, what + "; see docs/stores/holdfast.md"};
}

namespace {

using machine::Duration;
using machine::Outcome;
using std::chrono::milliseconds;

constexpr std::string_view kClient = "lock-libraries";
constexpr std::size_t kLongestValue = 512;
constexpr milliseconds kShortestLease{100};
// One answer has so many. The first may wait for a commit, or for replies before it.
constexpr int kMostRenewals = 8;

// nullopt: the lock is free.
MaybeHolder holder_of(const LockSight& sight) {
  if (!sight.lock) return std::nullopt;
  for (const machine::TicketImage& ticket : sight.lock->tickets) {
    if (!ticket.held || ticket.system) continue;
    LibraryHolder holder{.id = ticket.id,
                         .token = ticket.token,
                         .seq = ticket.seq,
                         .left = ticket.lease_end - sight.at,
                         .lock_value = sight.lock->value};
    if (is_library_owner(ticket.owner)) {
      holder.by_value = true;
      holder.value = value_of(*ticket.owner);
      holder.owner = ticket.owner;
    }
    return holder;
  }
  return std::nullopt;
}

Request take_request(const std::string& name, const machine::AcquisitionId& id,
                     const machine::OwnerPtr& owner, Duration lease) {
  machine::Acquire acquire;
  acquire.name = name;
  acquire.id = id;
  acquire.mode = machine::Mode::exclusive();
  acquire.may_wait = false;
  acquire.ttl = lease;
  acquire.waiter_ttl = lease;
  acquire.owner = owner;
  return {.client = ClientName(kClient), .action = acquire};
}

// A primitive's inner locks are out of reach: no name of a user has such a part. Other clients must
// be able to name the lock, too: to wait for it, to look at it, to break it.
std::optional<Error> refuse_names(const LockNames& names) {
  for (const std::string& name : names) {
    if (const auto good = base::check_lock_name(name); !good) {
      return refusal(good.error().message());
    }
  }
  return std::nullopt;
}

}  // namespace

Error held_by_own_client(const std::string& name) {
  return refusal("'" + name + "' is held by a client of Holdfast: 'holdfast break' ends its hold");
}

void give_integer(const PendingReply& reply, std::int64_t number) {
  std::string bytes;
  append_integer(bytes, number);
  reply.give(std::move(bytes));
}

void give_ok(const PendingReply& reply) { reply.give("+OK\r\n"); }

void give_nothing(const PendingReply& reply) {
  reply.give(reply.protocol() == 3 ? "_\r\n" : "$-1\r\n");
}

std::int64_t LibraryHolder::left_ms() const {
  return std::max<std::int64_t>(0, std::chrono::floor<milliseconds>(left).count());
}

void look(Service& service, const PendingReply& reply, const LockNames& names,
          std::function<void(const std::vector<MaybeHolder>&)> then) {
  struct Looking {
    std::vector<MaybeHolder> seen;
    std::size_t missing = 0;
    bool failed = false;
    std::function<void(const std::vector<MaybeHolder>&)> then;
  };
  if (const auto bad = refuse_names(names)) return reply.fail(*bad);
  const auto looking = std::make_shared<Looking>();
  looking->seen.resize(names.size());
  looking->missing = names.size();
  looking->then = std::move(then);
  std::size_t tickets = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    tickets += service.inspect(names[i], [looking, reply, i](const Result<LockSight>& sight) {
      if (!sight && !std::exchange(looking->failed, true)) reply.fail(sight.error());
      if (sight) looking->seen[i] = holder_of(*sight);
      if (--looking->missing == 0 && !looking->failed) looking->then(looking->seen);
    });
  }
  reply.rest_after(tickets);
}

void look(Service& service, const PendingReply& reply, const std::string& name,
          const std::function<void(const MaybeHolder&)>& then) {
  look(service, reply, LockNames{name},
       [then](const std::vector<MaybeHolder>& seen) { then(seen.front()); });
}

// --- Steps on locks.

Request extend_request(const std::string& name, const LibraryHolder& holder, Duration lease) {
  return {.client = ClientName(kClient),
          .action = machine::Renew{name, holder.id, holder.seq + 1, lease, lease}};
}

// The id was made here and reaches nobody, so no late acquire can bring it back. A number other
// than zero says so, and spares the tombstone.
Request release_request(const std::string& name, const LibraryHolder& holder) {
  return {
      .client = ClientName(kClient), .issue = 1, .action = machine::Release{name, holder.id, {}}};
}

// It needs the right to break the lock, and its answer waits for the commit (rule 37).
Request break_request(const PendingReply& reply, const std::string& name,
                      const LibraryHolder& holder, std::string_view command) {
  const Connection& connection = reply.connection();
  machine::OwnerInfo by;
  by.owner = reply.user().empty() ? connection.name : reply.user();
  by.host = connection.address;
  by.program = "a client of Redis";
  by.reason = command;
  by.since_unix_ms = std::chrono::duration_cast<milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  return {.client = ClientName(kClient),
          .action = machine::Break{
              name, holder.token, {}, std::make_shared<const machine::OwnerInfo>(std::move(by))}};
}

machine::OwnerPtr owner_of_value(const Connection& connection, std::string_view value) {
  const AccountPtr& account = connection.account;
  return library_owner(value, account ? account->user->name : std::string(), connection.name);
}

namespace {

// Renews the leases until they begin with the answer, which `then` gives at once.
struct Beginning : std::enable_shared_from_this<Beginning> {
  using Answers = std::vector<Result<Answer>>;

  Beginning(Service& its_service, const PendingReply& its_reply)
      : service(its_service), life(service.life()), reply(its_reply) {}

  void begin(bool proven);
  void begin_late();
  void judge(const Answers& answers, bool at_once);

  Service& service;
  const std::weak_ptr<const void> life;
  const PendingReply reply;
  LockNames names;
  std::vector<LibraryHolder> holders;
  Duration lease{};
  std::function<void(const std::vector<bool>&)> then;
  int renewals = 0;
};

void Beginning::begin(bool proven) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < names.size(); ++i) {
    requests.push_back(extend_request(names[i], holders[i], lease));
    requests.back().proven = proven;
    requests.back().hurried = !proven;  // The connection's later answers come after this one.
  }
  charge_user(reply, requests);
  const auto at_once = std::make_shared<bool>(true);
  service.submit_list(requests, [self = shared_from_this(), at_once](const Result<Answers>& all) {
    all ? self->judge(*all, *at_once) : self->reply.fail(all.error());
  });
  *at_once = false;
}

void Beginning::judge(const Answers& answers, bool at_once) {
  bool begin_now = at_once && reply.is_first();
  const Error* failed = nullptr;
  std::vector<bool> held;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) failed = &answers[i].error();
    held.push_back(answers[i] && answers[i]->reply.outcome == Outcome::kHeld);
    if (!held.back()) continue;
    const machine::Reply& renewed = answers[i]->reply;
    holders[i].seq = renewed.seq;  // Another renewal may have come first.
    begin_now = begin_now && renewed.lease_end - answers[i]->at >= lease;
  }
  const bool lost = std::find(held.begin(), held.end(), true) == held.end();
  if (lost && failed != nullptr) return reply.fail(*failed);
  if (begin_now || lost) return then(held);
  // Somebody who knows the acquisition may number its renewals so that no other one counts.
  if (++renewals == kMostRenewals) return then(std::vector<bool>(names.size()));
  if (reply.is_first()) return begin(/*proven=*/true);
  reply.when_first([self = shared_from_this()] { self->begin_late(); });
}

// Another shard's service may have answered the request before this one.
void Beginning::begin_late() {
  if (life.expired()) return reply.fail(Error(Errc::kUnavailable, "the server stops"));
  begin(/*proven=*/false);
}

// `then` hears that nothing was taken.
void give_back(Service& service, const PendingReply& reply, const LockNames& names,
               const std::vector<LibraryHolder>& holders, const std::function<void(bool)>& then) {
  std::vector<Request> releases;
  for (std::size_t i = 0; i < names.size(); ++i) {
    releases.push_back(release_request(names[i], holders[i]));
  }
  submit_each(service, reply, releases, Outcome::kReleased, [then](std::int64_t) { then(false); });
}

}  // namespace

void take(Service& service, const PendingReply& reply, const LockNames& names,
          const machine::OwnerPtr& owner, Duration lease, const std::function<void(bool)>& then) {
  // Nobody would hold: the request lay in the socket of a server that stood still (rule 56), or a
  // look before this waited long for its commit.
  if (reply.connection().was_given_up()) return;
  if (const auto bad = refuse_names(names)) return reply.fail(*bad);
  std::vector<Request> grants;
  std::vector<LibraryHolder> holders;
  for (const std::string& name : names) {
    const base::Random128 id = base::random_128();
    holders.push_back({.id = {id.high, id.low}});
    grants.push_back(take_request(name, holders.back().id, owner, lease));
  }
  charge_user(reply, grants);
  service.submit_all(grants, [&service, reply, names, holders, lease,
                              then](const Result<Service::AllOrNone>& outcome) {
    if (!outcome) return reply.fail(outcome.error());
    if (outcome->refused) return then(false);
    extend(service, reply, names, holders, lease, [=, &service](const std::vector<bool>& held) {
      const bool all = std::find(held.begin(), held.end(), false) == held.end();
      if (!all) return give_back(service, reply, names, holders, then);
      for (const LibraryHolder& each : holders) reply.note_taken(each.id);
      then(true);
    });
  });
}

void extend(Service& service, const PendingReply& reply, const LockNames& names,
            const std::vector<LibraryHolder>& holders, Duration lease,
            const std::function<void(const std::vector<bool>&)>& then) {
  const auto beginning = std::make_shared<Beginning>(service, reply);
  beginning->names = names;
  beginning->holders = holders;
  beginning->lease = lease;
  beginning->then = then;
  beginning->begin(/*proven=*/true);
}

void charge_user(const PendingReply& reply, std::vector<Request>& requests) {
  for (Request& each : requests) each.user = reply.user();
}

void submit_each(Service& service, const PendingReply& reply, std::vector<Request> requests,
                 Outcome wanted, const std::function<void(std::int64_t)>& then) {
  if (requests.empty()) return then(0);
  charge_user(reply, requests);
  service.submit_list(requests,
                      [reply, wanted, then](const Result<std::vector<Result<Answer>>>& all) {
                        if (!all) return reply.fail(all.error());
                        std::int64_t count = 0;
                        for (const Result<Answer>& each : *all) {
                          if (!each) return reply.fail(each.error());
                          if (each->reply.outcome == wanted) ++count;
                        }
                        then(count);
                      });
}

// --- Words.

Result<std::string> read_value(std::string_view value) {
  if (value.size() <= kLongestValue) return std::string(value);
  return refusal("a lock's value has at most " + std::to_string(kLongestValue) + " bytes");
}

Result<Duration> read_lease(std::string_view text, milliseconds unit) {
  const auto number = detail::parse_number<std::int64_t>(text);
  const std::int64_t most = kLongestLease / unit;
  const bool fits = number && *number > 0 && *number <= most && *number * unit >= kShortestLease;
  if (fits) return Duration(*number * unit);
  return refusal("a lease lasts 100 ms to 24 h, and not '" + std::string(text.substr(0, 24)) + "'");
}

}  // namespace holdfast::server
