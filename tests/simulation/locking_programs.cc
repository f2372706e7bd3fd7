// Actors use the primitives that are tickets, and those made of several.
#include "holdfast/job_lock.h"
#include "holdfast/multi_lock.h"
#include "holdfast/recursive_mutex.h"
#include "holdfast/semaphore.h"
#include "holdfast/shared_mutex.h"
#include "holdfast/striped_mutex.h"
#include "tests/simulation/actor.h"

namespace holdfast::simulation {

using detail::Async;

Program use_mutex(Actor& a) {
  const std::string name = a.percent(50) ? "mutex/0" : "mutex/1";
  const AcquireOptions options = a.options("mutex");
  auto acquiring = a.call(detail::start_acquire(a.core, name, Mode::exclusive(), options));
  Result<Lease> lease = co_await acquiring;
  if (!lease) {
    a.expect(lease.error(), "mutex");
    a.expect_gone(options.trace_id);
    co_return;
  }
  a.expect_prompt(options.trace_id);
  Program holding = a.hold(std::move(*lease), Mode::exclusive(), options.trace_id);
  co_await holding;
}

namespace {

// From reading to writing and back.
Program upgrade(Actor& a, SharedMutex mutex, Lease reader, std::string trace) {
  const std::uint64_t group = ++a.scene.serial;
  const BeliefPtr reading = a.referee().believe(a.process, reader, Mode::shared(), group);
  const std::uint64_t version = a.scene.versions["shared"];
  Program working = a.work();
  co_await working;
  const AcquireOptions options = a.options("up");
  auto upgrading = a.call(Async::upgrade(mutex, reader, options));
  Result<Lease> writer = co_await upgrading;
  if (!writer) a.expect(writer.error(), "upgrade", {Errc::kWouldDeadlock});
  if (writer) {
    a.expect_prompt(options.trace_id);
    a.referee().check(!writer->held() || a.scene.versions["shared"] == version,
                      options.trace_id + ": somebody wrote between reading and writing");
    const BeliefPtr writing = a.referee().believe(a.process, *writer, Mode::exclusive(), group);
    ++a.scene.versions["shared"];
    Program writing_work = a.work();
    co_await writing_work;
    a.referee().doubt(writing, writer->held());
    if (a.percent(60)) {
      auto downgrading = a.call(Async::downgrade(mutex, *writer));
      const Result<void> downgraded = co_await downgrading;
      if (!downgraded) a.expect(downgraded.error(), "downgrade of an upgrade");
    }
  }
  const bool held = reader.held();
  a.referee().doubt(reading, held);
  Program giving = a.give_back(std::move(reader), held, trace);
  co_await giving;
}

Program write(Actor& a, SharedMutex mutex, Lease writer, std::string trace) {
  const BeliefPtr writing = a.referee().believe(a.process, writer, Mode::exclusive());
  ++a.scene.versions["shared"];
  Program working = a.work();
  co_await working;
  a.referee().doubt(writing, writer.held());
  if (a.percent(50)) {
    auto downgrading = a.call(Async::downgrade(mutex, writer));
    const Result<void> downgraded = co_await downgrading;
    if (!downgraded) {
      a.expect(downgraded.error(), "downgrade");
    } else {
      const BeliefPtr reading = a.referee().believe(a.process, writer, Mode::shared());
      Program reading_work = a.work();
      co_await reading_work;
      a.referee().doubt(reading, writer.held());
    }
  }
  const bool held = writer.held();
  Program giving = a.give_back(std::move(writer), held, trace);
  co_await giving;
}

}  // namespace

Program use_shared(Actor& a) {
  SharedMutex mutex = a.client().shared_mutex("shared");
  const bool writes = a.percent(40);
  const AcquireOptions options = a.options("shared");
  auto acquiring =
      a.call(writes ? Async::acquire(mutex, options) : Async::acquire_shared(mutex, options));
  Result<Lease> lease = co_await acquiring;
  if (!lease) {
    a.expect(lease.error(), "shared mutex");
    a.expect_gone(options.trace_id);
    co_return;
  }
  a.expect_prompt(options.trace_id);
  if (writes) {
    Program writing = write(a, mutex, std::move(*lease), options.trace_id);
    co_await writing;
  } else if (a.percent(50)) {
    Program upgrading = upgrade(a, mutex, std::move(*lease), options.trace_id);
    co_await upgrading;
  } else {
    Program holding = a.hold(std::move(*lease), Mode::shared(), options.trace_id);
    co_await holding;
  }
}

Program use_semaphore(Actor& a) {
  const bool flexible = a.percent(50);
  Semaphore semaphore = flexible ? a.house->flexible : a.client().semaphore("semaphore", 3);
  if (flexible && a.percent(30)) {
    auto resizing = a.call(Async::resize(semaphore, a.percent(50) ? 3 : 5));
    const Result<bool> resized = co_await resizing;
    // kLost: nobody uses it, kInvalidArgument: it is that large, or somebody resizes it.
    if (!resized) a.expect(resized.error(), "resize", {Errc::kLost, Errc::kInvalidArgument});
  }
  const auto permits = static_cast<std::uint32_t>(1 + a.dice().below(3));
  const AcquireOptions options = a.options("permits");
  const Mode mode = Mode::permits(permits, semaphore.capacity());
  auto acquiring = a.call(Async::acquire(semaphore, permits, options));
  Result<Lease> lease = co_await acquiring;
  if (!lease) {
    // Another process may have resized it.
    if (flexible) {
      a.expect(lease.error(), "flexible semaphore", {Errc::kInvalidArgument});
    } else {
      a.expect(lease.error(), "semaphore");
    }
    a.expect_gone(options.trace_id);
    co_return;
  }
  a.expect_prompt(options.trace_id);
  Program holding = a.hold(std::move(*lease), mode, options.trace_id);
  co_await holding;
}

Program use_recursive(Actor& a) {
  const std::size_t which = a.percent(50) ? 0 : 1;
  const AcquireOptions options = a.options("recursive");
  auto acquiring = a.call(Async::acquire(a.house->recursive, a.house->owners[which], options));
  Result<RecursiveLease> lease = co_await acquiring;
  if (!lease) {
    // kLost: another call of this owner holds it, and has lost it.
    a.expect(lease.error(), "recursive mutex", {Errc::kWouldDeadlock});
    a.expect_gone(options.trace_id);
    co_return;
  }
  House::Holds& holds = a.house->holds[which];
  if (holds.depth++ == 0) {
    holds.token = lease->token();
    Belief belief{.name = "recursive", .mode = Mode::exclusive(), .token = holds.token};
    belief.process = &a.process;
    if (!lease->held()) belief.to = a.now();
    holds.belief = a.referee().believe(std::move(belief));
  }
  a.referee().check(lease->token() == holds.token,
                    options.trace_id + ": another token when its owner came in again");
  Program working = a.work();
  co_await working;
  a.referee().check(lease->held() || !a.calm(),
                    options.trace_id + ": it is not held though nothing went wrong");
  // When it ended, had it ended, is not known.
  if (!lease->held()) holds.belief->to = holds.belief->from;
  if (--holds.depth == 0) a.referee().doubt(holds.belief, lease->held());
  if (a.percent(30)) co_return;
  auto releasing = a.call(Async::release(*lease));
  const Result<void> released = co_await releasing;
  if (!released) a.expect(released.error(), "release of a recursive lease");
}

namespace {

Program hold_all(Actor& a, LeaseSet set, std::map<std::string, Mode> modes, std::string trace) {
  std::vector<BeliefPtr> beliefs;
  for (const std::string& name : set.names()) {
    beliefs.push_back(a.referee().believe(a.process, *set.lease(name), modes.at(name)));
    if (modes.at(name) == Mode::exclusive()) ++a.scene.versions[name];
  }
  Program working = a.work();
  co_await working;
  const std::vector<std::string> names = set.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    a.referee().doubt(beliefs[i], set.lease(names[i])->held());
  }
  if (a.percent(70)) {
    auto releasing = a.call(Async::release(set));
    const Result<void> released = co_await releasing;
    if (!released) a.expect(released.error(), "release of several");
  }
  a.expect_gone(trace);
}

}  // namespace

