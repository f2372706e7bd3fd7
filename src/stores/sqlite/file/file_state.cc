#include "src/stores/sqlite/file/file_state.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "src/base/thread.h"
#include "src/port/multi_request.h"

namespace holdfast::stores::sqlite {
namespace {

using namespace std::chrono_literals;

constexpr int kIdleMilliseconds = 5000;  // How often an idle store looks whether its file is there.
constexpr auto kCleanUpLimit = 50ms;     // For which a step of it may wait for others.
constexpr int kCleanUpSteps = 64;
constexpr int kLeavingMilliseconds = 100;  // Whether it may let go of one that is not.

}  // namespace

struct FileState::ValueWatches {
  using Watch = std::shared_ptr<const port::Task>;

  base::LocalMutex mutex;
  WakeSocket* wake HOLDFAST_GUARDED_BY(mutex) = nullptr;
  std::multimap<std::uint64_t, Watch> watches HOLDFAST_GUARDED_BY(mutex);
};

FileState::FileState(std::string path, const port::StoreContext& context, SqliteTuning tuning)
    : path_(std::move(path)),
      context_(context),
      tuning_(std::move(tuning)),
      queue_(tuning_.queue_limit),
      ended_(tuning_.ended_kept),
      values_(std::make_shared<ValueWatches>()) {}

Result<std::unique_ptr<FileState>> FileState::open(std::string path,
                                                   const port::StoreContext& context,
                                                   SqliteTuning tuning) {
  std::unique_ptr<FileState> made(new FileState(std::move(path), context, std::move(tuning)));
  auto database = Database::open(made->path_, made->tuning_);
  if (!database) return database.error();
  made->wake_ = WakeSocket::open((*database)->path(), made->wake_trouble_);
  {
    const base::LocalLock lock(made->values_->mutex);
    made->values_->wake = made->wake_.get();
  }
  {
    const base::LocalLock lock(made->main_mutex_);
    made->use(std::move(*database));
  }
  made->thread_ =
      base::start_thread("holdfast-sqlite", [file_state = made.get()] { file_state->serve(); });
  return made;
}

Error FileState::late() const {
  return {Errc::kUnavailable,
          "sqlite store " + path_ + ": the deadline passed before the request's turn came"};
}

void FileState::given_up(machine::AcquisitionId id) {
  const base::LocalLock lock(counted_mutex_);
  counted_on_.erase(id);
}

void FileState::count_on(machine::AcquisitionId id, const Result<port::AcquisitionState>& state) {
  if (!state || state->lease <= machine::Duration::zero()) return;
  if (state->status != port::AcquisitionStatus::kHeld &&
      state->status != port::AcquisitionStatus::kWaiting) {
    return;
  }
  const base::BootInstant now = base::BootClock::now();
  const base::LocalLock lock(counted_mutex_);
  counted_on_[id] = std::max(counted_on_[id], now + state->lease);
  // Swept when it has doubled, so that an acquisition costs the same however many there are.
  if (counted_on_.size() < sweep_at_) return;
  std::erase_if(counted_on_, [&](const auto& counted) { return counted.second <= now; });
  sweep_at_ = std::max<std::size_t>(1024, 2 * counted_on_.size());
}

// The time for which somebody still counts on an acquisition; nullopt: nobody does.
std::optional<machine::Duration> FileState::counted_on() {
  const base::BootInstant now = base::BootClock::now();
  const base::LocalLock lock(counted_mutex_);
  base::BootInstant latest = now;
  for (const auto& [id, until] : counted_on_) latest = std::max(latest, until);
  if (latest == now) return std::nullopt;
  return std::chrono::ceil<machine::Duration>(latest - now);
}

// Each client that counts on an acquisition is to ask about it, and learns that it is lost.
void FileState::hint_all() {
  const base::LocalLock lock(counted_mutex_);
  for (const auto& [id, until] : counted_on_) push({port::Push::Kind::kHint, id, {}});
}

// A file that was replaced must be closed by everybody before the new one can be had.
void FileState::let_go() {
  const base::LocalLock lock(renew_mutex_);
  const InsideSqlite inside;
  main_operations_.reset();
  main_.reset();
  renew_.reset();
  file_.reset();
}

Result<void> FileState::open_main() {
  // The new file knows nothing of the locks held in the old one. Granting them from it would make
  // two holders.
  if (const auto left = counted_on()) {
    hint_all();
    return Error(
        Errc::kUnavailable,
        "sqlite store " + path_ +
            ": the file or its log was moved, replaced or deleted while locks were held in "
            "it; "
            "nothing can be had until they are given up or over, within " +
            std::to_string(left->count() / 1000 + 1) + " ms");
  }
  let_go();
  auto database = Database::open(path_, tuning_);
  if (!database) return database.error();
  use(std::move(*database));
  return {};
}

void FileState::use(std::unique_ptr<Database> database) {
  main_ = std::move(database);
  main_->stop_at(&flush_until_);
  main_operations_ = std::make_unique<Operations>(*main_, wake_ ? wake_->name() : "");
  if (!main_->alarm().empty()) {
    context_.loop->post([listener = context_.listener, alarm = main_->alarm()] {
      if (listener != nullptr) listener->on_alarm(alarm);
    });
  }
  const base::LocalLock lock(renew_mutex_);
  const InsideSqlite inside;
  file_ = main_->file();
}

Result<void> FileState::ready_main(base::BootInstant deadline) {
  if (main_ == nullptr || main_->known_as_moved()) {
    if (auto opened = open_main(); !opened) return opened;
  }
  main_->set_deadline(deadline);
  return {};
}

Result<port::AcquisitionState> FileState::acquire(Operations& operations,
                                                  const port::AcquireRequest& request,
                                                  Notices& notices) {
  if (ended_.contains(request.id)) return port::AcquisitionState{port::AcquisitionStatus::kGone};
  auto result = operations.acquire(request, notices);
  count_on(request.id, result);
  if (result && result->status == port::AcquisitionStatus::kWaiting) {
    const base::LocalLock lock(waiting_mutex_);
    waiting_[request.id] = request.name;
  }
  return result;
}

Result<port::Store::Grants> FileState::acquire_all(
    Operations& operations, const std::vector<port::AcquireRequest>& requests, Notices& notices) {
  if (auto good = port::check_multi(requests); !good) return good.error();
  auto result = operations.acquire_all(requests, ended_, notices);
  if (!result || !*result) return result;
  for (std::size_t at = 0; at < requests.size(); ++at) count_on(requests[at].id, (**result)[at]);
  return result;
}

Result<std::vector<Result<port::EndStatus>>> FileState::end_all(
    Operations& operations, const std::vector<port::AcquisitionRequest>& requests,
    Notices& notices) {
  auto results = operations.release_all(requests, notices);
  if (!results) return results;
  const base::LocalLock lock(waiting_mutex_);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (!(*results)[at]) continue;
    ended_.add(requests[at].id);
    waiting_.erase(requests[at].id);
  }
  return results;
}

