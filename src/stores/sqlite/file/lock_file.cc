#include "src/stores/sqlite/file/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/writers_only.h"
#include "src/stores/sqlite/sql.h"

namespace holdfast::stores::sqlite {
namespace {

// Offsets in FILE.use, after the line that names boot and file.
constexpr off_t kCeilingAt = 256;
constexpr off_t kLogAt = 320;
constexpr int kLogSize = 51;
constexpr off_t kFoldedAt = 384;

// `file`: which of the database's files it is about.
Error unavailable(const std::string& path, const std::string& what, const std::string& file) {
  if (errno == EACCES || errno == EPERM || errno == EROFS) {
    return permission_error(path, what + ": " + std::strerror(errno), file);
  }
  return {Errc::kUnavailable, "sqlite store " + path + ": " + what + ": " + std::strerror(errno)};
}

Error unavailable(const std::string& path, const std::string& what) {
  return unavailable(path, what, path);
}

Error unsupported(const std::string& path, const std::string& what) {
  return {Errc::kUnsupported, "sqlite store " + path + ": " + what};
}

}  // namespace

std::string read_boot_id() {
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[64] = {};
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  std::string id(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!id.empty() && (id.back() == '\n' || id.back() == ' ')) id.pop_back();
  return id;
}

namespace {

// A file in the place of a folder is an error of the caller: a retry would not help.
Error unreachable(const std::string& path, const std::string& what) {
  if (errno != ENOTDIR) return unavailable(path, what);
  return {Errc::kInvalidArgument, "sqlite store " + path + ": " + what + ": " +
                                      std::strerror(errno) +
                                      "; name a file whose path leads through folders only"};
}

}  // namespace

Result<std::string> LockFile::resolve(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return Error(Errc::kInvalidArgument,
                 "store URL: sqlite needs an absolute path, as in "
                 "sqlite:///var/lib/x/locks.db; got '" +
                     path + "'");
  }
  if (path.back() == '/') {
    return Error(Errc::kInvalidArgument,
                 "store URL: sqlite needs a file, but '" + path + "' names a folder");
  }
  const std::string folder = folder_of(path);
  if (!make_folders(folder)) return unreachable(path, "cannot make the folder " + folder);

  char real[PATH_MAX];
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (::realpath(path.c_str(), real) == nullptr)
      return unavailable(path, "cannot follow the link");
  } else if (errno == ENOTDIR || ::realpath(folder.c_str(), real) == nullptr) {
    return unreachable(path, "cannot be reached");
  } else {
    const std::string base = path.substr(path.rfind('/') + 1);
    const std::string full = (std::strcmp(real, "/") == 0 ? "" : std::string(real)) + "/" + base;
    if (full.size() >= sizeof real) return unsupported(path, "the path is too long");
    std::memcpy(real, full.c_str(), full.size() + 1);
  }
  const auto system = file_system_at(folder_of(real));
  if (!system) return system.error();
  if (!system->allowed) {
    return unsupported(path, "its file system is " + system->name +
                                 ", where the locks of SQLite cannot be trusted; use a local one "
                                 "(ext4, xfs, btrfs, tmpfs ...), or another store");
  }
  return std::string(real);
}

Result<void> LockFile::check_alone(const std::string& path, FileIdentity& identity) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    FileIdentity found;
    FileIdentity folder;
    const std::string name = path + suffix;
    if (!identify(name, found)) {
      if (errno == ENOENT) continue;
      return unavailable(name, "cannot be looked at");
    }
    if (!identify(folder_of(path), folder)) return unavailable(path, "its folder is gone");
    if (!S_ISREG(found.mode))
      return unsupported(name, "is not a regular file: choose another path");
    if (found.links > 1) {
      return unsupported(name, "has " + std::to_string(found.links) +
                                   " hard links; users of different names would not see each "
                                   "other's locks: remove the other links");
    }
    if (found.has_mount && found.mount != folder.mount) {
      return unsupported(name,
                         "is mounted by itself; its -wal file would be another one outside: "
                         "mount the folder instead of the file");
    }
    if (*suffix == '\0') identity = found;
  }
  return {};
}

