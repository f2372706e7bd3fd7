#include "src/stores/consul/writes.h"

#include <algorithm>
#include <utility>

#include "src/stores/consul/errors.h"

namespace holdfast::stores::consul {
namespace {

using base::BootClock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds kOneTry = 1500ms;
constexpr milliseconds kFenceTry = 1s;
constexpr milliseconds kFencePause = 50ms;

Error lost() { return {Errc::kLost, "the session at Consul has ended, and what it held"}; }

Error too_late() { return {Errc::kUnavailable, "Consul did not answer in time: nothing was sent"}; }

bool is_no_session(const std::string& why) {
  return why.find("invalid session") != std::string::npos;
}

}  // namespace

milliseconds Writes::patience(base::BootInstant deadline) const {
  const milliseconds left = std::max(1ms, left_until(deadline));
  return several_ ? std::min(left, kOneTry) : left;
}

void Writes::send(Write write) {
  const std::string lock = write.lock;
  chains_[lock].push_back(std::make_shared<Entry>(Entry{std::move(write)}));
  step(lock);
}

// Sends the first of the chain, which stays there until its answer.
void Writes::step(const std::string& lock) {
  const auto chain = chains_.find(lock);
  if (fencing_ || stopped_ || chain == chains_.end() || chain->second.front()->busy) return;
  const EntryPtr entry = chain->second.front();
  entry->busy = true;
  const auto refuse = [&](const Error& why) {
    behind(base::BootInstant::max(), [self = shared_from_this(), entry, why](const Result<void>&) {
      self->finish(entry, why);
    });
  };
  const Write& write = entry->write;
  if (!session_.open() || session_.epoch() != write.epoch) return refuse(lost());
  if (left_until(write.deadline) <= 0ms) return refuse(too_late());
  Transaction all;
  const std::uint64_t fence = session_.fence();
  all.check_index(keys_.fence(session_.id()), fence);
  write.steps(all);
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/txn",
              .body = all.body(),
              .limit = patience(write.deadline)},
             [weak = weak_from_this(), entry, fence](const Result<HttpReply>& reply) {
               if (const auto self = weak.lock()) self->on_answer(entry, fence, reply);
             });
}

void Writes::on_answer(const EntryPtr& entry, std::uint64_t fence, const Result<HttpReply>& reply) {
  if (stopped_) return;
  const Write& write = entry->write;
  auto answer = reply ? read_transaction(*reply, write.what, /*reads=*/false)
                      : Result<TransactionReply>(reply.error());
  if (!answer) {
    if (answer.error().code() == Errc::kOutcomeUnknown) raise_fence();
    return finish(entry, answer.error());
  }
  if (answer->done) return finish(entry, std::move(answer));
  if (is_no_session(answer->why)) {
    session_.suspect();
    return finish(entry, lost());
  }
  if (answer->failed_at > 0) {
    --answer->failed_at;
    return finish(entry, std::move(answer));
  }
  const bool same_session = session_.open() && session_.epoch() == write.epoch;
  if (same_session && (fencing_ || session_.fence() != fence)) {
    entry->busy = false;
    return step(write.lock);
  }
  // Nobody else writes the fence, and only the session's end removes it.
  if (same_session) session_.give_up(lost());
  finish(entry, lost());
}

void Writes::finish(const EntryPtr& entry, Result<TransactionReply> result) {
  const std::string lock = entry->write.lock;
  const auto chain = chains_.find(lock);
  if (chain == chains_.end() || std::erase(chain->second, entry) == 0) return;
  if (chain->second.empty()) chains_.erase(chain);
  // The next one may depend on what this one's owner makes of it.
  entry->write.done(std::move(result));
  step(lock);
}

void Writes::behind(base::BootInstant deadline, std::function<void(Result<void>)> task) {
  behind_.push_back({deadline, std::move(task)});
  if (fencing_) return;
  timer_.arm(0ns, [this] {
    if (!fencing_) fence_is_up();
  });
}

void Writes::raise_fence() {
  if (fencing_ || !session_.open()) return;
  fencing_ = true;
  fencing_epoch_ = session_.epoch();
  retry_fence();
}

