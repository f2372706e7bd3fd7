#include "src/server/service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/base/thread.h"
#include "src/port/boot_timer.h"
#include "src/server/compactor.h"
#include "src/server/journal/gathering.h"
#include "src/server/recovery.h"
#include "src/server/shard.h"

namespace holdfast::server {
namespace {

using std::chrono::milliseconds;

// How soon a commit that found no room is tried again.
constexpr milliseconds kRetry{100};
// How often the journal's thread looks whether its files are still in place.
constexpr milliseconds kLook{250};
// Percent of the disk in use below which the warning ends.
constexpr unsigned kEnoughRoom = 75;
// So often a shared journal is asked to confirm the lead while nothing is written.
constexpr milliseconds kBetweenConfirms{100};
// How long a batch that nobody waits for may wait for others' changes. A caller that takes the next
// lock pays for one commit then, not for two.
constexpr milliseconds kLazyCommit{2};
// The wall clock is slewed by 500 parts per million at most, so this takes it 100 s.
constexpr milliseconds kDrift{50};

std::uint64_t wall_micros() {
  const auto wall = base::wall_now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
}

machine::Limits limits() {
  machine::Limits made;
  made.hash_seed = base::random_128().low;
  return made;
}

}  // namespace

struct Service::Impl : std::enable_shared_from_this<Service::Impl> {
  Impl(asio::io_context& its_io, std::unique_ptr<Journal> its_journal,
       ServiceListener& its_listener, const ServiceOptions& its_options)
      : io(its_io), journal(std::move(its_journal)), listener(its_listener), options(its_options) {}

  // The fate of the last batch, on its way from the journal's thread to the loop.
  struct CommitResult {
    Commit commit{};
    std::string reason;
  };

  Result<void> recover();
  void begin();
  std::unique_ptr<Journal> stop();
  machine::Instant boot_now() const;
  std::chrono::nanoseconds wall_minus_boot() const {
    return options.wall_minus_boot ? options.wall_minus_boot() : base::wall_minus_boot();
  }
  template <typename F>
  void use(F&& call);
  void flush_soon();
  void flush(bool has_waited = false);
  void hand_over(Shard::Outbound batch) HOLDFAST_EXCLUDES(mutex);
  void want_proof(bool wanted) HOLDFAST_EXCLUDES(mutex);
  void arm_departure(base::BootInstant at);
  void arm();
  void on_tick();
  void keep_leading();
  void look_at_lead();
  void stop_timers();
  void look_at_wall_clock();
  void look_at_disk(const DiskSpace& seen);
  void become_full(const std::string& why);
  void warn_of_no_snapshots(const std::string& why);
  void warn(const std::string& what) {
    if (options.warn) options.warn(what);
  }
  void on_result();
  void take_result(const CommitResult& result);
  void fail(const std::string& reason, bool unknown);

  // --- The journal's thread.
  void work();
  Commit look();
  bool settle();
  Commit commit(Shard::Outbound batch, bool may_wait);
  Commit work_without_room();
  bool wait_for_room() HOLDFAST_EXCLUDES(mutex);
  bool prove_lead() HOLDFAST_EXCLUDES(mutex);
  void report(Commit done);

  asio::io_context& io;
  std::unique_ptr<Journal> journal;
  ServiceListener& listener;
  const ServiceOptions options;
  bool keeps = true;  // Commits take their time, on a thread of their own.
  std::optional<Compactor> compactor;
  std::optional<Shard> shard;
  std::optional<port::BootTimer> timer;
  std::optional<base::BootInstant> armed;
  std::optional<port::BootTimer> departure;  // It ends the wait of a batch that has time.
  std::optional<base::BootInstant> leaves_at;
  Gathering gathering;                           // A shared journal's.
  std::size_t under_way = 0;                     // The answers that wait for the batch under way.
  std::optional<port::BootTimer> lead_timer;     // A shared journal's.
  std::optional<base::BootInstant> handed_over;  // To the journal's thread: the batch under way.
  base::BootInstant next_confirm{};
  std::uint64_t commits = 0;
  std::chrono::nanoseconds commit_time{};
  std::string journal_id;
  std::string term;
  std::chrono::nanoseconds drift{};
  ServiceStart found;
  DiskSpace disk;
  bool full = false;
  bool nearly_full = false;
  machine::Instant settle_at{};
  bool settled = true;            // The journal's thread, once it runs.
  base::BootInstant next_look{};  // The journal's thread.
  bool told_broken = false;       // The journal's thread.
  bool flush_posted = false;
  bool stopped = false;
  std::thread thread;

