#include "src/stores/redis/confirming.h"

#include <algorithm>
#include <utility>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

Error unconfirmed(bool surely_not, const std::string& what, const Missing& missing) {
  return {surely_not ? Errc::kUnavailable : Errc::kOutcomeUnknown,
          what + missing + (surely_not ? "; it was given back" : "; it may stay held for one ttl")};
}

}  // namespace

Confirmation confirmation_of(const port::StoreContext& context, const RedisAddress& address) {
  const std::string space = context.name_space.empty() ? "" : context.name_space + "/";
  return {address.replicas, address.replicas_timeout, record_key(space + "@confirmed") + ":r"};
}

void give_back(port::Store& store, const std::string& where, const port::AcquireRequest& request,
               const Missing& missing, port::Done<port::AcquisitionState> done) {
  store.cancel({request.name, request.id, request.deadline, request.issue},
               [what = where + ": lock '" + request.name + "': ", missing,
                done = std::move(done)](const Result<port::EndStatus>& end) {
                 done(unconfirmed(end.has_value(), what, missing));
               });
}

void give_back_all(port::Store& store, const std::string& where,
                   const std::vector<port::AcquireRequest>& requests, const Missing& missing,
                   port::Done<port::Store::Grants> done) {
  std::vector<port::AcquisitionRequest> own;
  for (const port::AcquireRequest& each : requests) {
    own.push_back({each.name, each.id, requests.front().deadline, each.issue});
  }
  store.release_all(
      std::move(own),
      [what = where + ": lock '" + requests.front().name + "': ", missing,
       done = std::move(done)](const Result<std::vector<Result<port::EndStatus>>>& ends) {
        const bool all = ends && std::all_of(ends->begin(), ends->end(),
                                             [](const auto& each) { return each.has_value(); });
        done(unconfirmed(all, what, missing));
      });
}

std::function<void(Result<Reply>, const Missing&)> value_set(const std::string& where,
                                                             const std::string& name,
                                                             port::Done<bool> done) {
  return [where, name, done = std::move(done)](const Result<Reply>& reply, const Missing& missing) {
    if (!reply) return done(reply.error());
    auto set = done_answer(reply->text, name);
    if (!set || missing.empty()) return done(std::move(set));
    done(Error(Errc::kOutcomeUnknown,
               where + ": lock '" + name + "': the change was made, but " + missing));
  };
}

}  // namespace holdfast::stores::redis