Result<std::shared_ptr<LockFile>> LockFile::attach(const std::string& path, const std::string& boot,
                                                   bool want_exclusive,
                                                   std::chrono::milliseconds patience) {
  std::shared_ptr<LockFile> file(new LockFile(path, boot));
  // Before FILE.use is made beside something that is no lock file.
  if (auto alone = check_alone(path, file->identity_); !alone) return alone.error();
  const auto until = base::BootClock::now() + patience;
  for (;;) {
    auto attached = file->try_attach(want_exclusive);
    if (!attached) return attached.error();
    if (*attached) return file;
    if (base::BootClock::now() >= until) break;
    // The pause is random, so that processes which start together do not stay in step.
    std::this_thread::sleep_for(std::chrono::microseconds(500 + base::random_128().low % 8000));
  }
  if (file->log_in_the_way_) {
    return Error(Errc::kStoreInUse,
                 "sqlite store " + path +
                     ": its -wal or -shm file was removed or replaced while processes use it, and "
                     "what they hold cannot be seen any more; they find out at their next renewal "
                     "and let go of it, so try again then, or stop them (fuser -v " +
                     use_path(path) + ")");
  }
  return Error(Errc::kStoreInUse,
               "sqlite store " + path +
                   ": other processes use it whose boot (id, or file) is not the one seen here, so "
                   "its leases can neither be trusted nor voided; stop them first (fuser -v " +
                   use_path(path) + "), or let all of them share one kernel and one file");
}

Result<void> LockFile::open_use() {
  if (use_ >= 0) ::close(use_);
  const std::string name = use_path(path_);
  use_ = ::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (use_ < 0 && errno == ENOENT) {
    use_ = base::open_for_writers(name.c_str(), /*exclusive=*/true);
    if (use_ < 0 && errno == EEXIST) return open_use();
    made_use_ = use_ >= 0;
  }
  if (use_ < 0) return unavailable(path_, "cannot open " + name, name);
  give_use_to_writers();
  return {};
}

// Users who may write the database may write FILE.use. No other user may even read it, because a
// reader could lock it. Best effort: only the file's owner may change that.
void LockFile::give_use_to_writers() const {
  FileIdentity database;
  struct stat use {};
  if (!identify(path_, database) || ::fstat(use_, &use) != 0) return;
  if (made_use_) {
    [[maybe_unused]] const int ignored = ::fchown(use_, database.uid, database.gid);
  }
  const mode_t mode = base::writers_only(database.mode);
  if ((use.st_mode & 0666U) != mode) {
    [[maybe_unused]] const int ignored = ::fchmod(use_, mode);
  }
}

bool LockFile::use_replaced() const {
  struct stat here {};
  struct stat there {};
  if (::fstat(use_, &here) != 0 || ::stat(use_path(path_).c_str(), &there) != 0) return true;
  return here.st_ino != there.st_ino || here.st_dev != there.st_dev;
}

std::string LockFile::expected() const {
  char text[200];
  std::snprintf(text, sizeof text, "holdfast-use 1 boot=%s inode=%" PRIu64 " birth=%" PRId64 "\n",
                boot_.c_str(), identity_.inode, identity_.birth);
  return text;
}

bool LockFile::names_this_file() const {
  char text[200] = {};
  const ssize_t size = ::pread(use_, text, sizeof text - 1, 0);
  const std::string line = expected();
  return identity_.inode != 0 && size >= static_cast<ssize_t>(line.size()) &&
         line.compare(0, line.size(), text, line.size()) == 0;
}

LockFile::Log LockFile::log_at_path() const {
  struct stat wal {};
  struct stat shm {};
  Log found;
  if (::lstat((path_ + "-wal").c_str(), &wal) == 0) found.wal = wal.st_ino;
  if (::lstat((path_ + "-shm").c_str(), &shm) == 0) found.shm = shm.st_ino;
  return found;
}

std::optional<LockFile::Log> LockFile::noted_log() const {
  char text[kLogSize + 1] = {};
  Log log;
  if (::pread(use_, text, kLogSize, kLogAt) != kLogSize) return std::nullopt;
  if (std::sscanf(text, "wal=%" SCNu64 " shm=%" SCNu64, &log.wal, &log.shm) != 2)
    return std::nullopt;
  return log;
}

bool LockFile::note_log(const Log& log) const {
  char text[kLogSize + 1];
  std::snprintf(text, sizeof text, "wal=%020" PRIu64 " shm=%020" PRIu64 "\n", log.wal, log.shm);
  return ::pwrite(use_, text, kLogSize, kLogAt) == kLogSize;
}