  base::LocalMutex mutex;
  base::LocalCondition changed;
  std::optional<Shard::Outbound> outbound HOLDFAST_GUARDED_BY(mutex);
  std::optional<CommitResult> result HOLDFAST_GUARDED_BY(mutex);
  bool proof_wanted HOLDFAST_GUARDED_BY(mutex) = false;
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
};

machine::Instant Service::Impl::boot_now() const {
  const base::BootInstant now = options.now ? options.now() : base::BootClock::now();
  return machine::Instant(std::chrono::duration_cast<machine::Duration>(now.time_since_epoch()));
}

Result<void> Service::Impl::recover() {
  if (auto opened = journal->open(); !opened) return opened;
  keeps = journal->room() > 0;
  journal_id = journal->id();
  term = journal->term();
  // A copy that was put back knows nothing of the grants since. So it grants nothing until every
  // lease of that time has ended.
  const JournalAtOpen opening = journal->opening();
  found.began = opening.began;
  found.restored = opening.restored;
  if (!opening.restored.empty() && !options.clients_stopped) {
    static_assert(port::RestoredWait::kAtLeast >= kLongestLease);
    const machine::Duration whole = kLongestLease + opening.old_leader;
    found.quiet = whole - std::min<machine::Duration>(whole, opening.waited);
  }
  auto recovered = server::recover(*journal, limits(), wall_micros(), opening.old_leader);
  if (!recovered) return at_journal(journal->place(), recovered.error());
  const auto head = journal->head();
  if (!head) return head.error();
  compactor.emplace(*journal, Compactor::Settings{}, *head, recovered->last_batch);
  found.locks = recovered->locks;
  found.extended = recovered->extended.size();
  shard.emplace(*std::move(recovered), boot_now(), listener, options, found.quiet);
  if (journal->confirms_renewals()) shard->confirm_renewals();
  settle_at = boot_now() + found.quiet;
  settled = opening.restored.empty();
  drift = wall_minus_boot();

  // The floor of this term's tokens is committed before anything is granted.
  auto first = shard->take_batch();
  if (commit(*std::move(first), /*may_wait=*/false) != Commit::kCommitted) {
    return Error(Errc::kUnavailable, "cannot start: " + journal->reason());
  }
  if (!settle()) return Error(Errc::kUnavailable, "cannot start: " + journal->reason());
  disk = journal->space();
  return {};
}

void Service::Impl::begin() {
  shard->committed();  // The listener hears of it on the loop.
  timer.emplace(io);
  departure.emplace(io);
  if (journal->is_shared()) {
    lead_timer.emplace(io);
    keep_leading();
  }
  arm();
  if (keeps) thread = base::start_thread("hf-journal", [self = this] { self->work(); });
}

template <typename F>
void Service::Impl::use(F&& call) {
  look_at_wall_clock();
  look_at_lead();
  call(*shard, boot_now());
  flush_soon();
}

// All that is ready to be read now is applied first: one batch for all of it.
void Service::Impl::flush_soon() {
  if (stopped || std::exchange(flush_posted, true)) return;
  asio::post(io, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    self->flush_posted = false;
    self->flush();
  });
}

void Service::Impl::flush(bool has_waited) {
  if (shard->take_proof()) want_proof(true);
  const base::BootInstant now = base::BootClock::now();
  // A batch of nothing only proves the lead, and many answers can share one proof.
  const bool only_confirms = lead_timer && !shard->has_bytes() && !shard->hurries();
  if (only_confirms && now < next_confirm) return arm();
  if (keeps && !has_waited && shard->has_bytes() && shard->has_time()) {
    if (!leaves_at) arm_departure(now + kLazyCommit);
    if (now < *leaves_at) return arm();
  }
  const std::size_t answers = shard->waiting_answers();
  if (lead_timer && !has_waited && gathering.goes_on(now, answers)) {
    if (!leaves_at) arm_departure(gathering.until());
    return arm();
  }
  while (auto batch = shard->take_batch()) {
    handed_over = now;
    under_way = answers;
    next_confirm = now + kBetweenConfirms;
    if (keeps) {
      hand_over(*std::move(batch));
      break;
    }
    take_result({commit(*std::move(batch), /*may_wait=*/false), {}});
    if (stopped) return;
  }
  arm();
}