Result<port::EndStatus> FileState::end(Operations& operations,
                                       const port::AcquisitionRequest& request, bool release,
                                       Notices& notices) {
  auto result =
      release ? operations.release(request, notices) : operations.cancel(request, notices);
  if (!result) return result;
  ended_.add(request.id);
  const base::LocalLock lock(waiting_mutex_);
  waiting_.erase(request.id);
  return result;
}

// kLost: the file that this store has used is gone from its path.
Result<void> FileState::ready_renewal() {
  if (renew_ != nullptr) return {};
  if (file_ == nullptr) return Error(Errc::kLost, {});
  auto opened = Database::open_another(file_, tuning_);
  if (!opened) return opened.error();
  renew_ = std::move(*opened);
  renew_->stop_at(&flush_until_);
  return {};
}

std::vector<Result<port::AcquisitionState>> FileState::renew(
    const std::vector<port::RenewItem>& items, base::BootInstant deadline) {
  Notices notices;
  std::vector<Result<port::AcquisitionState>> results;
  {
    const base::LocalLock lock(renew_mutex_);
    const InsideSqlite inside;
    if (queue_.closed()) {
      return {items.size(), Error(Errc::kClosed, "the client is closed")};
    }
    Result<void> ready = ready_renewal();
    if (ready) {
      renew_->set_deadline(deadline);
      Operations operations(*renew_, wake_ ? wake_->name() : "");
      results = operations.renew(items, notices);
      renew_->fold_long_log();
      if (renew_->known_as_moved()) ready = Error(Errc::kLost, {});
    } else {
      const bool lost = ready.error().code() == Errc::kLost;
      for (const port::RenewItem& item : items) {
        results.push_back(lost ? lost_with_file(item, path_) : ready.error());
      }
    }
    if (!ready && ready.error().code() == Errc::kLost) {
      renew_.reset();
      queue_.wake();  // The store's thread lets go of the old file too.
    }
  }
  deliver(notices);
  for (std::size_t at = 0; at < items.size(); ++at) count_on(items[at].id, results[at]);
  const base::LocalLock lock(waiting_mutex_);
  for (std::size_t at = 0; at < items.size(); ++at) {
    if (results[at] && results[at]->status == port::AcquisitionStatus::kWaiting) continue;
    if (results[at]) waiting_.erase(items[at].id);
  }
  return results;
}