// One try; false: somebody is in the way.
Result<bool> LockFile::try_attach(bool want_exclusive) {
  if (use_ < 0) {
    if (auto opened = open_use(); !opened) return opened.error();
  }
  // The first user gets it exclusively and checks whether the file is still the same. This also
  // covers users that were killed and left everything in place.
  const bool first = ::flock(use_, LOCK_EX | LOCK_NB) == 0;
  if (!first && want_exclusive) return false;
  if (!first) {
    if (::flock(use_, LOCK_SH | LOCK_NB) != 0) return false;
    if (use_replaced()) return open_use() ? Result<bool>(false) : unavailable(path_, "cannot open");
    identity_ = {};
    if (auto alone = check_alone(path_, identity_); !alone) return alone.error();
    const bool known = names_this_file();
    log_ = log_at_path();
    if (known && log_.wal != 0 && log_.shm != 0 && noted_log() == log_) {
      exclusive_ = false;
      settled_ = true;
      return true;
    }
    log_in_the_way_ = known;
    ::flock(use_, LOCK_UN);
    if (::flock(use_, LOCK_EX | LOCK_NB) != 0) return false;
  }
  if (use_replaced()) return open_use() ? Result<bool>(false) : unavailable(path_, "cannot open");
  identity_ = {};
  if (auto alone = check_alone(path_, identity_); !alone) return alone.error();
  const auto noted = noted_log();
  const bool removed_in_order = noted && noted->wal == 0;
  named_ = names_this_file();
  log_whole_ = named_ && noted && (removed_in_order || noted->wal == log_at_path().wal);
  exclusive_ = true;
  return true;
}

Result<void> LockFile::settle(std::uint64_t ceiling, bool voided) {
  identity_ = {};
  if (auto alone = check_alone(path_, identity_); !alone) return alone.error();
  log_ = log_at_path();
  if (log_.wal == 0 || log_.shm == 0) {
    return Error(Errc::kUnavailable, "sqlite store " + path_ +
                                         ": its -wal or -shm file was removed the moment it was "
                                         "made");
  }
  std::string line = expected();
  line.resize(200, '\n');
  // The line comes last, because it makes the other notes valid.
  const bool written =
      (!voided || (reported().clear() && note_number(kFoldedAt, 0))) &&
      note_number(kCeilingAt, ceiling) && note_log(log_) &&
      ::pwrite(use_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
  if (!written) {
    return unavailable(path_, "cannot write " + use_path(path_));
  }
  settled_ = true;
  return {};
}

bool LockFile::share() {
  // flock() does not downgrade in one step: another process may get it exclusively in between.
  if (::flock(use_, LOCK_SH | LOCK_NB) != 0) return false;
  exclusive_ = false;
  return true;
}

void LockFile::leaving() noexcept {
  connected_ = true;
  try {
    if (log_moved()) log_lost_ = true;
  } catch (const std::bad_alloc&) {
    log_lost_ = true;  // Nobody saw that it had not moved.
  }
}

std::uint64_t LockFile::noted_number(off_t at) const {
  char text[24] = {};
  if (::pread(use_, text, 20, at) != 20) return 0;
  return std::strtoull(text, nullptr, 10);
}

bool LockFile::note_number(off_t at, std::uint64_t number) const {
  char text[24];
  const int size = std::snprintf(text, sizeof text, "%020" PRIu64 "\n", number);
  return ::pwrite(use_, text, static_cast<std::size_t>(size), at) == size;
}

std::uint64_t LockFile::noted_ceiling() const { return noted_number(kCeilingAt); }
std::uint64_t LockFile::noted_folded() const { return noted_number(kFoldedAt); }

// A failure of these weakens what an overwritten file can be found out by, and nothing else.
void LockFile::note_ceiling(std::uint64_t ceiling) const {
  if (noted_ceiling() < ceiling) note_number(kCeilingAt, ceiling);
}

void LockFile::note_folded(std::uint64_t ceiling) const {
  if (noted_folded() < ceiling) note_number(kFoldedAt, ceiling);
}

bool LockFile::moved() const {
  FileIdentity now;
  if (!identify(path_, now)) return errno == ENOENT || errno == ENOTDIR;
  return now.inode != identity_.inode || now.device != identity_.device;
}

bool LockFile::log_moved() const { return log_at_path() != log_; }

// Made here, for a file that could not be used after all.
void LockFile::remove_unused_note() {
  struct stat status {};
  if (::flock(use_, LOCK_EX | LOCK_NB) != 0 || use_replaced()) return;
  if (::fstat(use_, &status) == 0 && status.st_size == 0) ::unlink(use_path(path_).c_str());
}

void LockFile::abandon() noexcept {
  // The parent's lock lives on in the parent's descriptor.
  if (use_ >= 0) ::close(use_);
  use_ = -1;
}

LockFile::~LockFile() {
  if (use_ < 0) return;
  try {
    const bool in_order = settled_ && connected_ && !log_lost_ && log_at_path().wal == 0;
    // Another user still shares FILE.use: then the flock() fails and the note of the log stays.
    if (in_order && ::flock(use_, LOCK_EX | LOCK_NB) == 0) note_log({});
    if (made_use_ && !settled_) remove_unused_note();
  } catch (const std::bad_alloc&) {  // FILE.use stays as a process that is killed leaves it.
  }
  ::close(use_);
}

}  // namespace holdfast::stores::sqlite
