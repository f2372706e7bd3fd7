#include "src/stores/redis/doctor/trial.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

using port::Done;
using Steps = std::vector<std::function<void(const Done<void>&)>>;

// Runs the steps one after the other, until one fails.
void go_on(const std::shared_ptr<const Steps>& steps, std::size_t at, const Done<void>& done) {
  if (at == steps->size()) return done({});
  (*steps)[at]([steps, at, done](const Result<void>& outcome) {
    outcome ? go_on(steps, at + 1, done) : done(outcome);
  });
}

// Drops the answer's content: only its success counts.
template <typename T>
Done<T> without(const Done<void>& done) {
  return [done](const Result<T>& got) { got ? done({}) : done(got.error()); };
}

port::AcquireRequest request_of(const port::AcquisitionRequest& ticket) {
  port::AcquireRequest request;
  request.name = ticket.name;
  request.id = ticket.id;
  request.issue = ticket.issue;
  request.deadline = ticket.deadline;
  request.ttl = request.waiter_ttl = std::chrono::seconds(1);
  return request;
}

}  // namespace

std::string trial_name(const std::string& name_space, const Requests& requests) {
  return (name_space.empty() ? "" : name_space + "/") + "holdfast-doctor/" + requests.client();
}

void try_lock(TrialAccess access, const std::string& name, base::BootInstant deadline,
              Done<void> done) {
  const auto ticket = [&](std::uint64_t issue) {
    return port::AcquisitionRequest{
        name, {base::random_128().high, base::random_128().low}, deadline, issue};
  };
  const auto first = ticket(1);
  const auto second = ticket(2);
  const auto acquire = [access](const port::AcquisitionRequest& which) {
    return [access, which](const Done<void>& next) {
      access.acquire(request_of(which), without<port::AcquisitionState>(next));
    };
  };
  const auto release = [&store = access.store](const port::AcquisitionRequest& which) {
    return [&store, which](const Done<void>& next) {
      store.release(which, without<port::EndStatus>(next));
    };
  };
  const auto set = [&store = access.store, first](const Done<void>& next) {
    store.set_value(first, "tried", without<bool>(next));
  };
  const auto check_rights = [access, name, deadline](const Done<void>& next) {
    access.run(access.requests.call(ScriptName::kRights, name,
                                    {"doctor", channel_of(access.requests.client())}),
               deadline, [&where = access.where, next](const Result<Reply>& reply) {
                 next(reply ? rights_answer(*reply, where) : reply.error());
               });
  };
  auto steps = std::make_shared<const Steps>(
      Steps{check_rights, acquire(first), set, acquire(second), release(first), release(second)});
  go_on(steps, 0,
        [read = std::move(access.read), name, done = std::move(done)](const Result<void>& outcome) {
          const std::string key = record_key(name);
          read(name,
               {"DEL", key, key + ":t", key + ":h", key + ":w", key + ":q", key + ":m", key + ":b",
                key + ":v"},
               base::BootClock::now() + std::chrono::seconds(1),
               [done, outcome](const Result<Reply>&) { done(outcome); });
        });
}

}  // namespace holdfast::stores::redis
