// Several locks are taken in one step.
#include <algorithm>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"

namespace holdfast::session {
namespace {

constexpr int kMostRequests = 3;

}  // namespace

// One request, sent again with the same ids while nobody knows what became of it.
struct Core::Taking {
  explicit Taking(Core& asked) : core(asked.self()), call(std::in_place, asked) {}
  std::shared_ptr<Core> core;
  std::optional<Call> call;
  std::vector<AcquisitionPtr> acquisitions;
  SendLog log;  // The first one's: whichever the store applied, no lease counts from later.
  int attempts = 0;
  bool maybe_applied = false;
  bool anew = false;
  Done<Multi> done;
};

std::string Core::names_of(const std::vector<AcquisitionPtr>& acquisitions) const {
  std::string names;
  for (const AcquisitionPtr& acquisition : acquisitions) {
    names += (names.empty() ? "locks '" : ", '") + printable(acquisition->name) + "'";
  }
  return names + at_store() + ": ";
}

Result<void> Core::prepare_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                               Taking& taking) {
  if (!store_->guarantees().multi) {
    return Error(Errc::kUnsupported, "this store cannot take several locks in one step");
  }
  if (locks.empty()) return Error(Errc::kInvalidArgument, "no lock was named");
  for (const Wanted& lock : locks) {
    auto made = prepare(lock.name, lock.mode, options);
    if (!made) {
      static_cast<void>(conclude(taking, made.error()));
      return made.error();
    }
    taking.acquisitions.push_back(*std::move(made));
  }
  begin_all(taking);
  return {};
}

void Core::begin_all(Taking& taking) {
  taking.log.clear();
  for (const AcquisitionPtr& acquisition : taking.acquisitions) begin_anew(*acquisition);
  taking.log.add(base::BootClock::now());
}

std::vector<port::AcquireRequest> Core::requests_of(Taking& taking) const {
  ++taking.attempts;
  std::vector<port::AcquireRequest> requests;
  for (const AcquisitionPtr& acquisition : taking.acquisitions) {
    requests.push_back(request_for(*acquisition, /*may_wait=*/false));
  }
  return requests;
}

// Nobody counts on them: taken back as soon as the store can be reached, should they be held.
void Core::give_back_all(Taking& taking) {
  const Turn turn(*this);
  if (closed_) return;
  for (const AcquisitionPtr& acquisition : taking.acquisitions) give_back(acquisition);
}

std::optional<Result<Core::Multi>> Core::on_no_answer(Taking& taking, const Error& error) {
  const bool unknown = error.code() == Errc::kOutcomeUnknown;
  taking.maybe_applied = taking.maybe_applied || unknown;
  if (!taking.maybe_applied) return Result<Multi>(error);
  const bool passing = detail::is_transient(error.code());
  if (passing && taking.attempts < kMostRequests) return std::nullopt;
  give_back_all(taking);
  return Result<Multi>(
      Error(Errc::kOutcomeUnknown, "they may be held for one ttl: " + error.message()));
}

// nullopt: ask again.
std::optional<Result<Core::Multi>> Core::on_taken(Taking& taking,
                                                  const Result<port::Store::Grants>& reply) {
  if (!reply) return on_no_answer(taking, reply.error());
  if (!*reply) {
    if (taking.maybe_applied) {
      give_back_all(taking);
    } else if (last_issue_ > taking.acquisitions.back()->issue && !taking.anew) {
      // A later request of this client may have overtaken this one, which is refused as old then.
      taking.anew = true;
      begin_all(taking);
      return std::nullopt;
    }
    return Result<Multi>(Multi());
  }
  const std::vector<port::AcquisitionState>& states = **reply;
  const BootInstant now = base::BootClock::now();
  // One lease with too little time left makes all of them useless: the caller has all or none.
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto least = terms_for(*taking.acquisitions[i], /*may_wait=*/false).min_left;
    const auto sent = taking.log.sent_at(states[i].seq);
    const Duration lease = without_delay(states[i].lease, taking.acquisitions[i]->lock_delay);
    if (sent && bound_.safe_deadline(*sent, lease) - least > now) continue;
    give_back_all(taking);
    return Result<Multi>(Error(
        Errc::kUnavailable, "the answer came when too little was left of the leases; given back"));
  }
  const Turn turn(*this);
  for (std::size_t i = 0; i < states.size(); ++i) {
    start_lease(taking.acquisitions[i], states[i], taking.log);
  }
  bool stay = true;
  for (const AcquisitionPtr& acquisition : taking.acquisitions) stay = outlives_close(acquisition);
  return stay ? Result<Multi>(Multi(taking.acquisitions)) : Result<Multi>(closed_error());
}

Result<Core::Multi> Core::conclude(Taking& taking, Result<Multi> answer) {
  for (const AcquisitionPtr& acquisition : taking.acquisitions) {
    Result<AcquisitionPtr> one = AcquisitionPtr();
    if (!answer) {
      one = answer.error();
    } else if (*answer) {
      one = acquisition;
    }
    static_cast<void>(settle(acquisition, std::move(one)));
  }
  if (answer) return answer;
  return Error(answer.error().code(), names_of(taking.acquisitions) + answer.error().message());
}

void Core::send_all(const std::shared_ptr<Taking>& taking) {
  store_->try_acquire_all(requests_of(*taking), [taking](const Result<port::Store::Grants>& reply) {
    const auto core = taking->core;
    auto answer = core->on_taken(*taking, reply);
    if (!answer) return core->send_all(taking);
    // The store may keep copies of this for longer, on threads of its own.
    const auto done = std::move(taking->done);
    done(core->conclude(*taking, *std::move(answer)));
    taking->acquisitions.clear();
    taking->call.reset();
    taking->core.reset();
  });
}

// Here where the store can; nullopt: by the loop.
std::optional<Result<Core::Multi>> Core::take_all_here(Taking& taking) {
  for (;;) {
    const auto reply = store_->try_acquire_all_inline(requests_of(taking));
    if (!reply) return std::nullopt;
    auto answer = on_taken(taking, *reply);
    if (answer) return conclude(taking, *std::move(answer));
    // The request may have been applied. Its repetition waits for a connection, so the loop sends
    // it.
    if (taking.maybe_applied) return std::nullopt;
  }
}

Result<Core::Multi> Core::try_acquire_all(const std::vector<Wanted>& locks,
                                          const AcquireOptions& options) {
  if (auto alive = check_alive(); !alive) return alive.error();
  const auto taking = std::make_shared<Taking>(*this);
  if (!taking->call->alive()) return taking->call->alive().error();
  if (auto good = prepare_all(locks, options, *taking); !good) return good.error();
  if (auto answer = take_all_here(*taking)) return *std::move(answer);
  return await<Multi>(
      [&](Done<Multi> done) {
        taking->done = std::move(done);
        send_all(taking);
      },
      kMostRequests);
}

void Core::try_acquire_all(const std::vector<Wanted>& locks, const AcquireOptions& options,
                           Done<Multi> done) {
  if (auto alive = check_alive(); !alive) return done(alive.error());
  const auto taking = std::make_shared<Taking>(*this);
  if (!taking->call->alive()) return done(taking->call->alive().error());
  if (auto good = prepare_all(locks, options, *taking); !good) return done(good.error());
  if (store_->answers_at_once()) {
    if (auto answer = take_all_here(*taking)) return done(*std::move(answer));
  }
  taking->done = std::move(done);
  send_all(taking);
}

}  // namespace holdfast::session
