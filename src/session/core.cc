#include "src/session/core.h"

#include <algorithm>

#include "src/base/exit_gate.h"
#include "src/base/thread.h"
#include "src/session/core_call.h"
#include "src/session/deadlock/deadlock_watch.h"
#include "src/session/reports/watch_sampler.h"

namespace holdfast::session {
namespace {

// The last handle's destructor waits this long for queued releases. Together with the time to end
// beside a silent store it takes a second.
constexpr auto kParting = std::chrono::milliseconds(900);

// Everything due within this time is done in one turn, so that renewals leave in batches.
constexpr Nanos kTick = std::chrono::milliseconds(2);
// A turn must not walk a schedule of thousands for the sake of company.
constexpr int kMostPassedOver = 64;

}  // namespace

Result<std::shared_ptr<Core>> Core::make(port::StoreFactory factory, port::StoreUrl url,
                                         CoreOptions options) {
  base::arm_exit_gate();
  std::shared_ptr<Core> core(new Core(std::move(options)), &Core::dispose);
  if (auto good = core->check_names(); !good) return good.error();
  port::StoreContext context{&core->loop_, core.get(), core->owner_.owner, &core->loop_.io(),
                             core->options_.name_space};
  context.schema = core->options_.schema;
  context.chain = core->options_.chain;
  context.servers = core->options_.servers;
  context.find = core->options_.find_store;
  const auto open_timeout = core->options_.client.open_timeout;
  if (open_timeout > open_timeout.zero()) context.open_by = base::BootClock::now() + open_timeout;
  auto store = factory(std::move(url), context);
  if (!store) return store.error();
  core->store_ = *std::move(store);
  if (!core->store_) return core;  // Only its tables were asked for.
  const Guarantees promised = core->store_->guarantees();
  if (promised.bound_to_client) core->longest_lease_ = promised.min_ttl;
  core->may_outlive_ = !promised.ends_with_client;
  return core;
}

void Core::dispose(Core* core) {
  if (core->forked()) {
    // The parent's threads, sockets and files are not ours to close: leave them all alone.
    if (core->store_) core->store_->abandon_after_fork();
    return;
  }
  // A thread of the library cannot wait for itself to end.
  if (base::on_library_thread()) {
    base::start_thread("holdfast-close", [core] { end(core); }).detach();
  } else {
    end(core);
  }
}

// The core's threads call virtual functions, so they have to end before its destructor begins.
void Core::end(Core* core) {
  static_cast<void>(core->close(kParting));
  core->notifier_.stop();
  delete core;
}

Core::~Core() {
  store_.reset();  // Its callbacks refer to the layers.
}

void Core::on_timer() {
  const BootInstant now = base::BootClock::now();
  armed_at_ = BootInstant::max();
  leave_push_reader();
  while (!schedule_.empty() && schedule_.first().at <= now) {
    const AcquisitionPtr acquisition = schedule_.first().what;
    unschedule(*acquisition);
    on_due(acquisition, now);
  }
  take_along(now);
  std::erase_if(samplers_, [](const auto& sampler) { return sampler.expired(); });
  for (const auto& weak : samplers_) {
    if (const auto sampler = weak.lock()) arm(sampler->on_tick(now));
  }
  if (deadlocks_ && !closed_) arm(deadlocks_->on_tick(now));
  give_up_renewal(now);
  wake_sleepers(now);
  if (!schedule_.empty()) arm(std::max(schedule_.first().at, now + kTick));
}

// Where a batch of renewals leaves, those that are nearly due go with it.
void Core::take_along(BootInstant now) {
  if (outbox_.empty()) return;
  std::vector<AcquisitionPtr> nearly_due;
  int others = 0;
  schedule_.walk([&](const Schedule::Entry& entry) {
    const AcquisitionPtr& acquisition = entry.what;
    if (acquisition->acquire || acquisition->releasing || !acquisition->renewal) {
      return ++others < kMostPassedOver;
    }
    if (!acquisition->renewal->likes_company(now)) return false;
    nearly_due.push_back(acquisition);
    return true;
  });
  for (const AcquisitionPtr& acquisition : nearly_due) {
    apply(acquisition, acquisition->renewal->on_doubt(now));
  }
}

void Core::on_due(const AcquisitionPtr& acquisition, BootInstant now) {
  if (acquisition->acquire) {
    execute(acquisition, acquisition->acquire->on_timer(now));
  } else if (acquisition->releasing) {
    send_release(acquisition);
  } else if (acquisition->renewal) {
    apply(acquisition, acquisition->renewal->on_tick(now));
  }
}

void Core::on_push(const port::Push& push) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  const auto found = waiting_.find(push.id);
  if (found != waiting_.end()) {
    const AcquisitionPtr acquisition = found->second;
    if (acquisition->acquire) execute(acquisition, acquisition->acquire->on_push(now, push));
    return;
  }
  if (push.kind == port::Push::Kind::kDelayed) return;  // Its wait has ended.
  // The hint is about a held lock, which may have been broken: renew it at once, since the answer
  // tells.
  for (const auto& [at, acquisition] : schedule_) {
    if (acquisition->id != push.id || !acquisition->renewal || acquisition->releasing) continue;
    const AcquisitionPtr held = acquisition;
    apply(held, held->renewal->on_doubt(now));
    break;
  }
}

void Core::on_pushes_missed() {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  // A copy, because execute() may take entries out of the table.
  std::vector<AcquisitionPtr> waiting;
  for (const auto& [id, acquisition] : waiting_) waiting.push_back(acquisition);
  for (const AcquisitionPtr& acquisition : waiting) {
    if (!acquisition->acquire) continue;
    const port::Push hint{port::Push::Kind::kHint, acquisition->id, {}};
    execute(acquisition, acquisition->acquire->on_push(now, hint));
  }
  look_at_what_is_held();
}

void Core::on_pushes_begin() {
  const Turn turn(*this);
  look_at_what_is_held();
}

void Core::on_alarm(const std::string& line) {
  reports_.log(reports_.event(LogSeverity::kWarning, "store", line));
}

void Core::on_watches_blind(const Error& why) {
  LogEvent event =
      reports_.event(LogSeverity::kWarning, "watch_blind",
                     "a watch" + at_store() + " sees nothing at present: " + why.message());
  event.error = why.code();
  reports_.log(std::move(event));
}

}  // namespace holdfast::session
