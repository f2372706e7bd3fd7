#include "src/server/served_shard.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/server/run_on_loop.h"

namespace holdfast::server {
namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kBetweenTries{500};
// After it has stepped down.
constexpr std::chrono::seconds kForOthers{5};

}  // namespace

struct ServedShard::Impl final : ServiceListener {
  Impl(asio::io_context& its_io, ShardOwner& its_owner, ServedShardOptions its_options)
      : io(its_io), owner(its_owner), options(std::move(its_options)), shard(options.shard.number) {
    options.service.warn = [this](const std::string& what) { owner.warn(named(what)); };
  }

  // --- What the service tells, on the loop.
  void on_push(const ClientName& client, const port::Push& push) override {
    owner.on_push(shard, client, push);
  }
  void on_effect(Position, const machine::Effect& effect, machine::Instant at) override {
    owner.on_effect(shard, effect, at);
  }
  void on_stopped(const Error& reason) override {
    owner.on_term_end(shard, reason);
    if (!options.shared) return;
    owner.warn(named("does not lead any more: " + reason.message()));
    const base::LocalLock lock(mutex);
    term_ended = true;
    changed.notify_all();
  }

  bool is_one_of_several() const { return options.shard.of > 1; }
  std::string named(const std::string& what) const {
    return is_one_of_several() ? "shard " + std::to_string(shard) + ": " + what : what;
  }

  Result<void> start(std::unique_ptr<Journal> its_journal);
  Result<void> begin_term();
  void stand_by(const std::string& leader);
  void end_service(const std::string& leader);
  void follow();
  Result<bool> try_once();
  void stop();

  std::unique_ptr<Journal> take_journal() {
    const base::LocalLock lock(mutex);
    return std::move(journal);
  }
  bool is_stopping() {
    const base::LocalLock lock(mutex);
    return stopping;
  }
  // True: by somebody's wish, and the term goes on so far.
  bool wait_for_term_end() {
    const base::LocalLock lock(mutex);
    while (!stopping && !term_ended && !steps_down) changed.wait(mutex);
    const bool by_wish = std::exchange(steps_down, false);
    // A plan of before, when the shard was vacant still, must not take it back. The next one comes
    // soon.
    tries = false;
    return !std::exchange(term_ended, false) && by_wish;
  }
  // One of several waits for the plan. False: the server stops.
  bool wait_for_turn() {
    const base::LocalLock lock(mutex);
    while (!stopping && is_one_of_several() && !tries) changed.wait(mutex);
    tries = false;
    return !stopping;
  }
  void pause(std::chrono::milliseconds time) {
    const base::LocalLock lock(mutex);
    if (!stopping) changed.wait_for(mutex, time);
  }
  void wish(bool& what) {
    const base::LocalLock lock(mutex);
    what = true;
    changed.notify_all();
  }

  asio::io_context& io;
  ShardOwner& owner;
  ServedShardOptions options;
  const std::uint32_t shard;
  std::optional<Service> service;  // The follower's while it recovers, then the loop's.
  bool serving = false;            // The loop's.
  std::thread follower;            // Where the journal is shared.

  mutable base::LocalMutex mutex;
  base::LocalCondition changed;
  // Until the service has it. It stays where it is while the follower uses it.
  std::unique_ptr<Journal> journal;
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
  bool term_ended HOLDFAST_GUARDED_BY(mutex) = false;
  bool steps_down = false;  // With the mutex, as the next.
  bool tries = false;
  ServerLead lead HOLDFAST_GUARDED_BY(mutex){false, {}, {}};
  std::string journal_id HOLDFAST_GUARDED_BY(mutex);
};

Result<void> ServedShard::Impl::start(std::unique_ptr<Journal> its_journal) {
  journal = std::move(its_journal);
  if (!options.shared) return begin_term();
  if (journal != nullptr) {
    const auto leads = journal->lead(options.address, base::BootClock::now());
    if (!leads) return leads.error();
    if (*leads) {
      const auto began = begin_term();
      if (!began && began.error().code() != Errc::kUnavailable) return began;
      if (!began) owner.warn(named("cannot lead: " + began.error().message()));
      if (!began) stand_by({});
    } else {
      stand_by(journal->leader());
    }
  }
  follower = base::start_thread("hf-stand-by", [this] { follow(); });
  return {};
}

// Serves with the journal.
Result<void> ServedShard::Impl::begin_term() {
  service.emplace(io, take_journal(), *this, options.service);
  if (auto recovered = service->recover(); !recovered) {
    service.reset();
    return recovered;
  }
  const auto begin = [this] {
    {
      // A wish of an earlier term. The next ones count, from the first moment in which others see
      // that it leads.
      const base::LocalLock lock(mutex);
      steps_down = false;
    }
    service->begin();
    owner.serve(shard, *service);
    serving = true;
  };
  options.shared ? run_on_loop(io, begin) : begin();
  const auto& seen = service->found();
  const base::LocalLock lock(mutex);
  journal_id = service->journal_id();
  lead = {true,
          options.address,
          {seen.began, service->term(), seen.locks, seen.restored,
           std::chrono::ceil<std::chrono::seconds>(seen.quiet)}};
  return {};
}

