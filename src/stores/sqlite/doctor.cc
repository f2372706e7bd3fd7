#include "src/stores/sqlite/doctor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdio>

#include "src/base/writers_only.h"
#include "src/stores/sqlite/file/lock_file.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

using Findings = std::vector<Finding>;

void ok(Findings& findings, std::string topic, std::string what) {
  findings.push_back({Severity::kOk, std::move(topic), std::move(what), {}});
}

void warn(Findings& findings, std::string topic, std::string what, std::string advice) {
  findings.push_back({Severity::kWarning, std::move(topic), std::move(what), std::move(advice)});
}

void problem(Findings& findings, std::string topic, std::string what, std::string advice) {
  findings.push_back({Severity::kProblem, std::move(topic), std::move(what), std::move(advice)});
}

void examine_place(const std::string& path, Findings& findings) {
  const auto system = file_system_at(folder_of(path));
  if (!system) {
    problem(findings, "file system", system.error().message(), "");
  } else if (!system->allowed) {
    problem(findings, "file system", path + " is on " + system->name, "use a local file system");
  } else if (system->overlay) {
    warn(findings, "file system", path + " is on an overlay, as of a container's own root",
         "other containers do not see it, and it goes with the container: use a volume");
  } else {
    ok(findings, "file system", system->name);
  }
  FileIdentity identity;
  if (auto alone = LockFile::check_alone(path, identity); !alone) {
    problem(findings, "links and mounts", alone.error().message(), "");
  } else if (!identity.has_mount) {
    warn(findings, "links and mounts",
         "this kernel does not tell mounts of single files (5.8 does)",
         "do not bind-mount the file by itself");
  } else {
    ok(findings, "links and mounts", "one name, in the folder's own mount");
  }
  struct statvfs space {};
  if (::statvfs(folder_of(path).c_str(), &space) == 0) {
    const std::uint64_t free = std::uint64_t{space.f_bavail} * space.f_frsize;
    const std::string text = std::to_string(free >> 20) + " MiB free";
    if (free < (64U << 20)) {
      warn(findings, "disk space", text, "below 64 MiB: requests fail when it is used up");
    } else {
      ok(findings, "disk space", text);
    }
  }
}

void examine_permissions(const std::string& path, Findings& findings) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return;
  char text[80];
  std::snprintf(text, sizeof text, "uid %u, gid %u, mode %04o", static_cast<unsigned>(file.st_uid),
                static_cast<unsigned>(file.st_gid), static_cast<unsigned>(file.st_mode & 07777U));
  struct stat use {};
  const mode_t mode = file.st_mode & 07777U;
  const bool use_open = ::stat(LockFile::use_path(path).c_str(), &use) == 0 &&
                        (use.st_mode & 0666U & ~base::writers_only(mode)) != 0;
  if ((mode & 0666U & ~base::writers_only(mode)) != 0 || use_open) {
    char advice[200];
    std::snprintf(
        advice, sizeof advice,
        "users who may read it may lock it, and so shut out those who may write it: chmod "
        "%04o the file, its -wal and -shm, and FILE.use",
        static_cast<unsigned>(base::writers_only(mode)));
    warn(findings, "permissions", text, advice);
  } else if ((file.st_mode & S_IWOTH) != 0) {
    warn(findings, "permissions", text,
         "every user of this machine can release and break locks: chmod o-rwx, and use a group");
  } else {
    ok(findings, "permissions", text);
  }
}

std::string answer(Database& database, const char* question) {
  auto found = database.ask(question);
  return found ? *found : found.error().message();
}

void examine_engine(Database& database, Findings& findings) {
  const std::string journal = answer(database, "PRAGMA journal_mode");
  if (journal == "wal") {
    ok(findings, "journal", "WAL, ordinary commits not synced, token blocks synced");
  } else {
    problem(findings, "journal", "mode is " + journal, "PRAGMA journal_mode=WAL, with no users");
  }
  const std::string sound = answer(database, "PRAGMA quick_check(1)");
  if (sound == "ok") {
    ok(findings, "integrity", "quick_check found nothing");
  } else {
    problem(findings, "integrity", sound, "stop the users and move the file away");
  }
  ok(findings, "format", std::to_string(kFormat) + ", SQLite " + sqlite3_libversion());
  const auto tokens = database.load_tokens();
  if (!tokens) {
    problem(findings, "tokens", tokens.error().message(), "");
  } else {
    ok(findings, "tokens",
       "floor " + std::to_string(tokens->floor) + ", reserved up to " +
           std::to_string(tokens->ceiling));
  }
}

