// A database seen through mounts, in a mount namespace of the test's own. Needs root.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

namespace fs = std::filesystem;

// Runs `work` in a child with mounts of its own; what it says went wrong, or nothing.
std::string in_own_mounts(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said = "cannot make a mount namespace";
    if (::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      said = work();
    }
    const bool told = ::write(ends[1], said.data(), said.size()) >= 0;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char text[4096];
  for (ssize_t size = 0; (size = ::read(ends[0], text, sizeof text)) > 0;) {
    said.append(text, static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) said += " (the child died)";
  return said;
}

class MountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: needs root to mount";
    const std::string why = in_own_mounts([] { return std::string(); });
    if (!why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
  }
};

TEST_F(MountTest, AFileMountedByItselfIsRefused) {
  const TempFolder folder;
  const std::string said = in_own_mounts([&]() -> std::string {
    auto inside = TestClient::open(folder / "real/locks.db");
    if (!inside) return inside.error().message();
    fs::create_directories(folder / "other");
    std::ofstream(folder / "other/locks.db").close();
    if (::mount((folder / "real/locks.db").c_str(), (folder / "other/locks.db").c_str(), nullptr,
                MS_BIND, nullptr) != 0) {
      return "cannot bind-mount";
    }
    const auto opened = TestClient::open(folder / "other/locks.db");
    if (opened) return "it was accepted, with a log of its own";
    if (opened.error().code() != Errc::kUnsupported) return opened.error().message();
    if (opened.error().message().find("mount the folder") == std::string::npos) {
      return "no advice: " + opened.error().message();
    }
    return fs::exists(folder / "other/locks.db-wal") ? "a second log was made" : "";
  });
  EXPECT_EQ(said, "");
}

TEST_F(MountTest, AFolderMountedElsewhereHasTheSameLocks) {
  const TempFolder folder;
  const std::string said = in_own_mounts([&]() -> std::string {
    auto direct = TestClient::open(folder / "real/locks.db");
    if (!direct) return direct.error().message();
    fs::create_directories(folder / "other");
    if (::mount((folder / "real").c_str(), (folder / "other").c_str(), nullptr, MS_BIND, nullptr) !=
        0) {
      return "cannot bind-mount";
    }
    auto mounted = TestClient::open(folder / "other/locks.db");
    if (!mounted) return mounted.error().message();
    const auto held = request_for("a");
    const auto waiting = request_for("a");
    if (!(*direct)->acquire(held)) return "no grant";
    const auto queued = (*mounted)->acquire(waiting);
    if (!queued || queued->status != AcquisitionStatus::kWaiting) return "two holders";
    if (!(*direct)->release("a", held.id)) return "no release";
    const auto push = (*mounted)->pushes.wait_for(waiting.id);
    return push && push->kind == port::Push::Kind::kGranted ? "" : "the waiter was not woken";
  });
  EXPECT_EQ(said, "");
}

TEST_F(MountTest, AListedFileSystemWorksAndAReadOnlyOneSaysSo) {
  const TempFolder folder;
  const std::string said = in_own_mounts([&]() -> std::string {
    if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=8m") != 0) return "no tmpfs";
    {
      auto client = TestClient::open(folder / "locks.db");
      if (!client) return client.error().message();
      if (!(*client)->acquire(request_for("a"))) return "no grant";
    }
    if (::mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return "cannot remount";
    }
    const auto opened = TestClient::open(folder / "locks.db");
    if (opened) return "opened on a read-only file system";
    return opened.error().code() == Errc::kPermissionDenied ? "" : opened.error().message();
  });
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