bool FileState::is_mine(const Notice& notice) {
  if (wake_ && notice.wake == wake_->name()) return true;
  const base::LocalLock lock(waiting_mutex_);
  return waiting_.contains(notice.id);
}

void FileState::deliver(const Notices& notices) {
  for (const Notice& notice : notices) {
    if (!is_mine(notice)) {
      if (wake_ && !notice.wake.empty()) wake_->send(notice.wake, notice.id);
      continue;
    }
    port::Push told{port::Push::Kind::kHint, notice.id, {}};
    if (notice.granted) {
      told.kind = port::Push::Kind::kGranted;
      told.state = *notice.granted;
    }
    push(told);
  }
}

void FileState::push(const port::Push& told) {
  context_.loop->post([listener = context_.listener, told] {
    if (listener != nullptr) listener->on_push(told);
  });
}

port::WatchHandle FileState::watch_value(const std::string& name, port::Task changed) {
  const std::uint64_t value = WakeSocket::hash_of(name);
  const auto watch = std::make_shared<const port::Task>(std::move(changed));
  const base::LocalLock lock(values_->mutex);
  if (!values_->watches.contains(value) && values_->wake) values_->wake->listen(value);
  values_->watches.emplace(value, watch);
  return {std::shared_ptr<void>(values_.get(), [values = values_, value, watch](void*) {
    const base::LocalLock end_lock(values->mutex);
    std::erase_if(values->watches, [&](const auto& each) { return each.second == watch; });
    if (!values->watches.contains(value) && values->wake) values->wake->forget(value);
  })};
}

void FileState::tell_value(const std::string& name) {
  const std::uint64_t value = WakeSocket::hash_of(name);
  if (wake_) wake_->tell(value);
  on_value(value);
}

void FileState::on_value(std::uint64_t value) {
  const base::LocalLock lock(values_->mutex);
  const auto [first, last] = values_->watches.equal_range(value);
  for (auto each = first; each != last; ++each) {
    context_.loop->post([weak = std::weak_ptr<const port::Task>(each->second)] {
      if (const auto changed = weak.lock()) (*changed)();
    });
  }
}