void examine_clock(Findings& findings) {
  const auto offset = base::BootClock::now() - base::host_boot_now();
  if (offset > std::chrono::seconds(1) || offset < std::chrono::seconds(-1)) {
    ok(findings, "clock",
       "in a time namespace, " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(offset).count()) +
           " s from the host, which is taken off");
  } else {
    ok(findings, "clock", "boot time of the host; boot " + read_boot_id());
  }
}

}  // namespace

Result<std::vector<Finding>> examine(Database& database, const std::string& wake_trouble) {
  Findings findings;
  examine_place(database.path(), findings);
  examine_permissions(database.path(), findings);
  examine_engine(database, findings);
  examine_clock(findings);
  if (database.moved()) {
    problem(findings, "file", "another file, or another log of it, is at the path now",
            "connect again");
  }
  if (wake_trouble.empty()) {
    ok(findings, "waking", "a socket per client in " + database.path() + ".wake");
  } else {
    warn(findings, "waking", wake_trouble,
         "waiters poll once a second; fix the folder's permissions");
  }
  return findings;
}

Guarantees sqlite_guarantees() {
  using std::chrono_literals::operator""ms;
  using std::chrono_literals::operator""h;
  Guarantees all;
  all.store = "sqlite";
  all.scope = "processes of one host";
  all.fenced = all.fair = all.shared = all.permits = all.upgrade = true;
  all.list = all.values = all.multi = all.survives_restart = true;
  all.watch_every_change = false;
  all.survives_failover = false;  // The file stays on its host.
  all.min_ttl = 100ms;
  all.max_ttl = 24h;
  all.faults = {
      {"holder or waiter killed", Guarantee::kYes, Guarantee::kYes,
       "its lease runs out; what a commit left half-written is rolled back"},
      {"holder paused (SIGSTOP, suspend, swapping)", Guarantee::kYes, Guarantee::kYes,
       "every call after the lease answers lost; what it does without asking, fencing must refuse"},
      {"machine crashes or loses power", Guarantee::kYes, Guarantee::kYes,
       "a new boot voids all leases; tokens start above every block that was reserved and synced"},
      {"wall clock jumps", Guarantee::kYes, Guarantee::kYes,
       "leases count boot time; the wall clock only lifts token floors"},
      {"boot time of a time namespace differs", Guarantee::kYes, Guarantee::kYes,
       "the offset is taken off"},
      {"users with different boot ids", Guarantee::kYes, Guarantee::kYes,
       "kStoreInUse while a user of the other boot is alive; leases kept without a living process "
       "(holdfast acquire) are void then"},
      {"disk full", Guarantee::kYes, Guarantee::kYes,
       "requests fail with kUnavailable, not applied"},
      {"file deleted, moved or replaced", Guarantee::kYes, Guarantee::kYes,
       "holders learn at their next renewal; a new file, and the moved one under its new name, are "
       "refused (kStoreInUse) until they have given up or are past their deadline"},
      {"-wal or -shm removed or replaced", Guarantee::kYes, Guarantee::kYes,
       "the same; leases kept without a living process (holdfast acquire) may be void then"},
      {"folder moved, or file and FILE.use deleted together", Guarantee::kDeclared,
       Guarantee::kDeclared,
       "old holders believe until their next renewal; tokens go on from the wall clock, which must "
       "not have been set back"},
      {"old copy written over the file in place while nobody uses it", Guarantee::kYes,
       Guarantee::kYes,
       "found out by what FILE.use notes; all leases are void, and the client logs it"},
      {"old copy put back together with FILE.use", Guarantee::kDeclared, Guarantee::kYes,
       "leases are as of the copy; tokens go on above the wall clock, if it was not set back"},
      {"disk ignores syncs and loses power", Guarantee::kYes, Guarantee::kDeclared,
       "tokens then start at the wall clock"},
  };
  return all;
}

}  // namespace holdfast::stores::sqlite