// One timer for all the batches of its time: to set it anew for each would cost a system call.
void Service::Impl::arm_departure(base::BootInstant at) {
  leaves_at = at;
  departure->arm_at(at, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    self->leaves_at.reset();
    self->flush(/*has_waited=*/true);
  });
}

void Service::Impl::hand_over(Shard::Outbound batch) {
  {
    const base::LocalLock lock(mutex);
    outbound = std::move(batch);
  }
  changed.notify_one();  // A thread that wakes up at once must not meet our lock.
}

void Service::Impl::want_proof(bool wanted) {
  const base::LocalLock lock(mutex);
  proof_wanted = wanted;
  if (wanted) changed.notify_one();
}

// It is the loop that keeps the lead, so a loop that stands still loses it (rule 52).
void Service::Impl::keep_leading() {
  if (stopped) return;
  journal->keep_leading();
  look_at_lead();
  if (handed_over && base::BootClock::now() - *handed_over >= Journal::kSilence) {
    shard->trust_deadline(boot_now());
  }
  flush();
  lead_timer->arm(Journal::kKeepLeading, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->keep_leading();
  });
}

void Service::Impl::look_at_lead() {
  if (!lead_timer || !journal) return;
  shard->lead_until(machine::Instant(
      std::chrono::duration_cast<machine::Duration>(journal->leads_until().time_since_epoch())));
}

void Service::Impl::arm() {
  const auto next = shard->next_tick();
  if (!next || options.now) return;  // A test's time passes with its requests only.
  const base::BootInstant at{
      std::chrono::duration_cast<base::BootClock::duration>(next->time_since_epoch())};
  // Most leases end by a release. A tick that comes too early costs less than a timer that is set
  // anew with each of them.
  if (armed && *armed <= at) return;
  armed = at;
  timer->arm_at(at, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_tick();
  });
}

void Service::Impl::on_tick() {
  armed.reset();
  if (stopped) return;
  look_at_wall_clock();
  shard->tick(boot_now());
  flush();
}

// It moves against boot time when somebody sets it, and also while a virtual machine was paused
// without boot time noticing (rule 34).
void Service::Impl::look_at_wall_clock() {
  const auto now = wall_minus_boot();
  if (now - drift < kDrift && drift - now < kDrift) return;
  drift = now;
  shard->doubt_time();
}

void Service::Impl::on_result() {
  std::optional<CommitResult> taken;
  {
    const base::LocalLock lock(mutex);
    taken = std::exchange(result, std::nullopt);
  }
  if (!taken || stopped) return;
  take_result(*taken);
  if (!stopped) flush();
}

void Service::Impl::become_full(const std::string& why) {
  full = true;
  shard->set_full(true);
  warn("the journal " + journal->place() + " cannot be written: " + why +
       ". New locks are refused, and renewals go on. Make room on its disk, or in its etcd");
}

void Service::Impl::warn_of_no_snapshots(const std::string& why) {
  warn("the journal cannot be read back, so it gets no snapshot any more: " + why +
       ". It grows until its room is used up, and then no lock is granted. A start reads the same "
       "records: look with 'holdfast server verify', and restore a backup");
}

void Service::Impl::look_at_disk(const DiskSpace& seen) {
  disk = seen;
  if (disk.size == 0) return;
  const unsigned percent = disk.percent();
  if (!nearly_full && percent >= DiskSpace::kNearlyFull) {
    nearly_full = true;
    warn(std::string(disk.what) + " " + journal->place() + " is " + std::to_string(percent) +
         " % full. When it is full, no lock is granted: make room");
  } else if (nearly_full && percent < kEnoughRoom) {
    nearly_full = false;
    warn("the journal " + journal->place() + " has room again");
  }
}

