#include "src/stores/hybrid/filter.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/random.h"
#include "src/base/thread.h"

namespace holdfast::stores::hybrid {
namespace {

using base::BootClock;
using port::AcquisitionState;
using port::AcquisitionStatus;
using std::chrono::milliseconds;

constexpr milliseconds kOut{1000};
constexpr milliseconds kOpen{2000};
constexpr milliseconds kClose{100};
// No lock's name ends so: '..' is no segment of one.
constexpr const char* kSuffix = "/../filter";

}  // namespace

struct Filter::Ticket {
  enum class State : std::uint8_t { kAsking, kWaiting, kPassed, kOver };
  std::string name;
  bool may_wait = true;
  port::OwnerPtr owner;
  Hear hear;
  port::AcquisitionId id{};
  std::uint64_t issue = 0;
  std::uint64_t seq = 0;
  State state = State::kAsking;
  bool asked = false;      // A request is under way.
  bool fresh_try = false;  // The id was new, and the filter refused it.
};

Filter::Filter(port::StoreFactory factory, port::StoreUrl url, const port::StoreContext& context,
               const Settings& settings)
    : factory_(factory),
      url_(std::move(url)),
      settings_(settings),
      context_(context),
      listener_(context.listener),
      shown_(url_.redacted()),
      beat_timer_(*context.io, [this] { on_beat(); }) {
  context_.listener = this;
  context_.schema = nullptr;
}

Filter::~Filter() {
  if (thread_.joinable()) close();
}

Result<void> Filter::open() {
  thread_ = base::start_thread("holdfast-filter", [this] { work(); });
  context_.open_by = std::min(context_.open_by, BootClock::now() + kOpen);
  auto store = factory_(url_, context_);
  if (store) {
    adopt(*std::move(store));
    return {};
  }
  const Errc code = store.error().code();
  if (code == Errc::kInvalidArgument || code == Errc::kUnsupported) return store.error();
  context_.loop->post([weak = weak_from_this(), why = store.error().message()] {
    if (const auto self = weak.lock()) self->on_failed(why);
  });
  return {};
}

void Filter::adopt(std::unique_ptr<port::Store> store) {
  ttl_ = std::max<port::Duration>(settings_.lease, store->guarantees().min_ttl);
  store_ = std::move(store);
}

Filter::TicketPtr Filter::enter(const std::string& name, bool may_wait, port::OwnerPtr owner,
                                Hear hear) {
  if (stopped_ || BootClock::now() < out_until_) return nullptr;
  if (!store_) {
    open_later();
    return nullptr;
  }
  auto ticket = std::make_shared<Ticket>();
  ticket->name = name + kSuffix;
  ticket->may_wait = may_wait;
  ticket->owner = std::move(owner);
  ticket->hear = std::move(hear);
  begin_anew(ticket);
  beat_timer_.arm(BootClock::now() + detail::RenewalSchedule(settings_.lease).beat_every());
  return ticket;
}

void Filter::begin_anew(const TicketPtr& ticket) {
  tickets_.erase(ticket->id);
  const base::Random128 random = base::random_128();
  ticket->id = {random.high, random.low};
  ticket->issue = ++last_issue_;
  ticket->seq = 0;
  ticket->state = Ticket::State::kAsking;
  ticket->asked = false;
  tickets_[ticket->id] = ticket;
  send(ticket);
}

void Filter::ask(const TicketPtr& ticket) {
  if (ticket->state == Ticket::State::kWaiting) send(ticket);
}

void Filter::send(const TicketPtr& ticket) {
  if (ticket->asked || stopped_) return;
  ticket->asked = true;
  port::AcquireRequest request;
  request.name = ticket->name;
  request.id = ticket->id;
  request.issue = ticket->issue;
  request.mode = machine::Mode::exclusive();
  request.may_wait = ticket->may_wait;
  request.ttl = request.waiter_ttl = ttl_;
  request.owner = ticket->owner;
  request.deadline = BootClock::now() + settings_.timeout;
  store_->acquire(std::move(request), [weak = weak_from_this(), ticket,
                                       id = ticket->id](const Result<AcquisitionState>& answer) {
    if (const auto self = weak.lock()) self->on_answer(ticket, id, answer);
  });
}

void Filter::on_answer(const TicketPtr& ticket, port::AcquisitionId id,
                       const Result<AcquisitionState>& answer) {
  if (stopped_ || ticket->state == Ticket::State::kOver || ticket->id != id) return;
  ticket->asked = false;
  if (!answer) {
    end(ticket, News::kNone);
    return on_failed(answer.error().message());
  }
  if (std::exchange(out_, false)) alarm("the filter " + shown_ + " answers again");
  switch (answer->status) {
    case AcquisitionStatus::kHeld: return pass(ticket);
    case AcquisitionStatus::kWaiting:
      ticket->fresh_try = false;
      if (ticket->state == Ticket::State::kPassed) return;
      ticket->state = Ticket::State::kWaiting;
      return tell(ticket, News::kWaiting);
    case AcquisitionStatus::kBusy: return end(ticket, News::kBusy);
    case AcquisitionStatus::kGone:
      // It forgot us. Twice in a row: it does not work.
      if (std::exchange(ticket->fresh_try, true)) return end(ticket, News::kNone);
      return begin_anew(ticket);
  }
}

void Filter::pass(const TicketPtr& ticket) {
  ticket->fresh_try = false;
  if (ticket->state == Ticket::State::kPassed) return;
  ticket->state = Ticket::State::kPassed;
  tell(ticket, News::kPassed);
}

// A copy, because the ticket may be left in the call.
void Filter::tell(const TicketPtr& ticket, News news) {
  const Hear hear = ticket->hear;
  if (hear) hear(news);
}

void Filter::end(const TicketPtr& ticket, News news) {
  const Hear hear = ticket->hear;
  leave(ticket);
  if (hear) hear(news);
}

void Filter::leave(const TicketPtr& ticket) {
  if (!ticket || ticket->state == Ticket::State::kOver) return;
  const bool passed = ticket->state == Ticket::State::kPassed;
  ticket->state = Ticket::State::kOver;
  ticket->hear = nullptr;
  tickets_.erase(ticket->id);
  if (stopped_ || !store_) return;
  // Until then the filter would take it for one that waits.
  const port::AcquisitionRequest request{ticket->name, ticket->id,
                                         BootClock::now() + settings_.lease, ticket->issue,
                                         /*others_wait=*/false};
  // Its outcome is of no interest.
  const auto ignore = [](const Result<port::EndStatus>&) {};
  if (passed) {
    store_->release(request, ignore);
  } else {
    store_->cancel(request, ignore);
  }
}

void Filter::on_failed(const std::string& why) {
  out_until_ = BootClock::now() + jitter_.around(kOut);
  if (std::exchange(out_, true)) return;
  alarm("the filter " + shown_ + " does not work, so contenders ask the arbiter: " + why);
}

// --- What the filter says without being asked.

void Filter::on_push(const port::Push& push) {
  const auto found = tickets_.find(push.id);
  if (stopped_ || found == tickets_.end()) return;
  const TicketPtr ticket = found->second;
  if (push.kind == port::Push::Kind::kGranted) return pass(ticket);
  if (push.kind == port::Push::Kind::kHint) ask(ticket);
}

void Filter::on_pushes_missed() {
  const auto tickets = tickets_;
  for (const auto& [id, ticket] : tickets) ask(ticket);
}

// --- Heartbeats.

void Filter::on_beat() {
  if (stopped_ || tickets_.empty()) return;
  beat_timer_.arm(BootClock::now() + detail::RenewalSchedule(settings_.lease).beat_every());
  if (beating_ || !store_) return;
  std::vector<TicketPtr> asked;
  std::vector<port::RenewItem> items;
  for (const auto& [id, ticket] : tickets_) {
    if (ticket->state == Ticket::State::kAsking) continue;
    asked.push_back(ticket);
    items.push_back({ticket->name, ticket->id, ++ticket->seq, ttl_, ttl_, {}});
  }
  if (items.empty()) return;
  beating_ = true;
  const auto deadline = BootClock::now() + detail::RenewalSchedule(settings_.lease).beat_every();
  run([store = store_.get(), items = std::move(items), deadline, weak = weak_from_this(),
       asked = std::move(asked)] {
    store->renew(items, deadline,
                 [weak, asked](const Result<std::vector<Result<AcquisitionState>>>& answers) {
                   if (const auto self = weak.lock()) self->on_beaten(asked, answers);
                 });
  });
}

void Filter::on_beaten(const std::vector<TicketPtr>& asked,
                       const Result<std::vector<Result<AcquisitionState>>>& answers) {
  beating_ = false;
  if (stopped_) return;
  bool any = false;
  for (std::size_t at = 0; answers && at < asked.size() && at < answers->size(); ++at) {
    const TicketPtr& ticket = asked[at];
    const auto& answer = (*answers)[at];
    any = any || answer.has_value();
    const bool waits = ticket->state == Ticket::State::kWaiting;
    if (!answer || ticket->asked || (!waits && ticket->state != Ticket::State::kPassed)) continue;
    if (answer->status == AcquisitionStatus::kHeld && waits) pass(ticket);
    if (answer->status != AcquisitionStatus::kGone) continue;
    if (waits) {
      begin_anew(ticket);
    } else {
      leave(ticket);  // Somebody else may pass, and will wait at the arbiter.
    }
  }
  if (any) return;
  on_failed(answers ? "no renewal succeeded" : answers.error().message());
  const auto tickets = tickets_;
  for (const auto& [id, ticket] : tickets) {
    if (ticket->state == Ticket::State::kWaiting) end(ticket, News::kNone);
  }
}

// --- The thread.

void Filter::open_later() {
  if (std::exchange(opening_, true)) return;
  run([this, weak = weak_from_this()] {
    port::StoreContext context = context_;
    context.open_by = BootClock::now() + settings_.timeout;
    auto made = std::make_shared<Result<std::unique_ptr<port::Store>>>(factory_(url_, context));
    context.loop->post([weak, made] {
      const auto self = weak.lock();
      if (!self) return;
      self->opening_ = false;
      if (!*made) return self->on_failed(made->error().message());
      self->adopt(*std::move(*made));
    });
  });
}

void Filter::run(port::Task job) {
  const base::LocalLock lock(mutex_);
  job_ = std::move(job);
  wanted_.notify_one();
}

void Filter::work() {
  while (true) {
    port::Task job;
    {
      const base::LocalLock lock(mutex_);
      while (!job_ && !end_) wanted_.wait(mutex_);
      if (end_) return;
      job = std::exchange(job_, nullptr);
    }
    job();
  }
}

void Filter::alarm(const std::string& line) { listener_->on_alarm(line); }

void Filter::probe(base::BootInstant deadline, port::Done<std::vector<Finding>> done) {
  if (!store_) {
    open_later();
    return done(Error(Errc::kUnavailable, "the filter " + shown_ + " cannot be reached"));
  }
  store_->probe(deadline, std::move(done));
}

// --- The end.

void Filter::stop() {
  const auto tickets = tickets_;
  for (const auto& [id, ticket] : tickets) leave(ticket);
  stopped_ = true;
  beat_timer_.stop();
}

void Filter::close() {
  if (store_) store_->give_up_renewal();
  {
    const base::LocalLock lock(mutex_);
    end_ = true;
    wanted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (store_) store_->close(BootClock::now() + kClose);
}

void Filter::abandon_after_fork() noexcept {
  if (store_) store_->abandon_after_fork();
}

}  // namespace holdfast::stores::hybrid
