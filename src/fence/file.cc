// The record of a resource is four lines:
//
//   holdfast-fence 1
//   resource orders/42                             percent-encoded
//   token 0000000000.00000000000000000042
//   sum 0123456789abcdef                           FNV-1a of what stands above
//
// It is replaced as a whole: written beside it, synced, renamed. The writer holds flock(2) on a
// second file that never changes. A lock on the record itself would be one on its predecessor after
// the rename.
#include "holdfast/fence/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "holdfast/detail/percent.h"
#include "holdfast/fence/fence.h"
#include "src/base/fnv.h"
#include "src/base/writers_only.h"

namespace holdfast::fence {
namespace {

constexpr std::string_view kHead = "holdfast-fence ";
constexpr std::string_view kForm = "1";
constexpr std::size_t kLargest = 4096;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Error failed(const std::string& doing, const std::string& path, int why) {
  const bool forbidden = why == EACCES || why == EPERM || why == EROFS;
  const bool odd =
      why == ENOENT || why == ELOOP || why == ENOTDIR || why == EISDIR || why == ENAMETOOLONG;
  const Errc code = forbidden ? Errc::kPermissionDenied
                    : odd     ? Errc::kInvalidArgument
                              : Errc::kUnavailable;
  std::string text = "cannot " + doing + " " + path + ": " + std::strerror(why);
  if (why == ELOOP) text += " (a symbolic link: name the file itself)";
  return {code, text};
}

std::string sum_of(std::string_view text) {
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(base::fnv1a(text)));
  return out;
}

bool stays(char c) { return detail::is_visible(c) && c != '%'; }

std::string encode(const std::string& resource, const Token& token) {
  std::string text(kHead);
  text += std::string(kForm) + "\nresource " + detail::percent_encode(resource, stays) +
          "\ntoken " + token.to_string() + "\n";
  return text + "sum " + sum_of(text) + "\n";
}

// The text between `key` and the end of the line; the line is taken off.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view key) {
  const auto end = text.find('\n');
  if (end == text.npos || text.substr(0, key.size()) != key) return std::nullopt;
  const std::string_view value = text.substr(key.size(), end - key.size());
  text.remove_prefix(end + 1);
  return value;
}

Result<Token> decode(std::string_view all, const std::string& path, const std::string& resource) {
  const Error damaged(Errc::kCorruptState,
                      path +
                          " is not a fence's record, or is damaged: nobody is admitted. Look at "
                          "it, and delete it only when no holder with an old token can be left");
  std::string_view text = all;
  const auto form = take_line(text, kHead);
  if (!form) return damaged;
  if (*form != kForm) {
    return Error(Errc::kVersionMismatch, path +
                                             " was written by a later version (its form is not " +
                                             std::string(kForm) + "): upgrade");
  }
  const auto name = take_line(text, "resource ");
  const auto token_text = name ? take_line(text, "token ") : std::nullopt;
  if (!token_text) return damaged;
  const std::size_t summed = all.size() - text.size();
  const auto sum = take_line(text, "sum ");
  const auto token = read_token(*token_text);
  const auto decoded = detail::percent_decode(*name, detail::is_visible);
  if (!sum || !text.empty() || *sum != sum_of(all.substr(0, summed)) || !token || !decoded) {
    return damaged;
  }
  if (*decoded != resource) {
    return Error(Errc::kInvalidArgument, path + " is the record of another resource, " +
                                             std::string(*name) + ": every resource has its own");
  }
  return *token;
}

Result<void> check_kind(mode_t mode, const std::string& path) {
  if (S_ISREG(mode)) return {};
  if (S_ISLNK(mode)) return failed("open", path, ELOOP);
  return Error(Errc::kInvalidArgument,
               path + (S_ISDIR(mode) ? " is a directory" : " is not a regular file") +
                   ": a record is kept in a file of its own");
}

