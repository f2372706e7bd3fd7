#include "src/stores/sqlite/sqlite_store.h"

#include <utility>

#include "src/port/records_job.h"
#include "src/port/url_options.h"
#include "src/stores/sqlite/doctor.h"
#include "src/stores/sqlite/file/file_state.h"
#include "src/stores/sqlite/records.h"

namespace holdfast::stores {
namespace {

using base::BootInstant;
using Ends = std::vector<Result<port::EndStatus>>;
using port::Done;
using sqlite::FileState;
using sqlite::Notices;
using sqlite::Operations;

class SqliteStore final : public port::Store {
 public:
  explicit SqliteStore(std::unique_ptr<FileState> file_state)
      : file_state_(std::move(file_state)) {}

  Guarantees guarantees() const override { return sqlite::sqlite_guarantees(); }

  void acquire(port::AcquireRequest request, Done<port::AcquisitionState> done) override {
    const BootInstant deadline = request.deadline;
    file_state_->submit(deadline, std::move(done),
                        [file_state = file_state_.get(), request = std::move(request)](
                            Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
                          return file_state->acquire(operations, request, notices);
                        });
  }

  std::optional<Result<port::AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    return file_state_->run_inline<port::AcquisitionState>(
        request.deadline, [&](Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
          return file_state_->acquire(operations, request, notices);
        });
  }

