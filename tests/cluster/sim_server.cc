#include "tests/cluster/sim_server.h"

#include <utility>

#include "src/stores/etcd/journal/journal.h"

namespace holdfast::testing::cluster {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using server::Commit;

// The times of service.cc.
constexpr Nanos kRetry = 100ms;
constexpr Nanos kLook = 250ms;
constexpr Nanos kBetweenConfirms = 100ms;
constexpr Nanos kTick = 50ms;

// Small, so that a run has many parts and snapshots.
constexpr std::size_t kLargestPart = 220;
constexpr server::Compactor::Settings kSnapshots{.bytes = 1'200, .chunk = 300};
constexpr server::Compactor::Settings kManySnapshots{.bytes = 200, .chunk = 300};

stores::etcd::JournalSettings settings_with(
    std::shared_ptr<stores::etcd::SeenRevisions> revisions) {
  stores::etcd::JournalSettings made;
  made.leadership = 2s;
  made.compacts = true;
  made.largest_part = kLargestPart;
  made.between_attempts = {};
  made.seen = std::move(revisions);
  return made;
}

}  // namespace

SimServer::SimServer(simulation::World& world, std::uint64_t number, Crowd& crowd,
                     std::string address)
    : world_(world),
      process_(world, number),
      address_(address.empty() ? process_.name() : std::move(address)),
      crowd_(crowd),
      fiber_([this] { run(); }) {
  process_.post(Process::kRenewal, [this] { fiber_.resume(); });
  process_.post(Process::kLoop, [this] { tick(); });
}

machine::Instant SimServer::boot_now() const {
  return machine::Instant(
      std::chrono::duration_cast<machine::Duration>(BootClock::now().time_since_epoch()));
}

// --- The loop. Unlike that of service.cc it goes on while the server stops, so that the shard has
// to refuse whatever comes then.

void SimServer::receive(std::uint64_t which, const Crowd::Message& message) {
  process_.post(Process::kLoop, [this, which, message] {
    if (!shard_) return;
    look_at_lead();
    crowd_.submit(*shard_, boot_now(), which, message);
    if (stopping_ || std::exchange(flush_posted_, true)) return;
    process_.post(Process::kLoop, [this] {
      flush_posted_ = false;
      if (shard_ && !stopping_ && !failed_) flush();
    });
  });
}

void SimServer::look_at_lead() {
  shard_->lead_until(machine::Instant(
      std::chrono::duration_cast<machine::Duration>(journal_->leads_until().time_since_epoch())));
}

void SimServer::tick() {
  // After it stood still, the loop reads what has come before it looks at its timer.
  const auto look = [this] { process_.post(Process::kLoop, [this] { tick(); }); };
  world_.after(kTick, [this, look] { process_.post(Process::kLoop, look); });
  if (!shard_ || failed_) return;
  journal_->keep_leading();
  look_at_lead();
  if (handed_over_ && BootClock::now() - *handed_over_ >= port::Journal::kSilence) {
    shard_->trust_deadline(boot_now());
  }
  if (stopping_) return;
  shard_->tick(boot_now());
  flush();
}

void SimServer::flush() {
  const auto now = BootClock::now();
  if (!shard_->has_bytes() && now < next_confirm_) return;
  auto batch = shard_->take_batch();
  if (!batch) return;
  handed_over_ = now;
  next_confirm_ = now + kBetweenConfirms;
  outbound_ = std::move(batch);
  wake();
}

void SimServer::take_result(Commit done) {
  handed_over_.reset();
  shard_->set_full(false);
  if (done == Commit::kCommitted) return shard_->committed();
  failed_ = true;
  shard_->fail(Error(Errc::kUnavailable, "the journal is lost"), done != Commit::kRefused);
}

void SimServer::stop() {
  process_.post(Process::kLoop, [this] {
    stopping_ = true;
    if (journal_) journal_->interrupt();
    wake();
  });
}

// --- The journal's thread.

void SimServer::wake() {
  process_.post(Process::kRenewal, [this] { fiber_.resume(); });
}

template <typename F>
void SimServer::wait(Nanos most, F&& over_already) {
  const auto until = BootClock::now() + most;
  world_.at(process_.to_true(until), [this] { wake(); });
  while (!over() && !over_already() && BootClock::now() < until) fiber_.block();
}

void SimServer::run() {
  for (; !over(); ++terms_) {
    serve_a_term();
    // Its connections are closed, but others may come before it has gone.
    if (failed_) wait(world_.upto(200ms), [] { return false; });
    crowd_.forget(shard_.get());
    shard_.reset();
    compactor_.reset();
    outbound_.reset();
    handed_over_.reset();
    journal_.reset();
    failed_ = false;
    const bool stopped = std::exchange(stopping_, false);
    wait(stopped ? world_.upto(3s) : 20ms, [] { return false; });
  }
}

bool SimServer::lead() {
  auto made = stores::etcd::EtcdJournal::make(settings_with(seen_), base::BootInstant::max());
  if (!made) return false;
  journal_ = *std::move(made);
  while (!over() && !stopping_) {
    const auto leads = journal_->lead(address_, BootClock::now());
    // Where the permission is missing, the operator starts it anew when it is given.
    const bool denied = !leads && leads.error().code() == Errc::kPermissionDenied;
    if (!leads && !denied && leads.error().code() != Errc::kUnavailable) {
      crowd_.fail("a server cannot lead: " + leads.error().message());
    }
    if (leads && *leads) return true;
    wait(world_.upto(300ms), [this] { return stopping_; });
  }
  return false;
}

void SimServer::serve_a_term() {
  if (!lead() || !start()) return;
  work();
  if (stopping_ && !over()) close();
}

// Service::start().
bool SimServer::start() {
  const auto broken = [this](const Error& error) {
    const bool unavailable =
        error.code() == Errc::kUnavailable || error.code() == Errc::kPermissionDenied;
    if (!unavailable && !over()) crowd_.fail("the journal cannot be used: " + error.message());
    return false;
  };
  if (auto opened = journal_->open(); !opened) return broken(opened.error());
  auto recovered = server::recover(*journal_, {}, 1'000, journal_->opening().old_leader);
  if (!recovered) return broken(recovered.error());
  const Nanos recovered_at = world_.now;
  const auto head = journal_->head();
  const auto& snapshots = world_.dice.one_in(2) ? kManySnapshots : kSnapshots;
  compactor_.emplace(*journal_, snapshots, *head, recovered->last_batch);
  auto shard = std::make_unique<server::Shard>(*std::move(recovered), boot_now(),
                                               static_cast<server::ServiceListener&>(*this),
                                               server::ServiceOptions{});
  shard->confirm_renewals();
  const auto first = shard->take_batch();
  if (commit(*first, /*may_wait=*/false) != Commit::kCommitted || over()) return false;
  crowd_.check_start(*shard, journal_->term(), recovered_at);
  shard->committed();
  shard_ = std::move(shard);
  next_look_ = {};
  return true;
}

Commit SimServer::commit(server::Shard::Outbound batch, bool may_wait) {
  if (batch.bytes.empty()) return journal_->confirm();
  batch.add_checksum();
  for (bool waited = false;; waited = true) {
    Commit done = Commit::kCommitted;
    while (done == Commit::kCommitted && compactor_->must_finish()) done = compactor_->step();
    if (done == Commit::kCommitted) done = journal_->commit(batch.number, batch.bytes);
    if (done == Commit::kCommitted) compactor_->note_commit(batch.number, batch.bytes.size());
    if (done == Commit::kRefused && waited) return Commit::kUnknown;
    if (done != Commit::kLater || !may_wait) return done;
    process_.post(Process::kLoop, [this, term = terms_] {
      if (shard_ && term == terms_) shard_->set_full(true);
    });
    wait(kRetry, [this] { return stopping_; });
    if (stopping_ || over()) return done;
  }
}

// The loop hears of it later, and answers from memory until then.
void SimServer::report(Commit done) {
  reported_ = true;
  process_.post(Process::kLoop, [this, done, term = terms_] {
    // The journal's thread may have taken it already, and be done with the shard.
    if (!reported_ || stopping_ || term != terms_) return;
    take_result(done);
    reported_ = false;
    if (!failed_) flush();
    wake();
  });
  wait(1h, [this] { return !reported_ || stopping_; });
  if (std::exchange(reported_, false) && !over()) take_result(done);
}

// Service::Impl::work().
void SimServer::work() {
  while (!over() && !stopping_ && !failed_) {
    if (!compactor_->busy()) wait(kLook, [this] { return outbound_ || stopping_; });
    if (over() || stopping_) return;
    const auto batch = std::exchange(outbound_, std::nullopt);
    if (BootClock::now() >= next_look_) {
      next_look_ = BootClock::now() + kLook;
      const Commit looked = journal_->look();
      if (looked != Commit::kCommitted && looked != Commit::kLater) return report(looked);
    }
    if (batch) {
      report(commit(*batch, /*may_wait=*/true));
      continue;
    }
    const Commit done = compactor_->step();
    if (done == Commit::kLater) wait(kRetry, [this] { return outbound_ || stopping_; });
    if (done == Commit::kRefused || done == Commit::kUnknown) return report(done);
  }
}

// Service::Impl::stop().
void SimServer::close() {
  std::optional<server::Shard::Outbound> left = std::exchange(outbound_, std::nullopt);
  while (!failed_ && !over()) {
    if (!left) left = shard_->take_batch();
    if (!left) break;
    handed_over_ = BootClock::now();
    take_result(commit(*std::exchange(left, std::nullopt), /*may_wait=*/false));
  }
  while (!failed_ && !over()) {
    const auto batch = shard_->take_closing_batch(boot_now());
    handed_over_ = BootClock::now();
    if (!batch || commit(*batch, /*may_wait=*/false) != Commit::kCommitted) break;
    shard_->committed();
  }
  if (!failed_) shard_->fail(Error(Errc::kUnavailable, "the server stops"), /*unknown=*/false);
}

void SimServer::finish() {
  process_.run([this] {
    while (!fiber_.done()) fiber_.resume();
  });
}

}  // namespace holdfast::testing::cluster
