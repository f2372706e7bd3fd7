#include "src/stores/holdfast/service_primary.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::holdfast {

namespace {

std::string hosts_of(const redis::RedisAddress& address) {
  std::string hosts;
  for (const port::Endpoint& each : address.nodes) {
    hosts += (hosts.empty() ? "" : ", ") + each.host;
  }
  return hosts;
}

// Each server's certificate carries its own name.
redis::Endpoints named(redis::Endpoints endpoints, const std::string& host) {
  for (redis::Endpoint& each : endpoints) each.name = host;
  return endpoints;
}

}  // namespace

ServicePrimary::ServicePrimary(const redis::RedisAddress& address, const port::Endpoint& first)
    : hosts_(hosts_of(address)), shard_(address.shard.value_or(0)) {
  for (const port::Endpoint& each : address.nodes) {
    redis::RedisAddress one = address;
    one.host = each.host;
    one.port = each.port;
    servers_.push_back({each.host, std::make_unique<redis::Resolver>(one)});
    if (each.text() == first.text()) {
      std::rotate(servers_.begin(), std::prev(servers_.end()), servers_.end());
    }
  }
}

Result<std::uint64_t> ServicePrimary::judge_term(std::string_view attached) {
  redis::Fields fields(attached);
  const bool version = fields.word() == "HF1";
  const std::string journal(fields.word());
  const auto shard = fields.number<std::uint32_t>();
  // "7-3fa2": the number grows with each term of a journal.
  const std::string_view word = fields.word();
  const auto number = detail::parse_number<std::uint64_t>(word.substr(0, word.find('-')));
  const std::uint64_t term = number.value_or(0);
  if (!version || !fields.good() || !fields.rest().empty() || shard != shard_ || term == 0) {
    return Error{Errc::kVersionMismatch,
                 ": the lock service speaks another version of the protocol: update this program"};
  }
  const base::LocalLock lock(mutex_);
  if (journal_.empty()) journal_ = journal;
  if (journal_ != journal) {
    // Waiting does not mend it, so waiters must be told.
    return Error{Errc::kCorruptState, ": another lock service answers here, with journal " +
                                          journal + " instead of " + journal_ +
                                          ": its locks are not this client's; start the right "
                                          "server, or connect anew"};
  }
  if (term < generation()) {
    return Error{Errc::kUnavailable, ": a server of an earlier term (" + std::to_string(term) +
                                         ") answers; " + std::to_string(generation()) +
                                         " was seen already"};
  }
  return term;
}

void ServicePrimary::enter(std::uint64_t generation) {
  {
    const base::LocalLock lock(mutex_);
    if (generation <= this->generation()) return;
    raise(generation);
  }
  tell_switch();
}

void ServicePrimary::prefer(const redis::Endpoint& endpoint) {
  const base::LocalLock lock(mutex_);
  leader_ = endpoint;
}

redis::Location ServicePrimary::cached() const {
  redis::Location known;
  for (const auto& [host, resolver] : servers_) {
    for (redis::Endpoint& each : named(resolver->cached().endpoints, host)) {
      known.endpoints.push_back(std::move(each));
    }
  }
  known.generation = generation();
  const base::LocalLock lock(mutex_);
  redis::put_first(leader_, known.endpoints);
  return known;
}

// The lookups of all servers; those that fail leave their server out.
struct ServicePrimary::Lookups {
  base::LocalMutex mutex;
  std::size_t left HOLDFAST_GUARDED_BY(mutex) = 0;
  redis::Endpoints found HOLDFAST_GUARDED_BY(mutex);
  Error failure HOLDFAST_GUARDED_BY(mutex){Errc::kUnavailable, ""};
  std::uint64_t generation = 0;
  redis::Endpoint leader;
  std::function<void(Result<redis::Location>)> done;

  void take(Result<redis::Location> answer) {
    redis::Location all;
    {
      const base::LocalLock lock(mutex);
      if (answer) {
        found.insert(found.end(), answer->endpoints.begin(), answer->endpoints.end());
      } else {
        failure = answer.error();
      }
      if (--left > 0) return;
      all = {std::move(found), generation};
      answer = failure;
    }
    redis::put_first(leader, all.endpoints);
    all.endpoints.empty() ? done(std::move(answer)) : done(std::move(all));
  }
};

// The callback may come when this object is gone.
void ServicePrimary::refresh(std::function<void(Result<redis::Location>)> done) {
  const auto lookups = std::make_shared<Lookups>();
  lookups->generation = generation();
  lookups->done = std::move(done);
  {
    const base::LocalLock lock(mutex_);
    lookups->leader = leader_;
  }
  {
    const base::LocalLock lock(lookups->mutex);
    lookups->left = servers_.size();
  }
  for (const auto& [host, resolver] : servers_) {
    resolver->refresh([lookups, host = host](Result<redis::Location> found) {
      if (found) found->endpoints = named(std::move(found->endpoints), host);
      lookups->take(std::move(found));
    });
  }
}

std::string ServicePrimary::late() const {
  return "looking up " + hosts_ + " takes too long: fix the name service";
}

}  // namespace holdfast::stores::holdfast
