// How the core takes several locks in one step, and gives them back.
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
  explicit Taking(Core& asked) : core(asked.shared_from_this()), call(std::in_place, asked) {}
  std::shared_ptr<Core> core;
  std::optional<Call> call;
  std::vector<AcquisitionPtr> acquisitions;
  SendLog log;  // The first one's: whichever the store applied, no lease counts from later.
  int attempts = 0;
  bool maybe_applied = false;
  bool anew = false;
  Done<Multi> done;
};

// The outcomes of several leases that are given back at once.
struct Core::Giving {
  std::vector<AcquisitionPtr> held;
  std::vector<std::optional<Error>> losses;
  std::vector<std::optional<Result<void>>> answers;  // Known without asking the store.
  std::vector<port::AcquisitionRequest> requests;    // For the others, in their order.
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
void Core::give_back(Taking& taking) {
  const Turn turn(*this);
  if (closed_) return;
  for (const AcquisitionPtr& acquisition : taking.acquisitions) {
    acquisition->deadline_ns =
        (base::BootClock::now() + acquisition->ttl).time_since_epoch().count();
    send_release(acquisition);
  }
}

std::optional<Result<Core::Multi>> Core::on_no_answer(Taking& taking, const Error& error) {
  const bool unknown = error.code() == Errc::kOutcomeUnknown;
  taking.maybe_applied = taking.maybe_applied || unknown;
  if (!taking.maybe_applied) return Result<Multi>(error);
  const bool passing = detail::is_transient(error.code());
  if (passing && taking.attempts < kMostRequests) return std::nullopt;
  give_back(taking);
  return Result<Multi>(
      Error(Errc::kOutcomeUnknown, "they may be held for one ttl: " + error.message()));
}

// nullopt: ask again.
std::optional<Result<Core::Multi>> Core::on_taken(Taking& taking,
                                                  const Result<port::Store::Grants>& reply) {
  if (!reply) return on_no_answer(taking, reply.error());
  if (!*reply) {
    if (taking.maybe_applied) {
      give_back(taking);
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
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto least = terms_for(*taking.acquisitions[i], /*may_wait=*/false).min_left;
    const auto sent = taking.log.sent_at(states[i].seq);
    if (sent && bound_.safe_deadline(*sent, states[i].lease) - least > now) continue;
    give_back(taking);
    return Result<Multi>(Error(
        Errc::kUnavailable, "the answer came when too little was left of the leases; given back"));
  }
  const Turn turn(*this);
  for (std::size_t i = 0; i < states.size(); ++i) {
    start_lease(taking.acquisitions[i], states[i], taking.log);
  }
  if (!closed_) return Result<Multi>(Multi(taking.acquisitions));
  // close() has passed over the leases already.
  for (const AcquisitionPtr& acquisition : taking.acquisitions) {
    lose(acquisition, closed_error());
    send_release(acquisition);
  }
  return Result<Multi>(closed_error());
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
    // Perhaps applied: what repeats it waits for a connection.
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

Core::Giving Core::begin_release_all(const std::vector<AcquisitionPtr>& held) {
  Giving giving{held, {}, {}, {}};
  const Turn turn(*this);
  for (const AcquisitionPtr& acquisition : held) {
    std::optional<Error> loss;
    std::optional<Result<void>> answer;
    if (closed_) {
      const base::LocalLock lock(acquisition->loss_mutex);
      answer = acquisition->loss ? *acquisition->loss : closed_error();
    } else {
      answer = begin_release(acquisition, loss);
    }
    if (!answer) giving.requests.push_back(release_of(*acquisition));
    giving.losses.push_back(std::move(loss));
    giving.answers.push_back(std::move(answer));
  }
  if (!giving.requests.empty()) ++calls_under_way_;
  return giving;
}

std::vector<Result<void>> Core::end_release_all(
    const Giving& giving, const Result<std::vector<Result<port::EndStatus>>>& ended) {
  std::vector<Result<void>> results;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < giving.held.size(); ++i) {
    if (giving.answers[i]) {
      results.push_back(*giving.answers[i]);
      continue;
    }
    const Result<port::EndStatus> one =
        ended ? (*ended)[asked++] : Result<port::EndStatus>(ended.error());
    results.push_back(end_release(giving.held[i], giving.losses[i], one));
  }
  return results;
}

std::vector<Result<void>> Core::release_all(const std::vector<AcquisitionPtr>& held) {
  using Ends = std::vector<Result<port::EndStatus>>;
  if (forked()) return {held.size(), forked_error()};
  const Giving giving = begin_release_all(held);
  if (giving.requests.empty()) return end_release_all(giving, Ends());
  auto ended = store_->release_all_inline(giving.requests);
  if (!ended) {
    ended = await<Ends>(
        [&](Done<Ends> done) { store_->release_all(giving.requests, std::move(done)); });
  }
  auto results = end_release_all(giving, *ended);
  end_call();
  return results;
}

void Core::release_all(const std::vector<AcquisitionPtr>& held,
                       Done<std::vector<Result<void>>> done) {
  using Ends = std::vector<Result<port::EndStatus>>;
  if (forked()) return done(std::vector<Result<void>>(held.size(), forked_error()));
  const auto giving = std::make_shared<Giving>(begin_release_all(held));
  if (giving->requests.empty()) return done(end_release_all(*giving, Ends()));
  if (store_->answers_at_once()) {
    if (const auto ended = store_->release_all_inline(giving->requests)) {
      done(end_release_all(*giving, *ended));
      return end_call();
    }
  }
  store_->release_all(giving->requests, [self = shared_from_this(), giving, done = std::move(done)](
                                            const Result<Ends>& ended) mutable {
    const auto core = std::move(self);
    core->answer_later(
        [core, done = std::move(done), results = core->end_release_all(*giving, ended)] {
          done(results);
          core->end_call();
        });
  });
}

}  // namespace holdfast::session
