#include "src/sql/sql_store.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/port/multi_request.h"
#include "src/sql/read_lock.h"
#include "src/sql/renewals.h"
#include "src/sql/requests.h"
#include "src/sql/schema.h"

namespace holdfast::sql {
namespace {

using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;

constexpr std::chrono::seconds kWakeUpsBegin{1};
constexpr std::chrono::milliseconds kWakeUpsLook{20};

// The first name behind all that begin with the prefix; nullopt: there is none.
std::optional<std::string> behind(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

class SqlStore final : public port::Store {
 public:
  SqlStore(StoreParts parts, const port::StoreContext& context, Tuning tuning)
      : loop_(context.loop),
        parts_(std::make_shared<Parts>(std::move(parts), context, std::move(tuning))),
        engine_(parts_->engine) {}

  ~SqlStore() override { close({}); }

  // The first step. Errors: as of prepare_schema().
  Result<StoreSchema> prepare(Making making, BootInstant open_by) {
    engine_.start();
    const auto ask = [&](Request request) { return ask_now(std::move(request), open_by); };
    return prepare_schema(engine_.dialect(), ask, making);
  }

  // The second one.
  void serve(asio::io_context* io, BootInstant open_by) {
    if (io != nullptr) engine_.link().lend(*io);
    parts_->renewals.start();
    if (!parts_->wake_ups) return;
    parts_->wake_ups->start(std::min(open_by, base::BootClock::now() + std::chrono::seconds(10)));
  }

  Guarantees guarantees() const override { return engine_.dialect().guarantees(); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    engine_.submit(acquire_command(engine_, std::move(request), on_loop(std::move(done))));
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    return here<AcquisitionState>([&](const auto& told) {
      auto command = acquire_command(engine_, request, told->done());
      if (command->fast) command->not_fast = [told] { told->tell(std::nullopt); };
      return command->fast ? command : nullptr;
    });
  }

  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    return here<EndStatus>(
        [&](const auto& told) { return end_command(request, /*release=*/true, told->done()); });
  }

  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    parts_->renewals.renew(std::move(items), deadline, on_loop(std::move(done)));
  }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end(request, true, std::move(done));
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end(request, false, std::move(done));
  }

  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    engine_.submit(downgrade_command(request, on_loop(std::move(done))));
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    ask(engine_.dialect().read({name}, engine_.now()), deadline, std::move(done),
        [this](const Rows& rows) -> Result<std::optional<LockInfo>> {
          auto locks = read_locks(rows, engine_.dialect().address());
          if (!locks) return locks.error();
          if (locks->empty() || locks->front().version == 0) return std::optional<LockInfo>();
          return std::optional<LockInfo>(describe(locks->front()));
        });
  }

  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    const auto most = std::min<std::size_t>(limit, 1'000'000);
    ask(engine_.dialect().list(prefix, behind(prefix), most, engine_.now()), deadline,
        std::move(done), [this](const Rows& rows) -> Result<std::vector<LockInfo>> {
          auto locks = read_locks(rows, engine_.dialect().address());
          if (!locks) return locks.error();
          std::vector<LockInfo> found;
          for (const ReadLock& lock : *locks) {
            LockInfo info = describe(lock);
            if (!info.holders.empty() || !info.waiters.empty()) found.push_back(std::move(info));
          }
          return found;
        });
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    engine_.submit(break_command(request, on_loop(std::move(done))));
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    const BootInstant now = base::BootClock::now();
    const BootInstant by = std::min(now + kWakeUpsBegin, now + (deadline - now) / 2);
    examine_when_listening(by, deadline, std::move(done));
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    engine_.submit(set_value_command(holder, std::move(value), on_loop(std::move(done))));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    engine_.submit(keep_command(request, on_loop(std::move(done))));
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    ask(engine_.dialect().value(name), deadline, std::move(done),
        [](const Rows& rows) -> Result<std::string> {
          return rows.size() > 0 ? rows.bytes(0, 0) : std::string();
        });
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    if (!parts_->wake_ups) return {};
    return parts_->wake_ups->watch_value(name, std::move(changed));
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    engine_.submit(resize_command(request, capacity, on_loop(std::move(done))));
  }

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    auto on_done = on_loop(std::move(done));
    if (auto good = port::check_multi(requests); !good) return on_done(good.error());
    engine_.submit(acquire_all_command(engine_, std::move(requests), std::move(on_done)));
  }

  void close(BootInstant deadline) override {
    if (!parts_) return;
    engine_.close(deadline);
    parts_->renewals.close();
    if (parts_->wake_ups) parts_->wake_ups->close();
  }

  // Nothing is touched that the parent's threads may hold.
  void abandon_after_fork() noexcept override { base::abandon(std::move(parts_)); }

 private:
  struct Parts {
    Parts(StoreParts parts, const port::StoreContext& context, Tuning tuning)
        : engine(std::move(parts.dialect), parts.requests, context,
                 {std::move(tuning.now), tuning.fast_path}),
          renewals(parts.renewals, engine),
          wake_ups(parts.wake_ups ? parts.wake_ups(engine) : nullptr) {}

    Engine engine;
    Renewals renewals;
    std::unique_ptr<WakeUps> wake_ups;
  };

  template <typename T>
  Done<T> on_loop(Done<T> done) {
    return [loop = loop_, done = std::move(done)](Result<T> result) {
      loop->post([done, result = std::move(result)]() mutable { done(std::move(result)); });
    };
  }

  // The answer that a caller waits for. nullopt: none was sought.
  template <typename T>
  struct AwaitedAnswer : std::enable_shared_from_this<AwaitedAnswer<T>> {
    void tell(std::optional<Result<T>> result) {
      answer.set_value(std::move(result));
      is_told = true;
    }
    Done<T> done() {
      return [self = this->shared_from_this()](Result<T> result) { self->tell(std::move(result)); };
    }
    std::promise<std::optional<Result<T>>> answer;
    std::atomic<bool> is_told{false};
  };

  // Carries out the command that `make` makes on the calling thread, where that serves.
  template <typename T, typename Make>
  std::optional<Result<T>> here(Make make) {
    const auto told = std::make_shared<AwaitedAnswer<T>>();
    const CommandPtr command = make(told);
    if (!command || !engine_.submit_and_read(command, told->is_told)) return std::nullopt;
    return told->answer.get_future().get();
  }

  // A client that has just connected may not have heard its first notification yet.
  void examine_when_listening(BootInstant by, BootInstant deadline, Done<port::Findings> done) {
    const BootInstant now = base::BootClock::now();
    if (!parts_->wake_ups || engine_.listening() || now >= by) {
      return ask(engine_.dialect().examination(), deadline, std::move(done),
                 [this](const Rows& rows) -> Result<port::Findings> {
                   auto findings = engine_.dialect().judge(rows, engine_.listening());
                   port::check_clock_rate(findings);
                   return findings;
                 });
    }
    auto again = std::make_shared<Task>();
    again->run = [this, by, deadline, done] { examine_when_listening(by, deadline, done); };
    again->fail = on_loop(std::move(done));
    engine_.post(std::move(again), now + kWakeUpsLook);
  }

  void end(const port::AcquisitionRequest& request, bool release, Done<EndStatus> done) {
    engine_.submit(end_command(request, release, on_loop(std::move(done))));
  }

  template <typename T, typename Read>
  void ask(Request request, BootInstant deadline, Done<T> done, Read read) {
    auto question = std::make_shared<Question>();
    question->deadline = deadline;
    auto on_done = on_loop(std::move(done));
    question->answer = [on_done, read](const RowsPtr& rows) { on_done(read(*rows)); };
    question->fail = [on_done](const Error& why) { on_done(unanswered(why)); };
    engine_.ask(engine_.link(), std::move(request), std::move(question));
  }

  // Waits, while the store is made. A lost answer is asked for again: doing it twice does no harm.
  Result<RowsPtr> ask_now(const Request& request, BootInstant open_by) {
    const BootInstant deadline =
        std::min(open_by, base::BootClock::now() + std::chrono::seconds(10));
    while (true) {
      Result<RowsPtr> rows = ask_once(request, deadline);
      if (rows || rows.error().code() != Errc::kOutcomeUnknown) return rows;
      if (base::BootClock::now() >= deadline) return unanswered(rows.error());
    }
  }

  Result<RowsPtr> ask_once(Request request, BootInstant deadline) {
    auto promise = std::make_shared<std::promise<Result<RowsPtr>>>();
    auto future = promise->get_future();
    auto question = std::make_shared<Question>();
    question->deadline = deadline;
    question->answer = [promise](const RowsPtr& rows) { promise->set_value(rows); };
    question->fail = [promise](const Error& why) { promise->set_value(why); };
    engine_.ask(engine_.link(), std::move(request), std::move(question));
    return future.get();
  }

  // For what changes nothing: the caller need not learn whether it was carried out.
  static Error unanswered(const Error& why) {
    return why.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, why.message()) : why;
  }

  port::Loop* const loop_;
  std::shared_ptr<Parts> parts_;  // nullptr in a forked child.
  Engine& engine_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> open_store(StoreParts parts, const port::StoreContext& context,
                                                Tuning tuning) {
  if (context.schema != nullptr && context.schema->print) {
    context.schema->sql = parts.dialect->script();
    return std::unique_ptr<port::Store>();
  }
  const Making making = context.schema != nullptr ? Making::kMissing
                        : parts.may_create        ? Making::kFirst
                                                  : Making::kForbidden;
  auto store = std::make_unique<SqlStore>(std::move(parts), context, std::move(tuning));
  auto prepared = store->prepare(making, context.open_by);
  if (!prepared) return prepared.error();
  if (context.schema != nullptr) {
    context.schema->made = *std::move(prepared);
    return std::unique_ptr<port::Store>();
  }
  store->serve(context.io, context.open_by);
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::sql
