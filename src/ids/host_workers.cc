#include "holdfast/ids/host_workers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "src/base/local_mutex.h"
#include "src/base/random.h"
#include "src/base/writers_only.h"
#include "src/ids/reserving_permit.h"
#include "src/ids/worker_row.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kMostWorkers = 4'096;
constexpr std::size_t kMostRounds = 8;  // Their marks fit a row.
// Reserved time lies between one and two of these ahead, so a crash costs so much logical time.
constexpr milliseconds kStep{10'000};
// Above the last id's time, where that is ahead of the clock.
constexpr milliseconds kSmallStep{1'000};

Error failed(const std::string& path, const char* what) {
  const int why = errno;
  const bool denied = why == EACCES || why == EPERM || why == EROFS;
  return {denied ? Errc::kPermissionDenied : Errc::kUnavailable,
          "ids file " + path + ": cannot " + what + ": " + std::strerror(why)};
}

Error corrupt(const std::string& path, const std::string& what) {
  return {Errc::kCorruptState, "ids file " + path + ": " + what};
}

std::string host_name() {
  std::string id;
  std::ifstream("/etc/machine-id") >> id;
  if (!id.empty()) return id;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

milliseconds wall_ms(IdClock& clock = IdClock::machine()) {
  return std::chrono::duration_cast<milliseconds>(clock.read().wall);
}

// The open file. Locks belong to it, so each worker's row is locked through a file of its own.
class RowFile {
 public:
  RowFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  RowFile(RowFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  RowFile& operator=(RowFile&&) = delete;
  ~RowFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  static Result<RowFile> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
      return Error(Errc::kInvalidArgument, "there is no ids file " + path +
                                               ": make it once, by HostWorkers::create() or "
                                               "'holdfast id init'. If it was there before, give "
                                               "the new one other worker numbers: the ids of the "
                                               "old ones may come again");
    }
    if (fd < 0) return failed(path, "open it");
    return RowFile(path, fd);
  }

  const std::string& path() const { return path_; }
  std::uint64_t inode() const {
    struct stat seen {};
    return ::fstat(fd_, &seen) == 0 ? seen.st_ino : 0;
  }
  // Nanoseconds since 1970; 0: the file system does not tell.
  std::int64_t born_ns() const {
    struct statx seen {};
    const bool told = ::statx(fd_, "", AT_EMPTY_PATH, STATX_BTIME, &seen) == 0 &&
                      (seen.stx_mask & STATX_BTIME) != 0;
    return told ? seen.stx_btime.tv_sec * 1'000'000'000 + seen.stx_btime.tv_nsec : 0;
  }
  // Not so when somebody has removed it, or put another one in its place.
  bool in_place() const {
    struct stat here {};
    struct stat there {};
    return ::fstat(fd_, &here) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  }
  // Fewer bytes than a row: the file ends there.
  Result<std::string> read(std::uint64_t row) const {
    std::string bytes(kRowBytes, '\0');
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset(row));
    if (got < 0) return failed(path_, "read it");
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }
  Result<void> write(std::uint64_t row, const std::string& bytes) const {
    if (bytes.size() != kRowBytes) return corrupt(path_, "a row is too long");
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), offset(row));
    if (done >= 0 && done != static_cast<ssize_t>(bytes.size())) errno = ENOSPC;
    if (done != static_cast<ssize_t>(bytes.size())) return failed(path_, "write it");
    if (::fdatasync(fd_) != 0) return failed(path_, "sync it");
    return {};
  }
  // Another process, or another generator of this one, has it.
  bool is_locked(std::uint64_t row) const {
    struct flock range = range_of(row);
    return ::fcntl(fd_, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  }
  Result<bool> lock(std::uint64_t row) const {
    struct flock range = range_of(row);
    if (::fcntl(fd_, F_OFD_SETLK, &range) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    return failed(path_, "lock it");
  }
  void unlock(std::uint64_t row) const {
    struct flock range = range_of(row);
    range.l_type = F_UNLCK;
    ::fcntl(fd_, F_OFD_SETLK, &range);
  }

 private:
  static off_t offset(std::uint64_t row) { return static_cast<off_t>(row * kRowBytes); }
  static struct flock range_of(std::uint64_t row) {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = offset(row);
    range.l_len = 1;
    return range;
  }

  std::string path_;
  int fd_;
};

// A name that must not outlive its block.
class Litter {
 public:
  explicit Litter(std::string path) : path_(std::move(path)) {}
  ~Litter() { ::unlink(path_.c_str()); }
  Litter(const Litter&) = delete;
  Litter& operator=(const Litter&) = delete;

 private:
  const std::string path_;
};

Result<WorkerRow> read_worker(const RowFile& file, const std::string& incarnation,
                              std::uint64_t worker, std::uint64_t first) {
  const auto bytes = file.read(worker - first + 1);
  if (!bytes) return bytes.error();
  auto row = parse_worker_row(*bytes);
  if (!row || row->incarnation != incarnation || row->worker != worker) {
    return corrupt(file.path(), "the row of worker " + std::to_string(worker) +
                                    " is damaged or missing, so it is not known which ids it gave: "
                                    "make a new file with other worker numbers");
  }
  return *std::move(row);
}

// The bounds of one worker, on the disk.
class HostPermit final : public ReservingPermit {
 public:
  HostPermit(RowFile file, std::uint64_t at, WorkerRow row, const Layout& layout,
             const ReservePlan& plan)
      : ReservingPermit(layout, plan, {row.reserved_until, row.rounds}),
        file_(std::move(file)),
        at_(at),
        row_(std::move(row)) {}
  ~HostPermit() override { stop(); }

  IdGuarantees guarantees() const override {
    return {.unique_by = UniqueBy::kLease, .survives_restart = true, .survives_clock_back = true};
  }

 private:
  Result<void> write(const Bounds& next) override HOLDFAST_REQUIRES(mutex_) {
    WorkerRow row = row_;
    row.reserved_until = next.reserved_until;
    row.rounds = next.rounds.value_or(Rounds());
    if (auto written = file_.write(at_, row.text()); !written) return written;
    row_ = std::move(row);
    return {};
  }
  // Processes that begin with the new file know nothing of this one's ids.
  Result<void> look_at_lease() override HOLDFAST_REQUIRES(mutex_) {
    if (file_.in_place()) return {};
    deadline_ns = 0;
    return corrupt(file_.path(),
                   "it was removed or replaced while ids were given, so no more are: take other "
                   "worker numbers than its own");
  }
  void let_go() override HOLDFAST_REQUIRES(mutex_) { file_.unlock(at_); }

  const RowFile file_;
  const std::uint64_t at_;
  WorkerRow row_ HOLDFAST_GUARDED_BY(mutex_);
};

Result<void> check(const HostWorkersSpec& spec) {
  if (spec.last < spec.first || spec.last >= spec.layout.workers()) {
    return Error(Errc::kInvalidArgument, "the workers " + std::to_string(spec.first) + " to " +
                                             std::to_string(spec.last) +
                                             " are not all in the layout: it has 0 to " +
                                             std::to_string(spec.layout.workers() - 1));
  }
  if (spec.last - spec.first >= kMostWorkers) {
    return Error(Errc::kInvalidArgument,
                 "a host may have " + std::to_string(kMostWorkers) + " workers at most");
  }
  const auto tried = Snowflake::make({.layout = spec.layout, .policy = spec.policy});
  return tried ? Result<void>() : tried.error();
}

std::size_t rounds_of(const HostWorkersSpec& spec) {
  if (spec.policy.back != ClockPolicy::Back::kRounds) return 0;
  const std::uint64_t values = std::uint64_t{1} << spec.layout.sequence_bits();
  return spec.policy.round_size != 0 ? values / spec.policy.round_size : spec.policy.rounds;
}

}  // namespace

