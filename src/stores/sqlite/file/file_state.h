// A store's hold on its file: two connections, the thread's queue, the socket that wakes it, and
// its own tickets as it remembers them. One connection is reserved for renewals.
//
// When the path shows another file, everything held in the old one is lost. Later requests use the
// new one.
//
// Thread-safety: safe. Lock order: main, renewal, the fork gate, waiting.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/sqlite/file/fork_gate.h"
#include "src/stores/sqlite/file/wake.h"
#include "src/stores/sqlite/job_queue.h"
#include "src/stores/sqlite/operations.h"

namespace holdfast::stores::sqlite {

class FileState {
 public:
  static Result<std::unique_ptr<FileState>> open(std::string path,
                                                 const port::StoreContext& context,
                                                 SqliteTuning tuning);
  ~FileState();
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;

  // Runs `work` on the store's thread and posts its result.
  template <typename T, typename Work>
  void submit(base::BootInstant deadline, port::Done<T> done, Work work, bool gives_back = false) {
    Job job;
    job.gives_back = gives_back;
    job.run = [this, deadline, done, work = std::move(work)]() mutable {
      auto result = run_alone<T>(deadline, work);
      // Before the caller knows, so that what it asks next can run on its own thread.
      queue_.finished();
      post<T>(done, std::move(result));
    };
    job.refuse = [this, done](const Error& why) {
      queue_.finished();
      post<T>(done, why);
    };
    if (const auto refused = queue_.push(job)) post<T>(done, *refused);
  }

  // On the calling thread; nullopt when the connection or the queue is not free.
  template <typename T, typename Work>
  std::optional<Result<T>> run_inline(base::BootInstant deadline, Work work) HOLDFAST_NO_TSA {
    if (!queue_.idle() || queue_.closed()) return std::nullopt;
    // Let go of also when there is no memory for the work.
    const std::unique_lock lock(main_mutex_, std::try_to_lock);
    if (!lock) return std::nullopt;
    return on_main<T>(deadline, work);
  }

  Result<port::AcquisitionState> acquire(Operations& operations,
                                         const port::AcquireRequest& request, Notices& notices)
      HOLDFAST_REQUIRES(main_mutex_);
  Result<port::Store::Grants> acquire_all(Operations& operations,
                                          const std::vector<port::AcquireRequest>& requests,
                                          Notices& notices) HOLDFAST_REQUIRES(main_mutex_);
  Result<std::vector<Result<port::EndStatus>>> end_all(
      Operations& operations, const std::vector<port::AcquisitionRequest>& requests,
      Notices& notices) HOLDFAST_REQUIRES(main_mutex_);
  Result<port::EndStatus> end(Operations& operations, const port::AcquisitionRequest& request,
                              bool release, Notices& notices) HOLDFAST_REQUIRES(main_mutex_);
  std::vector<Result<port::AcquisitionState>> renew(const std::vector<port::RenewItem>& items,
                                                    base::BootInstant deadline);
  // The caller does not count on this acquisition any more, whatever becomes of its request.
  void given_up(machine::AcquisitionId id);
  std::string wake_trouble() const { return wake_trouble_; }
  port::WatchHandle watch_value(const std::string& name, port::Task changed);
  // The value beside that lock was set: whoever watches it is told, here and elsewhere.
  void tell_value(const std::string& name);

  template <typename T>
  void post(const port::Done<T>& done, Result<T> result) {
    if (!done) return;
    context_.loop->post([done, result = std::move(result)]() mutable { done(std::move(result)); });
  }

  void close(base::BootInstant deadline);
  void abandon() noexcept;

  // Held while the main connection works.
  base::LocalMutex main_mutex_;

 private:
  FileState(std::string path, const port::StoreContext& context, SqliteTuning tuning);

  template <typename T, typename Work>
  Result<T> run_alone(base::BootInstant deadline, Work& work) {
    const base::LocalLock lock(main_mutex_);
    return on_main<T>(deadline, work);
  }

  template <typename T, typename Work>
  Result<T> on_main(base::BootInstant deadline, Work& work) HOLDFAST_REQUIRES(main_mutex_) {
    if (base::BootClock::now() >= deadline) return late();
    Notices notices;
    for (int attempt = 0;; ++attempt) {
      if (auto ready = ready_main(deadline); !ready) return ready.error();
      Result<T> result = [&]() HOLDFAST_NO_TSA {
        const InsideSqlite inside;
        auto done = work(*main_operations_, notices);
        main_->fold_long_log();
        return done;
      }();
      const bool again = !result && main_->known_as_moved() && attempt == 0 &&
                         result.error().code() != Errc::kOutcomeUnknown;
      if (!again) {
        deliver(notices);
        return result;
      }
    }
  }

  void use(std::unique_ptr<Database> database) HOLDFAST_REQUIRES(main_mutex_);
  Result<void> open_main() HOLDFAST_REQUIRES(main_mutex_);
  void let_go() HOLDFAST_REQUIRES(main_mutex_) HOLDFAST_EXCLUDES(renew_mutex_);
  Result<void> ready_renewal() HOLDFAST_REQUIRES(renew_mutex_);
  Result<void> ready_main(base::BootInstant deadline) HOLDFAST_REQUIRES(main_mutex_);
  Error late() const;
  void count_on(machine::AcquisitionId id, const Result<port::AcquisitionState>& state);
  std::optional<machine::Duration> counted_on();
  void hint_all();
  void serve();
  void on_hint(machine::AcquisitionId id);
  bool look_after_file(bool again);
  bool clean_up();
  void deliver(const Notices& notices);
  void push(const port::Push& told);
  void on_value(std::uint64_t value);
  bool is_mine(const Notice& notice);

  const std::string path_;
  const port::StoreContext context_;
  const SqliteTuning tuning_;
  std::unique_ptr<WakeSocket> wake_;
  std::string wake_trouble_;
  JobQueue queue_;

  std::unique_ptr<Database> main_ HOLDFAST_GUARDED_BY(main_mutex_);
  std::unique_ptr<Operations> main_operations_ HOLDFAST_GUARDED_BY(main_mutex_);
  rows::EndedIds ended_ HOLDFAST_GUARDED_BY(main_mutex_);

  base::LocalMutex renew_mutex_;
  std::shared_ptr<LockFile> file_ HOLDFAST_GUARDED_BY(renew_mutex_);
  std::unique_ptr<Database> renew_ HOLDFAST_GUARDED_BY(renew_mutex_);

  // The instants until which somebody may count on an acquisition. The file is kept until then.
  // Otherwise a file in its place could give the same lock to somebody else.
  base::LocalMutex counted_mutex_;
  std::map<machine::AcquisitionId, base::BootInstant> counted_on_
      HOLDFAST_GUARDED_BY(counted_mutex_);
  std::size_t sweep_at_ HOLDFAST_GUARDED_BY(counted_mutex_) = 1024;

  base::LocalMutex waiting_mutex_;
  std::map<machine::AcquisitionId, std::string> waiting_ HOLDFAST_GUARDED_BY(waiting_mutex_);

  struct ValueWatches;  // Handles may outlive the file state.
  const std::shared_ptr<ValueWatches> values_;

  std::atomic<std::int64_t> flush_until_{0};  // Boot time in ns, set by close().
  std::thread thread_;
};

}  // namespace holdfast::stores::sqlite