Program use_striped(Actor& a) {
  StripedMutex stripes = a.client().striped_mutex("stripes", 3);
  const std::string key = std::to_string(a.dice().below(5));
  const AcquireOptions options = a.options("stripe");
  if (a.percent(30)) {
    auto acquiring = a.call(Async::acquire_all(stripes, options));
    Result<LeaseSet> all = co_await acquiring;
    if (!all) {
      a.expect(all.error(), "all stripes");
      a.expect_gone(options.trace_id);
      co_return;
    }
    a.referee().check(all->size() == 3, "all stripes are three");
    std::map<std::string, Mode> modes;
    for (const std::string& name : all->names()) modes.emplace(name, Mode::exclusive());
    Program holding = hold_all(a, std::move(*all), modes, options.trace_id);
    co_await holding;
    co_return;
  }
  auto acquiring = a.call(a.percent(50) ? Async::acquire(stripes, key, options)
                                        : Async::acquire_any(stripes, key, options));
  Result<Lease> lease = co_await acquiring;
  if (!lease) {
    a.expect(lease.error(), "stripe");
    a.expect_gone(options.trace_id);
    co_return;
  }
  Program holding = a.hold(std::move(*lease), Mode::exclusive(), options.trace_id);
  co_await holding;
}

Program use_several(Actor& a) {
  std::map<std::string, Mode> modes;
  if (a.percent(70)) modes.emplace("mutex/0", Mode::exclusive());
  if (a.percent(70)) modes.emplace("mutex/1", Mode::exclusive());
  if (a.percent(50)) modes.emplace("shared", a.percent(50) ? Mode::shared() : Mode::exclusive());
  if (a.percent(50) || modes.empty()) modes.emplace("semaphore", Mode::permits(2, 3));
  std::vector<LockRequest> locks;
  for (const auto& [name, mode] : modes) locks.insert(locks.begin(), {name, mode});
  const AcquireOptions options = a.options("several");
  std::optional<LeaseSet> set;
  if (a.percent(70)) {
    auto acquiring = a.call(Async::acquire_all(a.client(), locks, options));
    Result<LeaseSet> got = co_await acquiring;
    if (!got) a.expect(got.error(), "several locks");
    if (got) set = std::move(*got);
  } else {
    auto acquiring = a.call(Async::try_acquire_all(a.client(), locks, options));
    Result<std::optional<LeaseSet>> got = co_await acquiring;
    if (!got) a.expect(got.error(), "several locks, tried");
    if (got) set = std::move(*got);
  }
  if (!set) {
    a.expect_gone(options.trace_id);
    co_return;
  }
  a.referee().check(set->size() == modes.size(), "several locks, or none");
  Program holding = hold_all(a, std::move(*set), modes, options.trace_id);
  co_await holding;
}

