#include "src/stores/sqlite/sql.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace holdfast::stores::sqlite {
namespace {

std::string user_name(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(4096);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return std::string(found->pw_name) + " (uid " + std::to_string(uid) + ")";
  }
  return "uid " + std::to_string(uid);
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

int Statement::prepare(sqlite3* db, std::string_view text) {
  finalize();
  code_ = sqlite3_prepare_v3(db, text.data(), static_cast<int>(text.size()),
                             SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  return code_;
}

void Statement::finalize() {
  sqlite3_finalize(handle_);
  handle_ = nullptr;
}

Statement& Statement::bind(int at, std::int64_t value) {
  sqlite3_bind_int64(handle_, at, value);
  return *this;
}

Statement& Statement::bind(int at, std::string_view blob) {
  // A null pointer would be NULL, not the empty blob.
  const char* data = blob.data() == nullptr ? "" : blob.data();
  sqlite3_bind_blob(handle_, at, data, static_cast<int>(blob.size()), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int at, const machine::AcquisitionId& id) {
  static_assert(sizeof(id) == 16 && offsetof(machine::AcquisitionId, low) == 8);
  if (!id) return bind_null(at);
  sqlite3_bind_blob(handle_, at, &id, sizeof id, SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind_text(int at, std::string_view text) {
  sqlite3_bind_text(handle_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind_null(int at) {
  sqlite3_bind_null(handle_, at);
  return *this;
}

int Statement::run() {
  int code = step();
  while (code == SQLITE_ROW) code = step();
  sqlite3_reset(handle_);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

std::string_view Statement::blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::string_view Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

machine::AcquisitionId Statement::id(int column) const {
  const std::string_view bytes = blob(column);
  machine::AcquisitionId id;
  if (bytes.size() != 16) return id;
  std::memcpy(&id.high, bytes.data(), 8);
  std::memcpy(&id.low, bytes.data() + 8, 8);
  return id;
}

Error permission_error(const std::string& path, const std::string& what,
                       const std::string& refused) {
  struct stat status {};
  std::string looked_at = refused;
  // A path that does not exist, or cannot be looked at, fails for the sake of a folder above it.
  while (::stat(looked_at.c_str(), &status) != 0 && looked_at != "/") {
    looked_at = parent_of(looked_at);
  }
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777U));
  return {Errc::kPermissionDenied,
          "sqlite store " + path + ": " + what + "; " + looked_at + " belongs to " +
              user_name(status.st_uid) + " with mode " + mode + ", and this process runs as " +
              user_name(::geteuid()) +
              ". All users of a lock file need to read and write it, its -wal, -shm and .use "
              "files and their folder: give them a common group (folder 2770, files 0660), or use "
              "another file"};
}

namespace {

// Finds the file that this process may not read and write, as SQLite does not name it. Empty: none.
std::string refused_file(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::string name = path + suffix;
    if (::access(name.c_str(), R_OK | W_OK) != 0 && errno != ENOENT) return name;
  }
  return {};
}

}  // namespace

Error sql_error(int code, sqlite3* db, const std::string& path) {
  const std::string text = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const std::string where = "sqlite store " + path + ": " + text;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Errc::kUnavailable,
              "sqlite store " + path + ": other processes kept the file busy until the deadline"};
    case SQLITE_FULL:
      return {Errc::kUnavailable, where + "; the disk or the quota is full: make room"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Errc::kCorruptState,
              where +
                  "; the file is damaged or no lock file: stop its users, move it away (tokens "
                  "go on from the wall clock) and look at it"};
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN: {
      const std::string refused = refused_file(path);
      if (!refused.empty()) return permission_error(path, text, refused);
      // None of the files: then it is the place where one was to be made.
      if ((code & 0xff) != SQLITE_CANTOPEN) return permission_error(path, text, parent_of(path));
      return {Errc::kUnavailable, where};
    }
    default: return {Errc::kUnavailable, where + " (code " + std::to_string(code) + ")"};
  }
}

}  // namespace holdfast::stores::sqlite