void Service::Impl::take_result(const CommitResult& taken) {
  if (handed_over && taken.commit == Commit::kCommitted) {
    ++commits;
    const base::BootInstant now = base::BootClock::now();
    commit_time += now - *handed_over;
    gathering.committed(*handed_over, now, under_way, shard->waiting_answers());
  }
  handed_over.reset();
  want_proof(false);
  shard->set_full(false);
  if (std::exchange(full, false)) {
    warn("the journal " + journal->place() + " is written again: locks are granted");
  }
  switch (taken.commit) {
    case Commit::kCommitted: return shard->committed();
    case Commit::kRefused: return fail(taken.reason, /*unknown=*/false);
    case Commit::kLater:
    case Commit::kUnknown: return fail(taken.reason, /*unknown=*/true);
  }
}

void Service::Impl::fail(const std::string& reason, bool unknown) {
  if (std::exchange(stopped, true)) return;
  stop_timers();
  const Error error(Errc::kUnavailable, "the server lost its journal: " + reason);
  shard->fail(error, unknown);
  listener.on_stopped(error);
}

void Service::Impl::stop_timers() {
  if (timer) timer->stop();
  if (departure) departure->stop();
  if (lead_timer) lead_timer->stop();
}

std::unique_ptr<Journal> Service::Impl::stop() {
  if (!shard || !journal) return nullptr;
  {
    const base::LocalLock lock(mutex);
    stopping = true;
    changed.notify_one();
  }
  // The journal's thread may wait for room or for the network. It ends before the loop takes its
  // work over.
  journal->interrupt();
  if (thread.joinable()) thread.join();
  std::optional<CommitResult> last;
  std::optional<Shard::Outbound> left;
  {
    const base::LocalLock lock(mutex);
    last = std::exchange(result, std::nullopt);
    left = std::exchange(outbound, std::nullopt);
  }
  // The thread may have left a result that nobody took, and a batch that it had not begun.
  if (last && !stopped) take_result(*last);
  while (!stopped) {
    if (!left) left = shard->take_batch();
    if (!left) break;
    const Commit done = commit(*std::move(left), /*may_wait=*/false);
    left.reset();
    take_result({done, journal->reason()});
  }
  // Only clients' leases count: a wait after a restore has promised nothing.
  while (!stopped && settled) {
    auto batch = shard->take_closing_batch(boot_now());
    // Without room for it the next start extends all leases, as after a crash.
    if (!batch || commit(*std::move(batch), /*may_wait=*/false) != Commit::kCommitted) break;
    shard->committed();
  }
  if (!std::exchange(stopped, true)) {
    stop_timers();
    shard->fail(Error(Errc::kUnavailable, "the server stops"), /*unknown=*/false);
  }
  compactor.reset();
  return std::move(journal);
}

void Service::Impl::work() {
  for (;;) {
    std::optional<Shard::Outbound> batch;
    {
      const base::LocalLock lock(mutex);
      // While the compactor works, its steps fill the time between two batches.
      if (!outbound && !stopping && !compactor->busy()) changed.wait_for(mutex, kLook);
      if (stopping) return;
      batch = std::exchange(outbound, std::nullopt);
    }
    if (const Commit seen = look(); seen != Commit::kCommitted) return report(seen);
    // Clients wait for a batch, and nobody waits for the compactor.
    if (batch) {
      report(commit(*std::move(batch), /*may_wait=*/true));
      continue;
    }
    switch (compactor->step()) {
      case Commit::kCommitted: break;
      case Commit::kLater: wait_for_room(); break;
      case Commit::kRefused: return report(Commit::kRefused);
      case Commit::kUnknown: return report(Commit::kUnknown);
    }
  }
}