// nullopt: there is no file.
Result<std::optional<Token>> read_record(const std::string& path, const std::string& resource) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return std::optional<Token>();
  if (file.get() < 0) return failed("open", path, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return failed("look at", path, errno);
  if (auto kind = check_kind(about.st_mode, path); !kind) return kind.error();
  std::string text;
  char part[kLargest];
  for (;;) {
    const ssize_t n = ::read(file.get(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read", path, errno);
    if (n == 0 || text.size() > kLargest) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  auto token = decode(text, path, resource);
  if (!token) return token.error();
  return std::optional(*token);
}

Result<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The caller holds the lock. So the new file can have the same name each time, and the next writer
// overwrites the litter of a killed one.
Result<void> replace(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  const Descriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0) return failed("open", fresh, errno);
  if (auto written = write_all(file.get(), text, fresh); !written) return written;
  if (::fsync(file.get()) != 0) return failed("sync", fresh, errno);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return failed("replace", path, errno);
  return {};
}

Result<void> sync_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) return failed("sync", folder, errno);
  return {};
}

Result<void> take_flock(int fd, int operation, const std::string& path,
                        std::optional<std::chrono::milliseconds> wait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetween{10};
  const auto began = Clock::now();
  while (::flock(fd, operation | (wait ? LOCK_NB : 0)) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return failed("lock", path, errno);
    const auto waited = Clock::now() - began;
    if (waited >= *wait) {
      return Error(Errc::kTimedOut, "others were using the resource all the time (" + path +
                                        " is locked): nothing was checked. Try later");
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(kBetween, *wait - waited));
  }
  return {};
}

}  // namespace

Result<FileGuard> FileGuard::enter(const std::string& path, const std::string& resource,
                                   const Token& token, const Mode& mode,
                                   std::optional<std::chrono::milliseconds> wait) {
  if (auto named = check_resource(resource); !named) return named.error();
  // Before a file is made: what is refused without a record leaves none behind.
  if (auto sound = admit(Token{}, token, mode); !sound) return sound.error();
  struct stat about {};
  if (::lstat(path.c_str(), &about) == 0) {
    if (auto kind = check_kind(about.st_mode, path); !kind) return kind.error();
  }
  const std::string lock_path = path + ".lock";
  Descriptor lock(base::open_for_writers(lock_path.c_str(), /*exclusive=*/false));
  if (lock.get() < 0) return failed("open", lock_path, errno);
  const bool shared = mode.kind() == Mode::Kind::kShared;
  if (auto locked = take_flock(lock.get(), shared ? LOCK_SH : LOCK_EX, lock_path, wait); !locked) {
    return locked.error();
  }
  const auto recorded = read_record(path, resource);
  if (!recorded) return recorded.error();
  const auto admitted = admit(recorded->value_or(Token{}), token, mode);
  if (!admitted) return admitted.error();
  if (!shared && *recorded != *admitted) {
    auto written = replace(path, encode(resource, *admitted));
    if (!written) return written.error();
  }
  // Synced even if the token was there already: the process that renamed the file may have died
  // before its sync.
  if (auto synced = shared ? Result<void>() : sync_folder(path); !synced) return synced.error();
  return FileGuard(lock.release());
}

Result<std::optional<Token>> FileGuard::recorded(const std::string& path,
                                                 const std::string& resource) {
  return read_record(path, resource);
}

std::string FileGuard::path_in(const std::string& folder, const std::string& resource) {
  constexpr std::size_t kLongest = 200;  // With what is put behind it, below 255 of a file's name.
  std::string name =
      detail::percent_encode(resource, [](char c) { return stays(c) && c != '/' && c != '~'; });
  if (!name.empty() && name.front() == '.') name.replace(0, 1, "%2E");
  if (name.size() > kLongest) name = name.substr(0, kLongest - 20) + "~" + sum_of(name);
  return folder + "/" + name + ".fence";
}

FileGuard::FileGuard(FileGuard&& other) noexcept : lock_(std::exchange(other.lock_, -1)) {}

FileGuard& FileGuard::operator=(FileGuard&& other) noexcept {
  if (this != &other) {
    if (lock_ >= 0) ::close(lock_);
    lock_ = std::exchange(other.lock_, -1);
  }
  return *this;
}

FileGuard::~FileGuard() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace holdfast::fence