// Whether the session whose fence is raised has ended: with it went the key that writes expect.
bool Writes::fence_is_gone() {
  if (session_.open() && session_.epoch() == fencing_epoch_) return false;
  fencing_ = false;
  fence_is_up();
  return true;
}

void Writes::retry_fence() {
  drop_late();
  if (stopped_ || fence_is_gone()) return;
  const std::string key = keys_.fence(session_.id());
  Transaction up;
  // Another value each time: a write that changes nothing is passed over, index and all.
  up.check_index(key, session_.fence())
      .check_session(key, session_.id())
      .set(key, std::to_string(session_.fence()));
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/txn",
              .body = up.body(),
              .urgent = true,
              .limit = kFenceTry},
             [weak = weak_from_this(), epoch = fencing_epoch_](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->stopped_ || self->fencing_epoch_ != epoch) return;
               self->on_fence(reply);
             });
}

void Writes::on_fence(const Result<HttpReply>& reply) {
  if (fence_is_gone()) return;
  auto answer = reply ? read_transaction(*reply, "fencing", /*reads=*/false)
                      : Result<TransactionReply>(reply.error());
  if (!answer) {
    timer_.arm(kFencePause, [this] { retry_fence(); });
  } else if (!answer->done) {
    read_fence();  // One of the tries before was carried out.
  } else if (!answer->pairs.empty()) {
    set_fence(answer->pairs.back().modified);
  }
}

// No try is left that could still write: all of them expect the index from before.
void Writes::read_fence() {
  http_.send({.target = "/v1/kv/" + encode_path(keys_.fence(session_.id())) + "?consistent",
              .reads = true,
              .urgent = true,
              .limit = kFenceTry},
             [weak = weak_from_this(), epoch = fencing_epoch_](const Result<HttpReply>& reply) {
               const auto self = weak.lock();
               if (self == nullptr || self->stopped_ || self->fencing_epoch_ != epoch) return;
               if (self->fence_is_gone()) return;
               const auto pairs =
                   reply ? read_pairs(*reply, "fencing") : Result<std::vector<Pair>>(reply.error());
               if (pairs && pairs->empty()) {
                 self->session_.give_up(lost());
                 self->fence_is_gone();
               } else if (pairs && pairs->front().modified != self->session_.fence()) {
                 self->set_fence(pairs->front().modified);
               } else {
                 self->timer_.arm(kFencePause, [self] { self->retry_fence(); });
               }
             });
}

void Writes::set_fence(std::uint64_t index) {
  session_.set_fence(index);
  fencing_ = false;
  fence_is_up();
}

void Writes::fence_is_up() {
  for (auto& each : std::exchange(behind_, {})) each.task({});
  std::vector<std::string> locks;
  for (const auto& [lock, chain] : chains_) locks.push_back(lock);
  for (const std::string& lock : locks) step(lock);
}

void Writes::drop_late() {
  const auto now = BootClock::now();
  std::vector<Behind> over;
  std::copy_if(behind_.begin(), behind_.end(), std::back_inserter(over),
               [&](const Behind& each) { return each.deadline <= now; });
  std::erase_if(behind_, [&](const Behind& each) { return each.deadline <= now; });
  std::vector<EntryPtr> entries;
  for (const auto& [lock, chain] : chains_) {
    std::copy_if(chain.begin(), chain.end(), std::back_inserter(entries),
                 [&](const auto& entry) { return !entry->busy && entry->write.deadline <= now; });
  }
  for (const auto& each : over) each.task(too_late());
  for (const auto& entry : entries) finish(entry, too_late());
}

void Writes::stop() {
  stopped_ = true;
  timer_.stop();
  const Error closed{Errc::kClosed, "the client was closed"};
  for (auto& each : std::exchange(behind_, {})) each.task(closed);
  for (auto& [lock, chain] : std::exchange(chains_, {})) {
    for (const auto& entry : chain) entry->write.done(closed);
  }
}

}  // namespace holdfast::stores::consul
