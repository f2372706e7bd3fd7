#include "src/stores/consul/writes.h"

#include <algorithm>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "holdfast/detail/transient.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using base::BootClock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds kOneTry = 1500ms;
constexpr milliseconds kFenceTry = 1s;
constexpr milliseconds kFencePause = 50ms;
// A transaction has at most 64 steps, of which the first checks the fence.
constexpr contend::BatchLimits kLimits{.parts = 63 / Writes::kMostSteps};

Error lost() { return {Errc::kLost, "the session at Consul has ended, and its locks with it"}; }

Error too_late() {
  return {Errc::kUnavailable,
          "Consul did not answer an earlier request in time, so this one was not sent; try again"};
}

bool is_no_session(const std::string& why) {
  return why.find("invalid session") != std::string::npos;
}

}  // namespace

milliseconds Writes::patience(base::BootInstant deadline) const {
  const milliseconds left = std::max(1ms, left_until(deadline));
  return several_ ? std::min(left, kOneTry) : left;
}

Writes::Writes(asio::io_context& io, HttpLoop& http, StoreSession& session, const Keys& keys,
               std::size_t agents)
    : io_(io),
      http_(http),
      session_(session),
      keys_(keys),
      several_(agents > 1),
      timer_(io),
      batches_(kLimits) {}

void Writes::send(Write write) {
  const std::string lock = write.lock;
  chains_[lock].push_back(std::make_shared<Entry>(Entry{std::move(write)}));
  step(lock);
}

std::optional<Error> Writes::refusal_of(const Write& write) const {
  if (!session_.open() || session_.epoch() != write.epoch) return lost();
  if (left_until(write.deadline) <= 0ms) return too_late();
  return std::nullopt;
}

// Sends the first write of the chain, and the first removal if only entries of others are before
// it. They stay there until their answers.
void Writes::step(const std::string& lock) {
  const auto found = chains_.find(lock);
  if (fencing_ || stopped_ || found == chains_.end()) return;
  const std::deque<EntryPtr>& chain = found->second;
  const EntryPtr first = chain.front();
  const auto other = std::find_if(chain.begin(), chain.end(),
                                  [](const EntryPtr& each) { return each->write.enters.empty(); });
  EntryPtr removal;
  if (other != chain.end() && other != chain.begin() && !(*other)->write.removes.empty()) {
    const bool free = std::none_of(chain.begin(), other, [&](const EntryPtr& each) {
      return each->write.enters == (*other)->write.removes;
    });
    if (free) removal = *other;
  }
  if (removal && !removal->busy) start(lock, removal);
  if (!first->busy) start(lock, first);
}

void Writes::start(const std::string& lock, const EntryPtr& entry) {
  entry->busy = true;
  const Write& write = entry->write;
  // An earlier write of this lock may still be applied, so even a refusal waits for the fence.
  if (const auto why = refusal_of(write)) {
    return behind(base::BootInstant::max(), [self = shared_from_this(), entry, why = *why](
                                                const Result<void>&) { self->finish(entry, why); });
  }
  if (!write.joins || entry->alone) {
    return send_call({{entry}, {}, session_.fence(), std::nullopt}, write.deadline);
  }
  entry->queued = true;
  batches_.add(lock, write.deadline, write.bytes, entry);
  if (std::exchange(sending_, true)) return;
  asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->sending_ = false;
    self->send_batch();
  });
}

void Writes::send_batch() {
  while (!fencing_ && !stopped_) {
    std::vector<EntryPtr> late;
    auto taken = batches_.take(BootClock::now(), late);
    for (const EntryPtr& entry : late) finish(entry, too_late());
    Call call{{}, {}, session_.fence(), taken.deadline};
    for (const EntryPtr& entry : taken.parts) {
      entry->queued = false;
      if (const auto why = refusal_of(entry->write)) {
        finish(entry, *why);
      } else {
        call.entries.push_back(entry);
      }
    }
    if (!call.entries.empty()) {
      send_call(std::move(call), taken.deadline);
    } else if (!taken.parts.empty()) {
      batches_.answered(taken.deadline);
    } else if (late.empty()) {
      return;
    }
  }
}

