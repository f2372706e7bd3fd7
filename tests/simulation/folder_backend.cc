// The client's side of the simulated consensus store.
#include <algorithm>
#include <utility>

#include "src/contend/loop_timer.h"
#include "tests/simulation/folder_server.h"

namespace holdfast::simulation {
namespace {

using base::BootClock;
using base::BootInstant;
using contend::Change;
using contend::Details;
using contend::Entered;
using contend::Key;
using contend::Listing;
using contend::QueueEntry;
using contend::Read;
using contend::Record;
using contend::SessionView;
using contend::WakerPtr;

Error simulated(Errc code) { return {code, "simulated"}; }

class FolderBackend final : public contend::Backend {
 public:
  explicit FolderBackend(FolderServer& server)
      : world_(World::get()), process_(*world_.running), server_(server) {}

  void start(contend::Events* events) override { events_ = events; }

  SessionView session() const override { return view_; }

  void ensure_session(BootInstant deadline, Done<SessionView> done) override {
    if (view_.epoch != 0) return post([this, done] { done(view_); });
    asking_.emplace_back(deadline, std::move(done));
    if (asking_.size() == 1) open();
  }

  void enter(std::uint64_t epoch, std::string lock, Key key, Details details, BootInstant deadline,
             Done<Entered> done) override {
    if (epoch != view_.epoch) return post([done] { done(simulated(Errc::kLost)); });
    const std::uint64_t session = session_;
    request<Entered>(
        deadline, /*writes=*/true,
        [this, lock, key, details, session](std::uint64_t& seen) -> Result<Entered> {
          if (!server_.is_open(session)) return simulated(Errc::kLost);
          const std::uint64_t order = server_.enter(lock, key, details, session);
          seen = std::max(seen, order);
          return Entered{order,
                         server_.listing_of(*server_.read(lock, false, seen), /*full=*/false)};
        },
        std::move(done));
  }

  void list(std::string lock, bool latest, WakerPtr waker, BootInstant deadline,
            Done<Listing> done) override {
    request<Listing>(
        deadline, /*writes=*/false,
        [this, lock, latest, waker](std::uint64_t& seen) -> Result<Listing> {
          const auto folder = server_.read(lock, latest, seen);
          watch(lock, std::nullopt, seen, waker);
          return server_.listing_of(*folder, /*full=*/false);
        },
        std::move(done));
  }

  void list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) override {
    request<Listing>(
        deadline, /*writes=*/false,
        [this, lock](std::uint64_t& seen) -> Result<Listing> {
          const auto why = server_.unreadable.find(lock);
          if (why != server_.unreadable.end()) return why->second;
          return server_.listing_of(*server_.read(lock, true, seen), /*full=*/true);
        },
        std::move(done));
  }

  void read(std::string lock, QueueEntry place, WakerPtr waker, BootInstant deadline,
            Done<std::optional<Read>> done) override {
    request<std::optional<Read>>(
        deadline, /*writes=*/false,
        [this, lock, order = place.order,
         waker](std::uint64_t& seen) -> Result<std::optional<Read>> {
          const auto folder = server_.read(lock, false, seen);
          watch(lock, order, seen, waker);
          const auto found = folder->nodes.find(order);
          if (found == folder->nodes.end()) return std::optional<Read>();
          const Node& node = found->second;
          return std::optional(Read{node.details, node.created, node.modified});
        },
        std::move(done));
  }

  void write(std::uint64_t epoch, std::string lock, QueueEntry place, Details details,
             BootInstant deadline, Done<std::optional<Read>> done) override {
    if (epoch != view_.epoch) return post([done] { done(simulated(Errc::kLost)); });
    request<std::optional<Read>>(
        deadline, /*writes=*/true,
        [this, lock, order = place.order, details,
         session = session_](std::uint64_t& seen) -> Result<std::optional<Read>> {
          if (!server_.is_open(session)) return simulated(Errc::kLost);
          auto read = server_.write(lock, order, details);
          seen = std::max(seen, server_.revision());
          return read;
        },
        std::move(done));
  }

  void remove(std::uint64_t epoch, std::string lock, QueueEntry place, BootInstant deadline,
              Done<bool> done) override {
    remove_as(epoch, lock, place, {}, deadline, std::move(done));
  }
  void handoff(std::uint64_t epoch, std::string lock, QueueEntry place,
               const machine::Token& held_with, BootInstant deadline, Done<bool> done) override {
    remove_as(epoch, lock, place, held_with, deadline, std::move(done));
  }

  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<Record, std::uint64_t>> done) override {
    request<std::pair<Record, std::uint64_t>>(
        deadline, /*writes=*/false,
        [this, lock](std::uint64_t& seen) -> Result<std::pair<Record, std::uint64_t>> {
          const auto folder = server_.read(lock, false, seen);
          return std::pair(folder->record, folder->record_rev);
        },
        std::move(done));
  }