  void release(port::AcquisitionRequest request, Done<port::EndStatus> done) override {
    end(std::move(request), true, std::move(done));
  }
  void cancel(port::AcquisitionRequest request, Done<port::EndStatus> done) override {
    end(std::move(request), false, std::move(done));
  }
  std::optional<Result<port::EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    file_state_->given_up(request.id);
    return file_state_->run_inline<port::EndStatus>(
        request.deadline, [&](Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
          return file_state_->end(operations, request, /*release=*/true, notices);
        });
  }

  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    const BootInstant deadline = requests.empty() ? BootInstant::max() : requests.front().deadline;
    file_state_->submit(deadline, std::move(done),
                        [file_state = file_state_.get(), requests = std::move(requests)](
                            Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
                          return file_state->acquire_all(operations, requests, notices);
                        });
  }
  std::optional<Result<Grants>> try_acquire_all_inline(
      const std::vector<port::AcquireRequest>& requests) override {
    const BootInstant deadline = requests.empty() ? BootInstant::max() : requests.front().deadline;
    return file_state_->run_inline<Grants>(
        deadline, [&](Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
          return file_state_->acquire_all(operations, requests, notices);
        });
  }
  void release_all(std::vector<port::AcquisitionRequest> requests, Done<Ends> done) override {
    const BootInstant deadline = requests.front().deadline;
    for (const port::AcquisitionRequest& request : requests) file_state_->given_up(request.id);
    file_state_->submit(
        deadline, std::move(done),
        [file_state = file_state_.get(), requests = std::move(requests)](Operations& operations,
                                                                         Notices& notices)
            HOLDFAST_NO_TSA { return file_state->end_all(operations, requests, notices); },
        /*gives_back=*/true);
  }
  std::optional<Result<Ends>> release_all_inline(
      const std::vector<port::AcquisitionRequest>& requests) override {
    for (const port::AcquisitionRequest& request : requests) file_state_->given_up(request.id);
    return file_state_->run_inline<Ends>(
        requests.front().deadline, [&](Operations& operations, Notices& notices) HOLDFAST_NO_TSA {
          return file_state_->end_all(operations, requests, notices);
        });
  }

  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<std::vector<Result<port::AcquisitionState>>> done) override {
    file_state_->post<std::vector<Result<port::AcquisitionState>>>(
        done, file_state_->renew(items, deadline));
  }

  void downgrade(port::AcquisitionRequest request, Done<port::AcquisitionState> done) override {
    const BootInstant deadline = request.deadline;
    file_state_->submit(deadline, std::move(done),
                        [request = std::move(request)](Operations& operations, Notices& notices) {
                          return operations.downgrade(request, notices);
                        });
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    file_state_->submit(deadline, std::move(done),
                        [name = std::move(name)](Operations& operations, Notices&) {
                          return operations.inspect(name);
                        });
  }

  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    file_state_->submit(deadline, std::move(done),
                        [prefix = std::move(prefix), limit](Operations& operations, Notices&) {
                          return operations.list(prefix, limit);
                        });
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    const BootInstant deadline = request.deadline;
    file_state_->submit(deadline, std::move(done),
                        [request = std::move(request)](Operations& operations, Notices& notices) {
                          return operations.break_lock(request, notices);
                        });
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    file_state_->submit(deadline, std::move(done),
                        [trouble = file_state_->wake_trouble()](Operations& operations, Notices&) {
                          return sqlite::examine(operations.database(), trouble);
                        });
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    const BootInstant deadline = holder.deadline;
    file_state_->submit(deadline, std::move(done),
                        [file_state = file_state_.get(), holder = std::move(holder),
                         value = std::move(value)](Operations& operations, Notices& notices) {
                          auto set = operations.set_value(holder, value, notices);
                          if (set) file_state->tell_value(holder.name);
                          return set;
                        });
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return file_state_->watch_value(name, std::move(changed));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    const BootInstant deadline = request.deadline;
    file_state_->submit(deadline, std::move(done),
                        [file_state = file_state_.get(), request = std::move(request)](
                            Operations& operations, Notices& notices) {
                          auto kept = operations.keep(request, notices);
                          if (kept && request.value) file_state->tell_value(request.name);
                          return kept;
                        });
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    file_state_->submit(deadline, std::move(done),
                        [name = std::move(name)](Operations& operations, Notices&) {
                          return operations.get_value(name);
                        });
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    const BootInstant deadline = request.deadline;
    file_state_->submit(
        deadline, std::move(done),
        [request = std::move(request), capacity](Operations& operations, Notices& notices) {
          return operations.resize(request, capacity, notices);
        });
  }

  void close(BootInstant deadline) override {
    if (file_state_) file_state_->close(deadline);
  }

  void abandon_after_fork() noexcept override {
    if (!file_state_) return;
    file_state_->abandon();
    // Leaked on purpose, but reachable: there is nothing in it that the child may touch.
    static FileState* abandoned = nullptr;
    abandoned = file_state_.release();
    (void)abandoned;
  }

 private:
  void end(port::AcquisitionRequest request, bool release, Done<port::EndStatus> done) {
    const BootInstant deadline = request.deadline;
    file_state_->given_up(request.id);
    file_state_->submit(
        deadline, std::move(done),
        [file_state = file_state_.get(), request = std::move(request), release](
            Operations& operations, Notices& notices)
            HOLDFAST_NO_TSA { return file_state->end(operations, request, release, notices); },
        /*gives_back=*/true);
  }

  std::unique_ptr<FileState> file_state_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_sqlite_store_for_test(const port::StoreUrl& url,
                                                                const port::StoreContext& context,
                                                                SqliteTuning tuning) {
  if (auto known = port::reject_unknown_options(url, "sqlite"); !known) return known.error();
  if (!url.authority.empty()) {
    return Error(Errc::kInvalidArgument, "store URL: sqlite is on this host: write sqlite:///" +
                                             url.authority + url.path + ", with three slashes");
  }
  if (context.records != nullptr) {
    return port::answer(*context.records, sqlite::open_records(url.path, context.open_by));
  }
  auto file_state = FileState::open(url.path, context, std::move(tuning));
  if (!file_state) return file_state.error();
  return std::unique_ptr<port::Store>(new SqliteStore(std::move(*file_state)));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is that of all stores.
Result<std::unique_ptr<port::Store>> make_sqlite_store(port::StoreUrl url,
                                                       const port::StoreContext& context) {
  return make_sqlite_store_for_test(url, context, {});
}

}  // namespace holdfast::stores