void FileState::on_hint(machine::AcquisitionId id) {
  if (const auto value = WakeSocket::value_of(id)) return on_value(*value);
  port::Push told{port::Push::Kind::kHint, id, {}};
  std::string name;
  {
    const base::LocalLock lock(waiting_mutex_);
    const auto found = waiting_.find(id);
    if (found != waiting_.end()) name = found->second;
  }
  if (!name.empty()) {
    const base::LocalLock lock(main_mutex_);
    if (main_ != nullptr) {
      const InsideSqlite inside;
      main_->set_deadline(base::BootClock::now() + 200ms);
      // The ticket itself says whether it holds; the datagram only made us look.
      if (const auto state = main_operations_->look(name, id)) {
        told.kind = port::Push::Kind::kGranted;
        told.state = *state;
      }
    }
  }
  push(told);
}

// Only the next request opens the file that is at the path now. So idle clients do not make a
// folder again that somebody removed. True: the file has moved, but somebody still counts on it.
bool FileState::look_after_file(bool again) {
  const base::LocalLock lock(main_mutex_);
  if (main_ == nullptr || !main_->moved()) return false;
  if (counted_on()) {
    if (!again) hint_all();
    return true;
  }
  let_go();
  return false;
}

// Removes data that nobody has used for long. A failure does no harm, because it runs again. False:
// nothing is left for now.
bool FileState::clean_up() {
  const base::LocalLock lock(main_mutex_);
  if (main_ == nullptr || main_->known_as_moved()) return false;
  const InsideSqlite inside;
  main_->set_deadline(base::BootClock::now() + kCleanUpLimit);
  const auto more = main_operations_->clean_up();
  main_->fold_long_log();
  return more && *more;
}

void FileState::serve() {
  auto looked = base::BootClock::now();
  bool leaving = false;
  for (;;) {
    pollfd ready[2] = {{queue_.descriptor(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (wake_) ready[1].fd = wake_->descriptor();
    const int pause = leaving ? kLeavingMilliseconds : kIdleMilliseconds;
    const int count = ::poll(ready, 2, pause);
    const auto now = base::BootClock::now();
    const bool asked = count > 0 && ready[0].revents != 0;
    if (asked) queue_.consume_wake();
    if (count > 0 && ready[1].revents != 0) {
      for (const machine::AcquisitionId& id : wake_->drain()) on_hint(id);
    }
    bool worked = false;
    while (auto job = queue_.pop()) {
      worked = true;
      const bool flush = job->gives_back &&
                         base::BootClock::now().time_since_epoch().count() < flush_until_.load();
      if (queue_.closed() && !flush) {
        job->refuse(Error(Errc::kClosed, "the client was closed before the request's turn came"));
      } else {
        job->run();
      }
    }
    if (queue_.closed()) {
      clean_up();
      return;
    }
    // A wake without a job comes from a renewal that found the file gone.
    if ((asked && !worked) || now - looked >= std::chrono::milliseconds(pause)) {
      leaving = look_after_file(leaving);
      // Requests get in between.
      for (int step = 0; !leaving && step < kCleanUpSteps && queue_.idle(); ++step) {
        if (!clean_up()) break;
      }
      looked = now;
    }
  }
}

void FileState::close(base::BootInstant deadline) {
  flush_until_ = deadline.time_since_epoch().count();
  queue_.close();
  if (thread_.joinable()) thread_.join();
  const base::LocalLock lock(main_mutex_);
  let_go();
}

// The child has the parent's memory in whatever state other threads left it. SQLite's handles wait
// for the child to open a file of its own, if it ever does (fork_gate.h).
void FileState::abandon() noexcept HOLDFAST_NO_TSA {
  queue_.abandon();
  if (wake_) wake_->abandon();
  // Otherwise the child would count as a user of the file after the parent's death. Whoever had the
  // mutex is not here; the pointer changes only inside of the gate, where nobody was.
  if (file_ != nullptr) file_->abandon();
}

FileState::~FileState() {
  if (thread_.joinable()) close(base::BootClock::now());
  const base::LocalLock lock(values_->mutex);
  if (values_->wake) {
    for (const auto& [value, watch] : values_->watches) values_->wake->forget(value);
  }
  values_->wake = nullptr;
}

}  // namespace holdfast::stores::sqlite