  void read_value(std::string, BootInstant, Done<contend::Value> done) override {
    post([done] { done(simulated(Errc::kUnsupported)); });
  }

  void apply(Change change, BootInstant deadline,
             Done<std::optional<std::uint64_t>> done) override {
    if (change.epoch != 0 && change.epoch != view_.epoch) {
      return post([done] { done(simulated(Errc::kLost)); });
    }
    request<std::optional<std::uint64_t>>(
        deadline, /*writes=*/true,
        [this, change,
         session = session_](std::uint64_t& seen) -> Result<std::optional<std::uint64_t>> {
          if (change.epoch != 0 && !server_.is_open(session)) return simulated(Errc::kLost);
          auto step = server_.apply(change);
          seen = std::max(seen, server_.revision());
          return step;
        },
        std::move(done));
  }

  void notify(std::string, std::function<void()> then) override { post(std::move(then)); }
  std::string session_tag() const override { return std::to_string(session_); }
  void list_locks(std::string prefix, std::size_t, BootInstant deadline,
                  Done<contend::Locks> done) override {
    request<contend::Locks>(
        deadline, /*writes=*/false,
        [this, prefix](std::uint64_t&) -> Result<contend::Locks> {
          contend::Locks locks;
          for (const auto& [name, moments] : server_.folders()) {
            if (name.starts_with(prefix)) locks.names.push_back(name);
          }
          return locks;
        },
        std::move(done));
  }
  Guarantees guarantees() const override { return {}; }
  void look_at_servers(BootInstant, Done<contend::Servers> done) override {
    done(contend::Servers());
  }
  void probe(BootInstant, Done<std::vector<Finding>> done) override {
    post([done] { done(std::vector<Finding>()); });
  }
  void close(BootInstant) override { closed_ = true; }
  void abandon_after_fork() noexcept override {}

 private:
  void remove_as(std::uint64_t epoch, const std::string& lock, const QueueEntry& place,
                 const std::optional<machine::Token>& held_with, BootInstant deadline,
                 Done<bool> done) {
    if (epoch != view_.epoch) return post([done] { done(simulated(Errc::kLost)); });
    request<bool>(
        deadline, /*writes=*/true,
        [this, lock, order = place.order, held_with](std::uint64_t& seen) -> Result<bool> {
          const bool removed = server_.remove(lock, order, held_with);
          seen = std::max(seen, server_.revision());
          return removed;
        },
        std::move(done));
  }

  Nanos delay() { return world_.loses && world_.percent(3) ? world_.upto(2s) : world_.upto(5ms); }

  void post(Task task) {
    process_.post(Process::kLoop, [this, task = std::move(task)] {
      if (!closed_) task();
    });
  }
  void later(Nanos time, Task task) {
    world_.at(process_.to_true(BootClock::now() + time), [this, task = std::move(task)] {
      if (!closed_ && !world_.closing) post(task);
    });
  }

  // About a lock: sessions are not counted.
  template <typename T, typename AtServer>
  void request(BootInstant deadline, bool writes, AtServer at_server, Done<T> done) {
    ++server_.requests;
    call<T>(deadline, writes, std::move(at_server), std::move(done));
  }

  template <typename T>
  void call(BootInstant deadline, bool writes,
            std::function<Result<T>(std::uint64_t& seen)> at_server, Done<T> done) {
    auto kept = std::make_shared<Done<T>>(std::move(done));  // Until it is told.
    const auto answer = [this, kept](const std::shared_ptr<Result<T>>& result, std::uint64_t seen) {
      if (!*kept || world_.closing) return;
      post([this, tell = std::exchange(*kept, nullptr), result, seen] {
        seen_ = std::max(seen_, seen);
        tell(std::move(*result));
      });
    };
    const auto fail = [answer](Errc code) {
      answer(std::make_shared<Result<T>>(simulated(code)), 0);
    };
    if (world_.loses && world_.percent(2)) {
      return world_.after(world_.upto(5ms), [fail] { fail(Errc::kUnavailable); });
    }
    world_.at(process_.to_true(deadline),
              [fail, writes] { fail(writes ? Errc::kOutcomeUnknown : Errc::kUnavailable); });
    arrives_ = std::max(arrives_, world_.now + delay());
    if (world_.loses && world_.percent(3)) return;
    world_.at(arrives_, [this, at_server, answer] {
      if (world_.closing) return;
      std::uint64_t seen = seen_;
      auto result = std::make_shared<Result<T>>(at_server(seen));
      if (world_.loses && world_.percent(3)) return;
      world_.after(delay(), [answer, result, seen] { answer(result, seen); });
    });
  }

