#include "src/stores/redis/script_store.h"

#include <algorithm>
#include <utility>

#include "src/port/multi_request.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/batch_answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"

namespace holdfast::stores::redis {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;
using port::Done;
using port::EndStatus;

constexpr std::size_t kMaxValue = 4096;

}  // namespace

ScriptStore::ScriptStore(const port::StoreContext& context, std::string address, std::string client,
                         std::function<machine::Instant()> now, ScriptHost host)
    : loop_(context.loop),
      listener_(context.listener),
      address_(std::move(address)),
      requests_(std::move(client), std::move(now), host),
      values_(std::make_shared<port::ValueWatches>(
          *loop_, [this](const std::string& channel, bool join) { hear(channel, join); })) {}

void ScriptStore::run_confirmed(ScriptCall script, base::BootInstant deadline,
                                Connections::DoneConfirmed done) {
  run(std::move(script), deadline,
      [done = std::move(done)](Result<Reply> reply) { done(std::move(reply), Missing()); });
}

Result<AcquisitionState> ScriptStore::refusal(const port::AcquireRequest& request) {
  return acquire_answer("invalid", request);
}

void ScriptStore::acquire(port::AcquireRequest request, Done<AcquisitionState> done) {
  if (malformed(request)) return answer_later(refusal(request), std::move(done));
  const bool hears = hears_of(request.name);
  if (!request.may_wait || (hears && none_subscribes())) {
    return send_acquire(std::move(request), std::move(done));
  }
  ++subscribing_;
  port::AcquireRequest attempt = request;
  attempt.may_wait = false;
  send_acquire(std::move(attempt), [this, request = std::move(request), done = std::move(done)](
                                       Result<AcquisitionState> state) mutable {
    if (!state || state->status != AcquisitionStatus::kBusy) {
      --subscribing_;
      return done(std::move(state));
    }
    const auto deadline = request.deadline;
    const std::string name = request.name;
    subscribe(name, deadline,
              [this, request = std::move(request),
               done = std::move(done)](const Result<void>& subscribed) mutable {
                subscribed ? send_acquire(std::move(request), std::move(done))
                           : done(subscribed.error());
                --subscribing_;
              });
  });
}

void ScriptStore::send_acquire(port::AcquireRequest request, Done<AcquisitionState> done) {
  ScriptCall script = requests_.acquire(request);
  const auto deadline = request.deadline;
  run_confirmed(std::move(script), deadline,
                [this, request = std::move(request), done = std::move(done)](
                    const Result<Reply>& reply, const Missing& missing) {
                  if (!reply) return done(reply.error());
                  auto state = acquire_answer(reply->text, request);
                  const bool held = state && state->status == AcquisitionStatus::kHeld;
                  if (held && !missing.empty())
                    return give_back(*this, address_, request, missing, done);
                  done(std::move(state));
                });
}

void ScriptStore::release(port::AcquisitionRequest request, Done<EndStatus> done) {
  end("release", std::move(request), std::move(done));
}

void ScriptStore::cancel(port::AcquisitionRequest request, Done<EndStatus> done) {
  end("cancel", std::move(request), std::move(done));
}

void ScriptStore::end(const char* how, port::AcquisitionRequest request, Done<EndStatus> done) {
  ++ends_under_way_;
  ScriptCall script = requests_.end(how, request);
  const auto deadline = request.deadline;
  run(std::move(script), deadline,
      [this, name = std::move(request.name), done = std::move(done)](const Result<Reply>& reply) {
        ended_one();
        reply ? done(end_answer(reply->text, name)) : done(reply.error());
      });
}

void ScriptStore::try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) {
  if (auto refused = refuse_all(requests)) {
    return answer_later(Result<Grants>(*std::move(refused)), std::move(done));
  }
  ScriptCall script = requests_.acquire_all(requests);
  const auto deadline = requests.front().deadline;
  run_confirmed(std::move(script), deadline,
                [this, requests = std::move(requests), done = std::move(done)](
                    const Result<Reply>& reply, const Missing& missing) mutable {
                  if (!reply) return done(reply.error());
                  auto grants = acquire_all_answer(*reply, requests);
                  if (missing.empty() || !grants || !*grants) return done(std::move(grants));
                  give_back_all(*this, address_, requests, missing, std::move(done));
                });
}

void ScriptStore::release_all(std::vector<port::AcquisitionRequest> requests,
                              Done<std::vector<Result<EndStatus>>> done) {
  ++ends_under_way_;
  ScriptCall script = requests_.end_all(requests);
  const auto deadline = requests.front().deadline;
  run(std::move(script), deadline,
      [this, requests = std::move(requests), done = std::move(done)](const Result<Reply>& reply) {
        ended_one();
        reply ? done(end_all_answer(*reply, requests)) : done(reply.error());
      });
}

void ScriptStore::downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) {
  run(requests_.call(ScriptName::kDowngrade, request.name, {id_text(request.id)}), request.deadline,
      [name = request.name, done = std::move(done)](const Result<Reply>& reply) {
        reply ? done(downgrade_answer(reply->text, name)) : done(reply.error());
      });
}

void ScriptStore::inspect(std::string name, base::BootInstant deadline,
                          Done<std::optional<LockInfo>> done) {
  run(requests_.call(ScriptName::kInspect, name, {}), deadline,
      [name, done = std::move(done)](const Result<Reply>& reply) {
        reply ? done(view_of(*reply, name)) : done(reply.error());
      });
}

void ScriptStore::break_lock(port::BreakRequest request, Done<bool> done) {
  const std::string token = request.token.epoch == 0 ? padded(request.token.counter) : "-";
  run(requests_.call(ScriptName::kBreak, request.name,
                     {token, port::write_trace({request.token, request.by})}),
      request.deadline, done_of(request.name, std::move(done)));
}