// A commit looks, too. This is for a server that has nothing to commit, because its clients only
// renew (rule 50).
Commit Service::Impl::look() {
  const auto now = base::BootClock::now();
  if (now < next_look) return Commit::kCommitted;
  next_look = now + kLook;
  const Commit seen = journal->look();
  asio::post(io, [weak = weak_from_this(), space = journal->space()] {
    if (const auto self = weak.lock(); self && !self->stopped) self->look_at_disk(space);
  });
  compactor->give_back_memory(now);
  if (compactor->broken() && !std::exchange(told_broken, true)) {
    asio::post(io, [weak = weak_from_this(), why = compactor->broken()->message()] {
      if (const auto self = weak.lock(); self && !self->stopped) self->warn_of_no_snapshots(why);
    });
  }
  if (seen == Commit::kCommitted) static_cast<void>(settle());
  return seen == Commit::kLater ? Commit::kCommitted : seen;
}

// The wait after a restore has ended. False: that could not be recorded, so the next start waits.
bool Service::Impl::settle() {
  if (settled || boot_now() < settle_at) return true;
  settled = static_cast<bool>(journal->settle());
  return settled;
}

// Full is no failure (rule 54): the same batch is committed once there is room. Until it is known
// to be, a copy of it that was refused for want of room may still be under way, and be applied.
Commit Service::Impl::commit(Shard::Outbound batch, bool may_wait) {
  if (batch.bytes.empty()) return journal->confirm();
  if (keeps) batch.add_checksum();
  for (bool had_no_room = false;;) {
    Commit done = had_no_room ? work_without_room() : Commit::kCommitted;
    while (done == Commit::kCommitted && compactor->must_finish()) done = compactor->step();
    if (done == Commit::kCommitted) done = journal->commit(batch.number, batch.bytes);
    if (done == Commit::kCommitted) compactor->note_commit(batch.number, batch.bytes.size());
    if (done == Commit::kRefused && had_no_room) return Commit::kUnknown;
    if (done != Commit::kLater || !may_wait) return done;
    if (!std::exchange(had_no_room, true)) {
      asio::post(io, [weak = weak_from_this(), why = journal->reason()] {
        if (const auto self = weak.lock(); self && !self->stopped) self->become_full(why);
      });
    }
    if (!wait_for_room()) return done;
    if (!prove_lead()) return Commit::kUnknown;
  }
}

// The work between batches goes on while one waits, because trimming may make the room (rule 54).
// The batch is tried again after a while, whatever is left to do.
Commit Service::Impl::work_without_room() {
  const base::BootInstant until = base::BootClock::now() + kRetry;
  Commit done = look();
  while (done == Commit::kCommitted && compactor->busy() && base::BootClock::now() < until) {
    done = compactor->step();
  }
  return done == Commit::kLater ? Commit::kCommitted : done;
}

// False: the service stops. A batch that waits is looked at before the time is over.
bool Service::Impl::wait_for_room() {
  const base::LocalLock lock(mutex);
  if (!stopping && !outbound && !proof_wanted) changed.wait_for(mutex, kRetry);
  return !stopping;
}

// For reads that wait while the batch finds no room. False: another server may lead.
bool Service::Impl::prove_lead() {
  {
    const base::LocalLock lock(mutex);
    if (!std::exchange(proof_wanted, false)) return true;
  }
  const Commit proof = journal->confirm();
  asio::post(io, [weak = weak_from_this(), leads = proof == Commit::kCommitted] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    self->shard->proved(leads);
    self->flush();
  });
  return proof == Commit::kCommitted || proof == Commit::kLater;
}

void Service::Impl::report(Commit done) {
  {
    const base::LocalLock lock(mutex);
    result = CommitResult{done, journal->reason()};
  }
  asio::post(io, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_result();
  });
}

namespace {

// Gathers the answers of a list.
struct List {
  std::vector<Result<Answer>> answers;
  std::size_t left = 0;
  Done<std::vector<Result<Answer>>> done;
};

}  // namespace

Service::Service(asio::io_context& io, std::unique_ptr<Journal> journal, ServiceListener& listener,
                 ServiceOptions options)
    : impl_(std::make_shared<Impl>(io, std::move(journal), listener, options)) {}

Service::~Service() { impl_->stop(); }