// Two locks, one after the other, in one order or the other: somebody is told in time.
Program use_owners(Actor& a) {
  AcquireOptions options = a.options("owner");
  options.wait.reset();
  options.owner = Owner(a.process.name() + "/" + std::to_string(++a.scene.serial));
  const bool forward = a.percent(50);
  auto first = a.call(
      detail::start_acquire(a.core, forward ? "circle/0" : "circle/1", Mode::exclusive(), options));
  Result<Lease> outer = co_await first;
  if (!outer) {
    a.expect(outer.error(), "first of two", {Errc::kWouldDeadlock});
    co_return;
  }
  const BeliefPtr belief = a.referee().believe(a.process, *outer, Mode::exclusive());
  ++a.scene.versions[outer->name()];
  co_await a.sleep(a.world().upto(100ms));
  AcquireOptions again = options;
  again.trace_id += "b";
  auto second = a.call(
      detail::start_acquire(a.core, forward ? "circle/1" : "circle/0", Mode::exclusive(), again));
  Result<Lease> inner = co_await second;
  if (!inner) a.expect(inner.error(), "second of two", {Errc::kWouldDeadlock});
  if (inner) {
    Program holding = a.hold(std::move(*inner), Mode::exclusive(), again.trace_id);
    co_await holding;
  }
  const bool held = outer->held();
  a.referee().doubt(belief, held);
  Program giving = a.give_back(std::move(*outer), held, options.trace_id);
  co_await giving;
}

Program use_job(Actor& a) {
  constexpr auto kAtLeast = 1s;
  JobLock lock = a.client().job_lock("job", {.at_least_for = kAtLeast});
  AcquireOptions options = a.options("job");
  std::optional<JobLease> taken;
  for (int tries = 0; tries < 4 && !taken; ++tries) {
    if (tries > 0) co_await a.sleep(a.world().upto(400ms));
    auto trying = a.call(Async::try_acquire(lock, options));
    Result<std::optional<JobLease>> job = co_await trying;
    if (!job) a.expect(job.error(), "job");
    if (!job) co_return;
    taken = std::move(*job);
  }
  if (!taken) co_return;
  JobLease lease = std::move(*taken);
  const auto granted = a.referee().granted_at(options.trace_id);
  a.referee().check(granted.has_value(), options.trace_id + " runs without a grant");
  if (granted && a.scene.job_began) {
    a.referee().check(*granted - *a.scene.job_began >= kAtLeast - 1ms,
                      options.trace_id + " ran " +
                          std::to_string((*granted - *a.scene.job_began) / 1ms) +
                          " ms after another one had begun");
  }
  a.scene.job_began = granted;
  const BeliefPtr belief = a.referee().believe(a.process, lease.lease(), Mode::exclusive());
  Program working = a.work();
  co_await working;
  a.referee().doubt(belief, lease.held());
  if (a.percent(30)) co_return;
  auto releasing = a.call(Async::release(lease));
  const Result<void> released = co_await releasing;
  if (!released) a.expect(released.error(), "release of a job");
}

}  // namespace holdfast::simulation
