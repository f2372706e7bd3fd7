#include "src/stores/sqlite/file/wake.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/fnv.h"
#include "src/base/random.h"
#include "src/stores/sqlite/file/file_system.h"

namespace holdfast::stores::sqlite {
namespace {

constexpr char kMagic[4] = {'H', 'F', 'W', '1'};
constexpr std::size_t kNameSize = 16;
constexpr std::size_t kMaxDrained = 4096;

struct Datagram {
  char magic[4];
  char padding[4];
  std::uint64_t high;
  std::uint64_t low;
};
static_assert(sizeof(Datagram) == 24);

// v<16 digits of the value>-<the socket's name>
constexpr std::size_t kMarkHead = 2 + kNameSize;

bool is_name(std::string_view name) {
  return name.size() == kNameSize && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Through the folder's descriptor, since a socket's path may have 107 bytes only.
sockaddr_un address_of(int folder, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.*s", folder,
                static_cast<int>(name.size()), name.data());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

bool is_mark(std::string_view name) {
  return name.size() == kMarkHead + kNameSize && name[0] == 'v' && name[kMarkHead - 1] == '-' &&
         is_name(name.substr(1, kNameSize)) && is_name(name.substr(kMarkHead));
}

template <typename Each>
void for_each_entry(int folder_descriptor, const Each& each) {
  const int listing = ::openat(folder_descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) return;
  DIR* const folder = ::fdopendir(listing);
  if (folder == nullptr) {
    ::close(listing);
    return;
  }
  for (const dirent* entry = ::readdir(folder); entry != nullptr; entry = ::readdir(folder)) {
    if (!each(entry->d_name)) break;
  }
  ::closedir(folder);
}

// The folder has the database's mode. Users who may read it may search it, too.
mode_t folder_mode(std::uint32_t file_mode) {
  return (file_mode & 0666U) | ((file_mode & 0444U) >> 2);
}

}  // namespace

std::unique_ptr<WakeSocket> WakeSocket::open(const std::string& database, std::string& why) {
  const auto fail = [&why](const char* what) {
    why = std::string(what) + ": " + std::strerror(errno);
    return nullptr;
  };
  const std::string folder = folder_of(database);
  FileIdentity file;
  if (!identify(database, file)) return fail("cannot look at the database");
  if (::mkdir(folder.c_str(), 0700) == 0) {
    [[maybe_unused]] int ignored = ::lchown(folder.c_str(), file.uid, file.gid);
    ignored = ::chmod(folder.c_str(), folder_mode(file.mode));
  } else if (errno != EEXIST) {
    return fail("cannot make the folder");
  }

  std::unique_ptr<WakeSocket> made(new WakeSocket);
  made->folder_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (made->folder_ < 0) return fail("cannot open the folder");
  made->socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made->socket_ < 0) return fail("cannot make a socket");
  const base::Random128 random = base::random_128();
  const std::string name = base::to_hex(random.high, random.low).substr(0, kNameSize);
  const sockaddr_un address = address_of(made->folder_, name);
  if (::bind(made->socket_, generic(address), sizeof address) != 0) return fail("cannot bind");
  made->name_ = name;
  [[maybe_unused]] int ignored = ::chmod(address.sun_path, file.mode & 0666U);
  ignored = ::lchown(address.sun_path, static_cast<uid_t>(-1), file.gid);
  made->sweep();
  return made;
}

// The socket of a dead process refuses, so its file goes. A socket made just now may not be
// listening yet, so it stays.
void WakeSocket::sweep() const {
  const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(base::wall_now().time_since_epoch());
  int left = 256;
  for_each_entry(folder_, [&](const char* entry) {
    struct stat status {};
    if (is_mark(entry)) {
      const char* const socket = entry + kMarkHead;
      if (::fstatat(folder_, socket, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        ::unlinkat(folder_, entry, 0);
      }
      return --left > 0;
    }
    if (!is_name(entry) || name_ == entry) return true;
    --left;
    if (::fstatat(folder_, entry, &status, AT_SYMLINK_NOFOLLOW) != 0) return left > 0;
    if (!S_ISSOCK(status.st_mode) || now.count() - status.st_ctime < 10) return left > 0;
    const sockaddr_un address = address_of(folder_, entry);
    if (::connect(probe, generic(address), sizeof address) != 0 && errno == ECONNREFUSED) {
      ::unlinkat(folder_, entry, 0);
    }
    return left > 0;
  });
  if (probe >= 0) ::close(probe);
}

bool WakeSocket::send(std::string_view name, machine::AcquisitionId id) const {
  if (!is_name(name)) return false;
  Datagram datagram{};
  std::memcpy(datagram.magic, kMagic, sizeof kMagic);
  datagram.high = id.high;
  datagram.low = id.low;
  const sockaddr_un address = address_of(folder_, name);
  return ::sendto(socket_, &datagram, sizeof datagram, MSG_NOSIGNAL | MSG_DONTWAIT,
                  generic(address), sizeof address) == sizeof datagram;
}

std::vector<machine::AcquisitionId> WakeSocket::drain() const {
  std::vector<machine::AcquisitionId> ids;
  Datagram datagram{};
  while (ids.size() < kMaxDrained) {
    const ssize_t size = ::recv(socket_, &datagram, sizeof datagram, MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) break;
    if (size != sizeof datagram || std::memcmp(datagram.magic, kMagic, sizeof kMagic) != 0)
      continue;
    ids.push_back({datagram.high, datagram.low});
  }
  return ids;
}

std::uint64_t WakeSocket::hash_of(std::string_view name) { return base::fnv1a(name); }

std::optional<std::uint64_t> WakeSocket::value_of(machine::AcquisitionId hint) {
  if (hint.high != kValueHint) return std::nullopt;
  return hint.low;
}

std::string WakeSocket::mark_of(std::uint64_t value) const {
  return "v" + base::to_hex(value, 0).substr(0, kNameSize) + "-" + name_;
}

void WakeSocket::listen(std::uint64_t value) const {
  const int mark =
      ::openat(folder_, mark_of(value).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
  if (mark >= 0) ::close(mark);
}

void WakeSocket::forget(std::uint64_t value) const {
  ::unlinkat(folder_, mark_of(value).c_str(), 0);
}

void WakeSocket::tell(std::uint64_t value) const {
  const std::string mine = mark_of(value);
  const std::string head = mine.substr(0, kMarkHead);
  for_each_entry(folder_, [&](const char* entry) {
    const std::string_view mark = entry;
    if (!mark.starts_with(head) || !is_mark(mark) || mark == mine) return true;
    if (!send(mark.substr(kMarkHead), hint_of(value)) &&
        (errno == ECONNREFUSED || errno == ENOENT)) {
      ::unlinkat(folder_, entry, 0);  // Its process is dead.
    }
    return true;
  });
}

void WakeSocket::abandon() noexcept {
  if (socket_ >= 0) ::close(socket_);
  if (folder_ >= 0) ::close(folder_);
  socket_ = folder_ = -1;
}

WakeSocket::~WakeSocket() {
  if (folder_ >= 0 && !name_.empty()) ::unlinkat(folder_, name_.c_str(), 0);
  if (socket_ >= 0) ::close(socket_);
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace holdfast::stores::sqlite
