// Each lock has a head: the index of the node of the last accepted write (0: none yet). A writer
// fills a new node with the state after its write. Then it swaps the head from the node that it has
// read to its own. If another writer was faster, it reads again. Nodes are never reused.
#include "lab/resource/resource.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace holdfast::lab {
namespace {

constexpr std::uint64_t kMagic = 0x31534552424c4648ULL;
constexpr std::uint32_t kMostLocks = 4096;

struct Node {
  Token highest{};  // Exclusive ones.
  Id of{};          // The owner of it.
  std::uint64_t sequence = 0;
};

struct Header {
  std::uint64_t magic = kMagic;
  std::atomic<std::uint64_t> taken{1};  // Used nodes; the first one means "none".
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> heads[kMostLocks]{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

constexpr std::size_t kSize = sizeof(Header) + (Resource::kRoom + 1) * sizeof(Node);

Header& header(void* memory) { return *static_cast<Header*>(memory); }
Node* nodes(void* memory) {
  return reinterpret_cast<Node*>(static_cast<std::byte*>(memory) + sizeof(Header));
}

bool is_stale(const Node& now, ModeKind mode, Token token, const Id& id) {
  if (mode == ModeKind::kPermits || token == Token{} || now.highest == Token{}) return false;
  if (mode == ModeKind::kShared) return token <= now.highest;
  return token < now.highest || (token == now.highest && id != now.of);
}

Error trouble(const std::string& what, const std::string& path) {
  return {Errc::kUnavailable,
          "resource: cannot " + what + " " + path + ": " + std::strerror(errno)};
}

}  // namespace

Result<Resource> Resource::create(const std::string& path, std::uint32_t locks) {
  if (locks > kMostLocks) {
    return Error(Errc::kInvalidArgument, "resource: at most " + std::to_string(kMostLocks) +
                                             " locks in a run, not " + std::to_string(locks));
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return trouble("make", path);
  // A sparse file, because a run uses only a little of its room.
  const bool sized = ::ftruncate(fd, static_cast<off_t>(kSize)) == 0;
  ::close(fd);
  if (!sized) return trouble("make room in", path);
  return map(path, kSize, /*fresh=*/true);
}

Result<Resource> Resource::open(const std::string& path) { return map(path, kSize, false); }

Result<Resource> Resource::map(const std::string& path, std::size_t size, bool fresh) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return trouble("open", path);
  struct stat info {};
  const bool whole = ::fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(size);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) return trouble("map", path);
  Resource resource(memory, size);
  if (fresh) new (memory) Header;
  if (!whole || header(memory).magic != kMagic) {
    return Error(Errc::kCorruptState, "resource: not the resource of a run: " + path);
  }
  return resource;
}

Resource::Resource(Resource&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}

Resource::~Resource() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

WriteAnswer Resource::write(std::uint32_t lock, ModeKind mode, Token token, const Id& id) {
  Header& head = header(memory_);
  std::atomic<std::uint64_t>& last = head.heads[lock];
  std::uint64_t mine = 0;
  for (std::uint64_t seen = last.load(std::memory_order_acquire);;) {
    const Node& now = nodes(memory_)[seen];
    if (is_stale(now, mode, token, id)) {
      head.refused.fetch_add(1, std::memory_order_relaxed);
      return {false, now.highest, 0};
    }
    if (mine == 0) mine = head.taken.fetch_add(1, std::memory_order_relaxed);
    if (mine > kRoom) throw std::runtime_error("resource: no room for another write");
    Node& next = nodes(memory_)[mine];
    next = now;
    ++next.sequence;
    if (mode == ModeKind::kExclusive && token != Token{}) {
      next.highest = token;
      next.of = id;
    }
    const Token before = now.highest;
    if (last.compare_exchange_weak(seen, mine, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return {true, before, next.sequence};
    }
  }
}

std::uint64_t Resource::refused() const {
  return header(memory_).refused.load(std::memory_order_relaxed);
}

}  // namespace holdfast::lab