  void watch(const std::string& lock, std::optional<std::uint64_t> order, std::uint64_t seen,
             const WakerPtr& waker) {
    if (!waker) return;
    const auto tell = [this, order, weak = std::weak_ptr(waker)](std::uint64_t revision) {
      const auto left = order ? server_.left_by(*order) : std::nullopt;
      world_.after(delay(), [this, weak, revision, left] {
        if (world_.closing) return;
        post([this, weak, revision, left] {
          seen_ = std::max(seen_, revision);
          const auto wanted = weak.lock();
          if (!wanted) return;
          if (left && wanted->handed_off) return wanted->handed_off(*left);
          wanted->wake();
        });
      });
    };
    server_.watch(lock, order, seen, [this, tell](std::uint64_t revision) {
      // The answer includes what happened meanwhile.
      world_.after(world_.percent(50) ? Nanos() : delay(), [tell, revision] { tell(revision); });
    });
  }

  // --- The session.

  void open() {
    const BootInstant sent = BootClock::now();
    call<std::uint64_t>(
        sent + 500ms, /*writes=*/true,
        [this](std::uint64_t&) -> Result<std::uint64_t> { return server_.open_session(); },
        [this, sent](const Result<std::uint64_t>& opened) {
          if (!opened) return open_again();
          session_ = *opened;
          view_ = {++epochs_, false, FolderServer::kSession, sent + FolderServer::kSession};
          beat(view_.epoch);
          for (const auto& [deadline, done] : std::exchange(asking_, {})) done(view_);
        });
  }

  void open_again() {
    const BootInstant now = BootClock::now();
    std::vector<std::pair<BootInstant, Done<SessionView>>> over;
    std::erase_if(asking_, [&](auto& each) {
      if (each.first > now + 100ms) return false;
      over.push_back(std::move(each));
      return true;
    });
    for (const auto& [deadline, done] : over) done(simulated(Errc::kUnavailable));
    if (!asking_.empty()) later(100ms, [this] { open(); });
  }

  void beat(std::uint64_t epoch) {
    if (view_.epoch != epoch) return;
    const BootInstant sent = BootClock::now();
    if (sent >= view_.deadline) return end(simulated(Errc::kLost));
    view_.in_doubt = view_.deadline - sent < FolderServer::kSession / 2;
    call<bool>(
        sent + 500ms, /*writes=*/false,
        [this, session = session_](std::uint64_t&) -> Result<bool> {
          return server_.keep_session(session);
        },
        [this, sent, epoch](const Result<bool>& kept) {
          if (view_.epoch != epoch || !kept) return;
          if (!*kept) return end(simulated(Errc::kLost));
          view_.deadline = std::max(view_.deadline, sent + FolderServer::kSession);
          view_.in_doubt = false;
        });
    later(FolderServer::kSession / 6, [this, epoch] { beat(epoch); });
  }

  void end(const Error& why) {
    const std::uint64_t epoch = std::exchange(view_, {}).epoch;
    events_->on_session_ended(epoch, why);
  }

  World& world_;
  Process& process_;
  FolderServer& server_;
  contend::Events* events_ = nullptr;
  SessionView view_;
  std::uint64_t epochs_ = 0;
  std::uint64_t session_ = 0;
  std::vector<std::pair<BootInstant, Done<SessionView>>> asking_;
  std::uint64_t seen_ = 0;
  Nanos arrives_{};
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<contend::Backend> make_folder_backend(FolderServer& server) {
  return std::make_unique<FolderBackend>(server);
}

}  // namespace holdfast::simulation

namespace holdfast::contend {

using simulation::Process;
using simulation::World;

struct LoopTimer::State {
  Process* process = World::get().running;
  std::function<void()> on_fire;
  base::BootInstant at = base::BootInstant::max();
};

LoopTimer::LoopTimer(asio::io_context&, std::function<void()> on_fire)
    : state_(std::make_shared<State>()) {
  state_->on_fire = std::move(on_fire);
}

LoopTimer::~LoopTimer() { stop(); }

void LoopTimer::arm(base::BootInstant at) {
  if (!state_->on_fire || at >= state_->at) return;
  state_->at = at;
  World::get().at(state_->process->to_true(at), [state = state_, at] {
    if (World::get().closing) return;
    state->process->post(Process::kLoop, [state, at] {
      if (!state->on_fire || state->at != at) return;
      state->at = base::BootInstant::max();
      const auto on_fire = state->on_fire;  // It may stop the timer.
      on_fire();
    });
  });
}

void LoopTimer::stop() noexcept { state_->on_fire = nullptr; }

}  // namespace holdfast::contend
