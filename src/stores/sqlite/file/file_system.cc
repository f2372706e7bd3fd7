#include "src/stores/sqlite/file/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace holdfast::stores::sqlite {
namespace {

struct Entry {
  std::uint64_t magic;
  const char* name;
  bool allowed;
};

// Numbers from statfs(2) and the kernel's linux/magic.h.
constexpr std::array<Entry, 30> kFileSystems{{
    {0xef53, "ext2/ext3/ext4", true}, {0x58465342, "xfs", true},
    {0x9123683e, "btrfs", true},      {0x01021994, "tmpfs", true},
    {0x794c7630, "overlay", true},    {0xf2f52010, "f2fs", true},
    {0x2fc12fc1, "zfs", true},        {0x858458f6, "ramfs", true},
    {0xca451a4e, "bcachefs", true},   {0x3153464a, "jfs", true},
    {0x52654973, "reiserfs", true},   {0x6969, "nfs", false},
    {0xff534d42, "cifs", false},      {0xfe534d42, "smb2", false},
    {0x517b, "smb", false},           {0x65735546, "fuse", false},
    {0x01021997, "9p", false},        {0x786f4256, "vboxsf", false},
    {0x00c36400, "ceph", false},      {0x0bd00bd0, "lustre", false},
    {0x01161970, "gfs2", false},      {0x7461636f, "ocfs2", false},
    {0x5346414f, "afs", false},       {0x73757245, "coda", false},
    {0x47504653, "gpfs", false},      {0x9fa0, "proc", false},
    {0x62656572, "sysfs", false},     {0x63677270, "cgroup2", false},
    {0x4d44, "vfat", false},          {0x5346544e, "ntfs", false},
}};

}  // namespace

FileSystem file_system_of(std::uint64_t magic) {
  const auto* found = std::find_if(kFileSystems.begin(), kFileSystems.end(),
                                   [&](const Entry& entry) { return entry.magic == magic; });
  if (found != kFileSystems.end()) {
    return {found->name, found->allowed, magic == 0x794c7630};
  }
  char text[40];
  std::snprintf(text, sizeof text, "type 0x%llx", static_cast<unsigned long long>(magic));
  return {text, false, false};
}

Result<FileSystem> file_system_at(const std::string& directory) {
  struct statfs status {};
  if (::statfs(directory.c_str(), &status) != 0) {
    return Error(Errc::kUnavailable,
                 "sqlite store: cannot look at " + directory + ": " + std::strerror(errno));
  }
  // f_type is signed on some architectures.
  return file_system_of(static_cast<std::uint32_t>(status.f_type));
}

int log_pages_at(const std::string& directory) {
  // SQLite's own default of 1,000 pages syncs twice every thousand commits or so.
  constexpr std::uint64_t kLogPages = 4000;
  constexpr std::uint64_t kFewestLogPages = 16;
  constexpr std::uint64_t kPageSize = 4096;
  constexpr std::uint64_t kLogShareOfDisk = 8;
  struct statvfs space {};
  std::uint64_t pages = kLogPages;
  if (::statvfs(directory.c_str(), &space) == 0 && space.f_blocks > 0) {
    pages = space.f_blocks * space.f_frsize / kLogShareOfDisk / kPageSize;
  }
  return static_cast<int>(std::clamp(pages, kFewestLogPages, kLogPages));
}

bool identify(const std::string& path, FileIdentity& out) {
  struct statx status {};
  const unsigned mask = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, mask, &status) !=
      0) {
    return false;
  }
  out.device = (std::uint64_t{status.stx_dev_major} << 32) | status.stx_dev_minor;
  out.inode = status.stx_ino;
  out.birth = (status.stx_mask & STATX_BTIME) != 0
                  ? status.stx_btime.tv_sec * 1'000'000'000 + status.stx_btime.tv_nsec
                  : 0;
  out.has_mount = (status.stx_mask & STATX_MNT_ID) != 0;
  out.mount = out.has_mount ? status.stx_mnt_id : 0;
  out.links = status.stx_nlink;
  out.mode = status.stx_mode;
  out.uid = status.stx_uid;
  out.gid = status.stx_gid;
  return true;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    struct stat status {};
    if (::stat(part.c_str(), &status) != 0) {
      if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return false;
    }
    if (slash == std::string::npos) return true;
  }
}

}  // namespace holdfast::stores::sqlite