Result<void> Service::start() {
  auto recovered = recover();
  if (recovered) begin();
  return recovered;
}
Result<void> Service::recover() { return impl_->recover(); }
void Service::begin() { impl_->begin(); }
std::unique_ptr<Journal> Service::stop_and_keep_journal() { return impl_->stop(); }
const std::string& Service::journal_id() const { return impl_->journal_id; }
const Service::ServiceStart& Service::found() const { return impl_->found; }
const std::string& Service::term() const { return impl_->term; }

void Service::submit(const Request& request, Done<Answer> done) {
  impl_->use(
      [&](Shard& shard, machine::Instant now) { shard.submit(now, request, std::move(done)); });
}

void Service::submit_list(const std::vector<Request>& requests,
                          Done<std::vector<Result<Answer>>> done) {
  if (requests.empty()) return done(std::vector<Result<Answer>>());
  const auto list = std::make_shared<List>();
  list->answers.assign(requests.size(), Result<Answer>(Answer{}));
  list->left = requests.size();
  list->done = std::move(done);
  impl_->use([&](Shard& shard, machine::Instant now) {
    for (std::size_t at = 0; at < requests.size(); ++at) {
      shard.submit(now, requests[at], [list, at](Result<Answer> answer) {
        list->answers[at] = std::move(answer);
        if (--list->left == 0) list->done(std::move(list->answers));
      });
    }
  });
}

void Service::submit_all(const std::vector<Request>& requests, Done<AllOrNone> done) {
  impl_->use([&](Shard& shard, machine::Instant now) {
    shard.submit_all(now, requests, std::move(done));
  });
}

std::size_t Service::inspect(const std::string& name, Done<LockSight> done) {
  std::size_t tickets = 0;
  impl_->use([&](Shard& shard, machine::Instant now) {
    tickets = shard.inspect(now, name, std::move(done));
  });
  return tickets;
}

std::size_t Service::list(const std::string& prefix, const std::string& after, std::size_t limit,
                          Done<std::vector<LockSight>> done) {
  std::size_t tickets = 0;
  impl_->use([&](Shard& shard, machine::Instant now) {
    tickets = shard.list(now, prefix, after, limit, std::move(done));
  });
  return tickets;
}

void Service::kept(const std::string& key, Done<std::optional<KeptText>> done) {
  impl_->use([&](Shard& shard, machine::Instant now) { shard.kept(now, key, std::move(done)); });
}

void Service::keep(const KeepText& wish, Done<std::optional<std::uint64_t>> done) {
  impl_->use([&](Shard& shard, machine::Instant now) { shard.keep(now, wish, std::move(done)); });
}

void Service::change_kept(const std::string& user, const Change& change,
                          Done<std::optional<std::uint64_t>> done) {
  impl_->use([&](Shard& shard, machine::Instant now) {
    shard.change_kept(now, user, change, std::move(done));
  });
}

void Service::State::add(const State& other, std::uint32_t number) {
  holders += other.holders;
  waiters += other.waiters;
  uncommitted += other.uncommitted;
  full = full || other.full;
  if (other.disk.size != 0) {
    disk = other.disk;
  } else {
    disk.journal += other.disk.journal;  // It is of another shard on the same disk.
  }
  commits += other.commits;
  commit_time += other.commit_time;
  quiet = std::max(quiet, other.quiet);
  if (other.quiet.count() > 0) quiet_shards.push_back(number);
  journal_answers = journal_answers && other.journal_answers;
}

Service::State Service::state() const {
  const Shard& shard = *impl_->shard;
  const Journal* const journal = impl_->journal.get();
  return {.holders = shard.holders(),
          .waiters = shard.waiters(),
          .uncommitted = shard.backlog(),
          .full = impl_->full,
          .disk = impl_->disk,
          .commits = impl_->commits,
          .commit_time = impl_->commit_time,
          .quiet = quiet(),
          .quiet_shards = {},
          .copies = journal != nullptr ? journal->copies() : 0,
          .journal_answers = journal == nullptr || journal->answers()};
}

machine::Duration Service::quiet() const {
  constexpr machine::Duration kNone{};
  if (impl_->found.quiet == kNone) return kNone;
  return std::max(impl_->settle_at - impl_->boot_now(), kNone);
}

void Service::forget_client(const ClientName& client) { impl_->shard->forget_client(client); }

}  // namespace holdfast::server