// Answers what is under way, if the service has not ended by itself. Its journal waits for the
// network when it goes, which must not be on the loop.
void ServedShard::Impl::end_service(const std::string& leader) {
  std::unique_ptr<Journal> ended;
  run_on_loop(io, [&] {
    if (service) ended = service->stop_and_keep_journal();
    owner.stand_by(shard, leader);
    service.reset();
    serving = false;
  });
}

void ServedShard::Impl::stand_by(const std::string& leader) {
  end_service(leader);
  const base::LocalLock lock(mutex);
  lead = {false, leader, {}};
  journal_id.clear();
}

// The thread of a shard on a shared journal.
void ServedShard::Impl::follow() {
  bool told_trouble = false;
  while (!is_stopping()) {
    if (service) {
      const bool by_wish = wait_for_term_end();
      if (is_stopping()) return;
      stand_by({});
      owner.on_change(shard);
      if (by_wish && !is_one_of_several()) pause(kForOthers);
      continue;
    }
    if (!wait_for_turn()) return;
    const auto leads = try_once();
    // This server cannot read the journal, and another one may. So it does not try to lead again
    // (rule 51).
    if (!leads && leads.error().code() != Errc::kUnavailable) {
      return owner.on_failure(shard, leads.error());
    }
    if (!leads && !std::exchange(told_trouble, true)) {
      owner.warn(named("cannot lead: " + leads.error().message()));
    }
    if (leads && std::exchange(told_trouble, false)) owner.warn(named("the journal answers again"));
    if (leads && *leads) owner.on_change(shard);
    if (!leads) pause(kBetweenTries);
  }
}

// True: it leads. A journal's object has one term.
Result<bool> ServedShard::Impl::try_once() {
  bool made = true;
  {
    const base::LocalLock lock(mutex);
    made = journal != nullptr;
  }
  if (!made) {
    auto fresh = make_journal(options.journal, options.shard);
    if (!fresh) return fresh.error();
    const base::LocalLock lock(mutex);
    journal = *std::move(fresh);
  }
  const auto now = base::BootClock::now();
  // With several shards the plan has chosen the moment, so it does not wait for a better one.
  const auto leads = journal->lead(options.address, is_one_of_several() ? now : now + kPatience);
  if (!leads) return leads;
  if (*leads) {
    if (const auto began = begin_term(); !began) return began.error();
    return true;
  }
  const std::string leader = journal->leader();
  {
    const base::LocalLock lock(mutex);
    // Clients know this leader already.
    if (leader == lead.leader) return false;
  }
  stand_by(leader);
  owner.on_change(shard);
  return false;
}

void ServedShard::Impl::stop() {
  {
    const base::LocalLock lock(mutex);
    stopping = true;
    if (journal) journal->interrupt();
    changed.notify_all();
  }
  if (follower.joinable()) follower.join();
  std::unique_ptr<Journal> ended;
  run_on_loop(io, [&] {
    if (service) ended = service->stop_and_keep_journal();
  });
  // The lead is given up before connections end, because an operator takes the end of its
  // connection for the end of the server.
  ended.reset();
  options.shared ? stand_by({}) : end_service({});
}

ServedShard::ServedShard(asio::io_context& io, ShardOwner& owner, ServedShardOptions options)
    : impl_(std::make_unique<Impl>(io, owner, std::move(options))) {}
ServedShard::~ServedShard() = default;

Result<void> ServedShard::start(std::unique_ptr<Journal> journal) {
  return impl_->start(std::move(journal));
}
void ServedShard::stop() { impl_->stop(); }

ServerLead ServedShard::lead() const {
  const base::LocalLock lock(impl_->mutex);
  return impl_->lead;
}
std::string ServedShard::journal_id() const {
  const base::LocalLock lock(impl_->mutex);
  return impl_->journal_id;
}
void ServedShard::step_down() { impl_->wish(impl_->steps_down); }
void ServedShard::try_to_lead() { impl_->wish(impl_->tries); }
void ServedShard::hand_over() { impl_->wish(impl_->steps_down); }

bool ServedShard::note_leader(const std::string& leader) {
  const base::LocalLock lock(impl_->mutex);
  if (impl_->lead.leads || impl_->lead.leader == leader) return false;
  impl_->lead.leader = leader;
  // The loop tells clients, unless a term has begun by then.
  asio::post(impl_->io, [impl = impl_.get(), leader] {
    if (!impl->serving) impl->owner.stand_by(impl->shard, leader);
  });
  return true;
}

}  // namespace holdfast::server
