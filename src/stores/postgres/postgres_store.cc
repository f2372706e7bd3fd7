#include "src/stores/postgres/postgres_store.h"

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/port/multi_request.h"
#include "src/stores/postgres/doctor.h"
#include "src/stores/postgres/engine.h"
#include "src/stores/postgres/guarantees.h"
#include "src/stores/postgres/renewals.h"
#include "src/stores/postgres/requests.h"
#include "src/stores/postgres/url.h"
#include "src/stores/postgres/wakeups.h"

namespace holdfast::stores {
namespace {

using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;
using postgres::Question;
using postgres::Rows;

// The first name behind all that begin with the prefix; nullopt: there is none.
std::optional<std::string> behind(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

class PostgresStore final : public port::Store {
 public:
  PostgresStore(const postgres::PostgresAddress& address, const port::StoreContext& context,
                PostgresTuning tuning)
      : loop_(context.loop),
        parts_(std::make_shared<Parts>(address, context, std::move(tuning))),
        engine_(parts_->engine) {}

  ~PostgresStore() override { close({}); }

  // Errors: kUnavailable, kPermissionDenied, kVersionMismatch.
  Result<void> connect(BootInstant open_by) {
    engine_.start();
    parts_->renewals.start();
    const auto& texts = engine_.statements();
    auto state = ask_now(texts.check, {}, open_by);
    if (!state) return state.error();
    if (state->text(0, 0) == "t") {
      return Error(Errc::kUnavailable, engine_.address() +
                                           ": this server only reads (a standby?): connect to the "
                                           "primary, or name all servers in the URL");
    }
    if (state->text(0, 1) != "t") {
      if (auto made = ask_now(texts.create, {}, open_by); !made) return made.error();
    }
    auto format = ask_now(texts.of("SELECT format FROM @meta"), {}, open_by);
    if (!format) return format.error();
    if (format->size() != 1 || format->number(0, 0) != postgres::kFormat) {
      return Error(Errc::kVersionMismatch,
                   engine_.address() +
                       ": the tables have another format than this version of "
                       "Holdfast: upgrade it, or name another schema");
    }
    parts_->wakeups.start();
    return {};
  }

  Guarantees guarantees() const override { return postgres::guarantees(); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    engine_.submit(acquire_command(engine_, std::move(request), on_loop(std::move(done))));
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
    engine_.submit(postgres::downgrade_command(request, on_loop(std::move(done))));
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    postgres::Array names;
    names.add_bytes(name);
    ask(engine_.statements().read, {engine_.now(), names.param()}, deadline, std::move(done),
        [this](const Rows& rows) -> Result<std::optional<LockInfo>> {
          auto locks = postgres::read_locks(rows, engine_.address());
          if (!locks) return locks.error();
          if (locks->empty() || locks->front().version == 0) return std::optional<LockInfo>();
          return std::optional<LockInfo>(postgres::describe(locks->front()));
        });
  }

  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    const auto end = behind(prefix);
    const auto most = std::min<std::size_t>(limit, 1'000'000);
    ask(engine_.statements().list,
        {engine_.now(), postgres::bytea_of(prefix),
         end ? postgres::Param(postgres::bytea_of(*end)) : std::nullopt, std::to_string(most)},
        deadline, std::move(done), [this](const Rows& rows) -> Result<std::vector<LockInfo>> {
          auto locks = postgres::read_locks(rows, engine_.address());
          if (!locks) return locks.error();
          std::vector<LockInfo> found;
          for (const postgres::ReadLock& lock : *locks) {
            LockInfo info = postgres::describe(lock);
            if (!info.holders.empty() || !info.waiters.empty()) found.push_back(std::move(info));
          }
          return found;
        });
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    engine_.submit(postgres::break_command(request, on_loop(std::move(done))));
  }

  Result<port::WatchHandle> watch(std::string, port::EventSink) override {
    return Error(Errc::kUnsupported, "the postgres store does not tell every change");
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    postgres::examine(engine_, deadline, on_loop(std::move(done)));
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    engine_.submit(postgres::set_value_command(holder, std::move(value), on_loop(std::move(done))));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    engine_.submit(postgres::keep_command(request, on_loop(std::move(done))));
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    ask(engine_.statements().value, {postgres::bytea_of(name)}, deadline, std::move(done),
        [](const Rows& rows) -> Result<std::string> {
          return rows.size() > 0 ? rows.bytes(0, 0) : std::string();
        });
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return parts_->wakeups.watch_value(name, std::move(changed));
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    engine_.submit(postgres::resize_command(request, capacity, on_loop(std::move(done))));
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
    parts_->wakeups.close();
  }

  // Nothing is touched that the parent's threads may hold.
  void abandon_after_fork() noexcept override { base::abandon(std::move(parts_)); }

 private:
  struct Parts {
    Parts(const postgres::PostgresAddress& address, const port::StoreContext& context,
          PostgresTuning tuning)
        : engine(address, context, {std::move(tuning.now), tuning.fast_path}),
          renewals(address, engine),
          wakeups(address, context, engine) {}

    postgres::Engine engine;
    postgres::Renewals renewals;
    postgres::Wakeups wakeups;
  };

  template <typename T>
  Done<T> on_loop(Done<T> done) {
    return [loop = loop_, done = std::move(done)](Result<T> result) {
      loop->post([done, result = std::move(result)]() mutable { done(std::move(result)); });
    };
  }

  void end(const port::AcquisitionRequest& request, bool release, Done<EndStatus> done) {
    engine_.ended(request.id);
    engine_.submit(end_command(engine_, request, release, on_loop(std::move(done))));
  }

  template <typename T, typename Read>
  void ask(const std::string& text, postgres::Params params, BootInstant deadline, Done<T> done,
           Read read) {
    auto question = std::make_shared<Question>();
    question->deadline = deadline;
    auto on_done = on_loop(std::move(done));
    question->answer = [on_done, read](const Rows& rows) { on_done(read(rows)); };
    question->fail = [on_done](const Error& why) { on_done(unanswered(why)); };
    engine_.ask(engine_.link(), text, std::move(params), std::move(question));
  }

  // Waits, while the store is made. A lost answer is asked for again: doing it twice does no harm.
  Result<Rows> ask_now(const std::string& text, postgres::Params params, BootInstant open_by) {
    const BootInstant deadline =
        std::min(open_by, base::BootClock::now() + std::chrono::seconds(10));
    while (true) {
      Result<Rows> rows = ask_once(text, params, deadline);
      if (rows || rows.error().code() != Errc::kOutcomeUnknown) return rows;
      if (base::BootClock::now() >= deadline) return unanswered(rows.error());
    }
  }

  Result<Rows> ask_once(const std::string& text, postgres::Params params, BootInstant deadline) {
    auto promise = std::make_shared<std::promise<Result<Rows>>>();
    auto future = promise->get_future();
    auto question = std::make_shared<Question>();
    question->deadline = deadline;
    question->answer = [promise](const Rows& rows) { promise->set_value(rows); };
    question->fail = [promise](const Error& why) { promise->set_value(why); };
    engine_.ask(engine_.link(), text, std::move(params), std::move(question));
    return future.get();
  }

  // For what changes nothing: the caller need not learn whether it was carried out.
  static Error unanswered(const Error& why) {
    return why.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, why.message()) : why;
  }

  port::Loop* const loop_;
  std::shared_ptr<Parts> parts_;  // nullptr in a forked child.
  postgres::Engine& engine_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_postgres_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  return make_postgres_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_postgres_store_for_test(port::StoreUrl url,
                                                                  const port::StoreContext& context,
                                                                  PostgresTuning tuning) {
  const auto address = postgres::parse_postgres_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "postgres"); !known) return known.error();
  auto store = std::make_unique<PostgresStore>(*address, context, std::move(tuning));
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