Result<void> HostWorkers::create(const std::string& path, const HostWorkersSpec& spec) {
  if (auto good = check(spec); !good) return good;
  const std::size_t rounds = rounds_of(spec);
  if (rounds > kMostRounds) {
    return Error(Errc::kInvalidArgument,
                 "a file keeps at most " + std::to_string(kMostRounds) + " rounds of a sequence");
  }
  if (path.empty()) return Error(Errc::kInvalidArgument, "an ids file needs a path");
  if (spec.layout.spec().epoch > wall_ms()) {
    return Error(Errc::kInvalidArgument, "the layout's epoch lies in the future of this clock");
  }
  if (spec.layout.end() <= wall_ms()) {
    return Error(Errc::kInvalidArgument,
                 "the layout's times have ended already: give its time more bits, a longer unit or "
                 "a later epoch");
  }
  // Under a name of its own first: a file by its right name is always whole, and nobody else's.
  const base::Random128 random = base::random_128();
  const std::string fresh = path + "." + base::to_hex(0, random.low) + ".new";
  const int fd = base::open_for_writers(fresh.c_str(), /*exclusive=*/true);
  if (fd < 0) return failed(path, "make it");
  const RowFile file(fresh, fd);
  const Litter litter(fresh);
  const FileRow head{.incarnation = base::to_hex(random.high, random.low),
                     .layout = spec.layout.to_string(),
                     .policy = spec.policy.to_string(),
                     .first = spec.first,
                     .last = spec.last,
                     .host = host_name(),
                     .inode = file.inode(),
                     .born_ns = file.born_ns()};
  std::string all = head.text();
  if (bool later = false; !parse_file_row(all, &later)) {
    return Error(Errc::kInvalidArgument,
                 "the layout's text is too long for an ids file: give its fields shorter names");
  }
  for (std::uint64_t worker = spec.first; worker <= spec.last; ++worker) {
    all += WorkerRow{.incarnation = head.incarnation,
                     .worker = worker,
                     .rounds = {0, std::vector<std::int64_t>(rounds, -1)}}
               .text();
  }
  const ssize_t done = ::write(fd, all.data(), all.size());
  if (done >= 0 && done != static_cast<ssize_t>(all.size())) errno = ENOSPC;
  if (done != static_cast<ssize_t>(all.size())) return failed(path, "write it");
  if (::fsync(fd) != 0) return failed(path, "sync it");
  // Unlike rename(), link() leaves a file that is there alone.
  if (::link(fresh.c_str(), path.c_str()) != 0) {
    if (errno == EEXIST) {
      return Error(Errc::kStoreInUse, "the ids file " + path +
                                          " is there already: its layout and policy are for good");
    }
    return failed(path, "make it");
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder =
      slash == path.npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  const int above = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = above >= 0 && ::fsync(above) == 0;
  const Error unsynced = failed(folder, "sync the folder");
  if (above >= 0) ::close(above);
  if (!synced) return unsynced;
  return {};
}

Result<HostWorkers> HostWorkers::open(const std::string& path) {
  auto file = RowFile::open(path);
  if (!file) return file.error();
  const auto bytes = file->read(0);
  if (!bytes) return bytes.error();
  bool later = false;
  const auto head = parse_file_row(*bytes, &later);
  if (later) {
    return Error(Errc::kVersionMismatch,
                 "ids file " + path + ": a later version wrote it: upgrade this program");
  }
  if (!head) return corrupt(path, "it is damaged, or no file of ids");
  const std::int64_t born_ns = file->born_ns();
  const bool is_other = head->born_ns != 0 && born_ns != 0 && head->born_ns != born_ns;
  if (head->host != host_name() || head->inode != file->inode() || is_other) {
    return corrupt(path,
                   "it was copied, or moved to another host. Two copies would repeat ids: make a "
                   "new file with worker numbers that no other host has");
  }
  const auto layout = Layout::parse(head->layout);
  const auto policy = ClockPolicy::parse(head->policy);
  if (!layout || !policy) return corrupt(path, "its layout or policy cannot be read");
  HostWorkersSpec spec{
      .layout = *layout, .policy = *policy, .first = head->first, .last = head->last};
  if (auto good = check(spec); !good) return corrupt(path, good.error().message());
  return HostWorkers(path, std::move(spec), head->incarnation);
}

Result<std::unique_ptr<Snowflake>> HostWorkers::take(IdClock* clock) const {
  const milliseconds now = wall_ms(clock != nullptr ? *clock : IdClock::machine());
  const milliseconds too_far = now + 2 * kStep + spec_.policy.forward_at_most;
  std::size_t ahead = 0;
  for (std::uint64_t worker = spec_.first; worker <= spec_.last; ++worker) {
    const std::uint64_t at = worker - spec_.first + 1;
    auto file = RowFile::open(path_);
    if (!file) return file.error();
    const auto locked = file->lock(at);
    if (!locked) return locked.error();
    if (!*locked) continue;
    auto row = read_worker(*file, incarnation_, worker, spec_.first);
    if (!row) return row.error();
    const LayoutSpec& layout = spec_.layout.spec();
    const milliseconds reserved = layout.epoch + layout.unit * row->reserved_until;
    if (reserved > too_far) {
      ++ahead;
      continue;
    }
    const std::int64_t above = row->reserved_until - 1;
    row->pid = ::getpid();
    row->since_ms = now.count();
    SnowflakeOptions options{.layout = spec_.layout,
                             .worker = worker,
                             .policy = spec_.policy,
                             .start_above = above,
                             .clock = clock};
    if (spec_.policy.back == ClockPolicy::Back::kRounds) options.rounds = row->rounds;
    const ReservePlan plan{.step = kStep,
                           .small = kSmallStep,
                           .forward_at_most = spec_.policy.forward_at_most,
                           .clock = clock};
    const auto permit =
        std::make_shared<HostPermit>(*std::move(file), at, *std::move(row), spec_.layout, plan);
    // Nothing is given before the bound is on the disk.
    if (auto raised = permit->ended(std::max(above + 1, spec_.layout.unit_of(now))); !raised) {
      return raised.error();
    }
    permit->start();
    options.permit = permit;
    return Snowflake::make(std::move(options));
  }
  return Error(Errc::kQueueFull,
               "every worker number of " + path_ + " is taken" +
                   (ahead == 0 ? std::string()
                               : ", or its time is reserved too far ahead of the clock (" +
                                     std::to_string(ahead) + " of them)") +
                   ": 'holdfast id workers' shows by whom");
}

Result<std::vector<HostWorker>> HostWorkers::workers() const {
  auto file = RowFile::open(path_);
  if (!file) return file.error();
  std::vector<HostWorker> all;
  for (std::uint64_t worker = spec_.first; worker <= spec_.last; ++worker) {
    const bool held = file->is_locked(worker - spec_.first + 1);
    const auto row = read_worker(*file, incarnation_, worker, spec_.first);
    if (!row && row.error().code() != Errc::kCorruptState) return row.error();
    if (!row) {
      all.push_back({.worker = worker, .held = held, .trouble = row.error().message()});
      continue;
    }
    const auto since_epoch = spec_.layout.spec().unit * row->reserved_until;
    all.push_back({.worker = worker,
                   .held = held,
                   .pid = row->pid,
                   .since = milliseconds(row->since_ms),
                   .reserved_until = spec_.layout.spec().epoch + since_epoch});
  }
  return all;
}

}  // namespace holdfast::ids