void ScriptStore::set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) {
  change_value({std::move(holder.name), holder.id, 0, {}, std::move(value), holder.deadline},
               std::move(done));
}

void ScriptStore::keep(port::KeepRequest request, Done<bool> done) {
  change_value(std::move(request), std::move(done));
}

// Number 0 and no time: the lease stays as it is.
void ScriptStore::change_value(port::KeepRequest request, Done<bool> done) {
  if (request.value && request.value->size() > kMaxValue) {
    return answer_later(done_answer("toolarge", request.name), std::move(done));
  }
  run_confirmed(
      requests_.call(ScriptName::kSetValue, request.name,
                     {id_text(request.id), request.value.value_or(""), request.value ? "v" : "-",
                      std::to_string(request.seq), std::to_string(request.ttl.count())}),
      request.deadline, value_set(address_, request.name, std::move(done)));
}

port::WatchHandle ScriptStore::watch_value(std::string name, port::Task changed) {
  return values_->add(value_key(name), std::move(changed));
}

void ScriptStore::resize(port::AcquisitionRequest request, std::uint32_t capacity,
                         Done<bool> done) {
  run(requests_.call(ScriptName::kResize, request.name,
                     {id_text(request.id), requests_.client(), std::to_string(capacity)}),
      request.deadline, done_of(request.name, std::move(done)));
}

std::optional<Result<AcquisitionState>> ScriptStore::acquire_inline(
    const port::AcquireRequest& request) {
  if (malformed(request)) return refusal(request);
  if (hears_of(request.name) || !request.may_wait) return acquire_here(request);
  port::AcquireRequest attempt = request;
  attempt.may_wait = false;
  auto state = acquire_here(attempt);
  if (state && *state && (*state)->status == AcquisitionStatus::kBusy) return std::nullopt;
  return state;
}

std::optional<Result<AcquisitionState>> ScriptStore::acquire_here(
    const port::AcquireRequest& request) {
  const auto reply = run_here(requests_.acquire(request), request.deadline, false);
  if (!reply) return std::nullopt;
  if (!*reply) return Result<AcquisitionState>(reply->error());
  return acquire_answer((*reply)->text, request);
}

std::optional<Result<EndStatus>> ScriptStore::release_inline(
    const port::AcquisitionRequest& request) {
  const auto reply =
      run_here(requests_.end("release", request), request.deadline, request.others_wait);
  if (!reply) return std::nullopt;
  if (!*reply) return Result<EndStatus>(reply->error());
  return end_answer((*reply)->text, request.name);
}

std::optional<Result<port::Store::Grants>> ScriptStore::try_acquire_all_inline(
    const std::vector<port::AcquireRequest>& requests) {
  if (auto refused = refuse_all(requests)) return Result<Grants>(*std::move(refused));
  const auto reply = run_here(requests_.acquire_all(requests), requests.front().deadline, false);
  if (!reply) return std::nullopt;
  if (!*reply) return Result<Grants>(reply->error());
  return acquire_all_answer(**reply, requests);
}

std::optional<Result<std::vector<Result<EndStatus>>>> ScriptStore::release_all_inline(
    const std::vector<port::AcquisitionRequest>& requests) {
  const bool others_wait = std::any_of(requests.begin(), requests.end(),
                                       [](const auto& one) { return one.others_wait; });
  const auto reply = run_here(requests_.end_all(requests), requests.front().deadline, others_wait);
  if (!reply) return std::nullopt;
  if (!*reply) return Result<std::vector<Result<EndStatus>>>(reply->error());
  return end_all_answer(**reply, requests);
}

Done<Reply> ScriptStore::done_of(std::string name, Done<bool> done) {
  return [name = std::move(name), done = std::move(done)](const Result<Reply>& reply) {
    reply ? done(done_answer(reply->text, name)) : done(reply.error());
  };
}

std::optional<Error> ScriptStore::refuse_all(const std::vector<port::AcquireRequest>& requests) {
  if (auto good = port::check_multi(requests); !good) return good.error();
  for (const port::AcquireRequest& request : requests) {
    if (malformed(request)) return refusal(request).error();
  }
  return std::nullopt;
}

void ScriptStore::ended_one() {
  if (--ends_under_way_ > 0 || !closing_) return;
  const base::LocalLock lock(mutex_);
  ended_.notify_all();
}

void ScriptStore::await_ends(base::BootInstant deadline) {
  closing_ = true;
  const base::LocalLock lock(mutex_);
  for (auto now = base::BootClock::now(); ends_under_way_ > 0 && now < deadline;
       now = base::BootClock::now()) {
    ended_.wait_for(mutex_, deadline - now);
  }
}

void ScriptStore::on_message(std::string_view payload, bool counts) {
  if (const auto key = told_value(payload)) return values_->tell(std::string(*key));
  auto push = parse_push(payload);
  const bool grants = push && push->kind == port::Push::Kind::kGranted;
  if (grants && !counts) push->kind = port::Push::Kind::kHint;
  if (push) listener_->on_push(*push);
}

void ScriptStore::on_subscribed(bool again) {
  values_->tell_all();
  if (!again) return listener_->on_pushes_begin();
  listener_->on_alarm(address_ + ": connected again");
  listener_->on_pushes_missed();
}

// The subscriber's connection always exists, so its loss also reaches a client that only waits.
void ScriptStore::on_lost(const Error& why) {
  if (closing_) return;
  listener_->on_alarm(address_ +
                      ": the connection is lost; reconnecting. Waiters keep waiting, leases last " +
                      "until their deadlines: " + why.message());
}

}  // namespace holdfast::stores::redis