void Writes::send_call(Call call, base::BootInstant deadline) {
  Transaction all;
  call.fence_key = keys_.fence(session_.id());
  all.check_index(call.fence_key, call.fence);
  for (const EntryPtr& entry : call.entries) entry->write.steps(all);
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/txn",
              .body = all.body(),
              .limit = patience(deadline)},
             [weak = weak_from_this(), call = std::move(call)](const Result<HttpReply>& reply) {
               if (const auto self = weak.lock()) self->on_answer(call, reply);
             });
}

void Writes::on_answer(const Call& call, const Result<HttpReply>& reply) {
  if (stopped_) return;
  if (call.joined) batches_.answered(*call.joined);
  auto answer = reply ? read_transaction(*reply, call.entries.front()->write.what, /*reads=*/false)
                      : Result<TransactionReply>(reply.error());
  if (answer && answer->done) {
    finish_each(call, *std::move(answer));
  } else if (answer) {
    on_refusal(call, *std::move(answer));
  } else {
    const Errc code = answer.error().code();
    // After the fence the unanswered write can no longer be applied.
    if (code == Errc::kOutcomeUnknown) raise_fence();
    // A refusal may concern one part, or the size of the call. The others are tried again.
    const bool of_all = detail::is_transient(code);
    for (const EntryPtr& entry : call.entries) {
      if (of_all || call.entries.size() == 1) {
        finish(entry, answer.error());
      } else {
        entry->alone = true;
        again(entry);
      }
    }
  }
  send_batch();
}

// The refused call did nothing.
void Writes::on_refusal(const Call& call, TransactionReply answer) {
  if (is_no_session(answer.why)) {
    session_.suspect();
    for (const EntryPtr& entry : call.entries) finish(entry, lost());
    return;
  }
  // The first step checks the fence. A later one is the write's own condition, which its owner
  // judges.
  if (answer.failed_at > 0 && call.entries.size() == 1) {
    --answer.failed_at;
    return finish(call.entries.front(), std::move(answer));
  }
  for (const EntryPtr& entry : call.entries) {
    const bool same_session = session_.open() && session_.epoch() == entry->write.epoch;
    const bool fence_moved = fencing_ || session_.fence() != call.fence;
    if (answer.failed_at > 0) entry->alone = true;
    if (answer.failed_at > 0 || (same_session && fence_moved)) {
      again(entry);
      continue;
    }
    // Nobody else writes the fence, and only the session's end removes it.
    if (same_session) session_.give_up(lost());
    finish(entry, lost());
  }
}

// The pairs are in the order of the steps.
void Writes::finish_each(const Call& call, TransactionReply answer) {
  if (call.entries.size() == 1) return finish(call.entries.front(), std::move(answer));
  auto next = answer.pairs.begin();
  if (next != answer.pairs.end() && next->key == call.fence_key) ++next;
  for (const EntryPtr& entry : call.entries) {
    TransactionReply own{true, {}, 0, {}};
    const std::string folder = keys_.folder(entry->write.lock);
    for (; next != answer.pairs.end() && next->key.starts_with(folder); ++next) {
      own.pairs.push_back(std::move(*next));
    }
    finish(entry, std::move(own));
  }
}

void Writes::again(const EntryPtr& entry) {
  entry->busy = false;
  step(entry->write.lock);
}

void Writes::finish(const EntryPtr& entry, Result<TransactionReply> result) {
  const std::string lock = entry->write.lock;
  const auto chain = chains_.find(lock);
  if (chain == chains_.end() || std::erase(chain->second, entry) == 0) return;
  if (chain->second.empty()) chains_.erase(chain);
  // The owner hears first, because the next write may depend on its reaction.
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
  // An unsent part waits for its turn again, until its deadline (drop_late()).
  batches_ = contend::BatchQueue<EntryPtr>(kLimits);
  for (const auto& [lock, chain] : chains_) {
    for (const EntryPtr& each : chain) {
      if (std::exchange(each->queued, false)) each->busy = false;
    }
  }
  fencing_epoch_ = session_.epoch();
  retry_fence();
}

// Whether the session of this fence has ended. Its end also removed the key that writes expect.
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
  // Another value each time, because Consul ignores a write that changes nothing, and keeps its
  // index.
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
    read_fence();  // An earlier attempt was applied.
  } else if (!answer->pairs.empty()) {
    set_fence(answer->pairs.back().modified);
  }
}

// No attempt can write any more, because all of them expect the old index.
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
