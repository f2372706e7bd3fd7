#include "src/server/journal/folder_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "holdfast/detail/number.h"
#include "src/stores/sqlite/file/file_system.h"

namespace holdfast::server {
namespace {

constexpr std::string_view kFirst = "holdfast-journal 1\n";
constexpr std::size_t kMostBytes = 1'024;

Error failed(const std::string& path, const char* what) {
  const int code = errno;
  return {code == EACCES || code == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
          "journal " + path + ": cannot " + what + ": " + std::strerror(code)};
}

// "name value\n", off the front.
std::optional<std::string_view> take(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != ' ') {
    return std::nullopt;
  }
  text.remove_prefix(name.size() + 1);
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  const std::string_view value = text.substr(0, end);
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

std::string FolderIdentity::text() const {
  std::string all = std::string(kFirst) + "id " + id + "\nterm " + term + "\nnext " + next +
                    "\nclosed " + (closed ? "yes" : "no") + "\nrestored " +
                    (restored ? "yes" : "no") + "\ninode " + std::to_string(inode) + "\nbirth " +
                    std::to_string(birth) + "\n";
  // Earlier versions ignore what follows.
  if (restored) {
    all += "waited_ms " + std::to_string(wait.waited.count()) + "\nsince " +
           std::to_string(wait.since) + "\nboot " + boot + "\nnoted_us " +
           std::to_string(noted.count()) + "\n";
  }
  return all;
}

namespace {

// Without a whole note, as in a file of an earlier version, the wait begins anew.
void parse_wait(std::string_view text, FolderIdentity& into) {
  using Number = std::int64_t;
  const auto waited = detail::parse_number<Number>(take(text, "waited_ms").value_or(""));
  const auto since = detail::parse_number<Number>(take(text, "since").value_or(""));
  const auto boot = take(text, "boot");
  const auto noted = detail::parse_number<Number>(take(text, "noted_us").value_or(""));
  if (!waited || *waited < 0 || !since || !boot || !noted) return;
  into.wait = {std::chrono::milliseconds(*waited), *since};
  into.boot = *boot;
  into.noted = std::chrono::microseconds(*noted);
}

// The last line of journal.id: which file it was written to.
std::string line_of_file(const std::string& path) {
  stores::sqlite::FileIdentity file;
  if (!stores::sqlite::identify(path, file)) return {};
  return "file " + std::to_string(file.inode) + ' ' + std::to_string(file.birth) + '\n';
}

}  // namespace

std::optional<FolderIdentity> FolderIdentity::parse(std::string_view text) {
  if (!text.starts_with(kFirst)) return std::nullopt;
  text.remove_prefix(kFirst.size());
  const auto id = take(text, "id");
  const auto term = take(text, "term");
  const auto next = take(text, "next");
  const auto closed = take(text, "closed");
  const auto restored = take(text, "restored");
  const auto inode = detail::parse_number<std::uint64_t>(take(text, "inode").value_or(""));
  const auto birth = detail::parse_number<std::int64_t>(take(text, "birth").value_or(""));
  if (!id || id->empty() || !term || !next || !closed || !restored || !inode || !birth) {
    return std::nullopt;
  }
  FolderIdentity found{.id = std::string(*id),
                       .term = std::string(*term),
                       .next = std::string(*next),
                       .closed = *closed == "yes",
                       .restored = *restored == "yes",
                       .inode = *inode,
                       .birth = *birth};
  parse_wait(text, found);
  return found;
}

Result<std::optional<FolderIdentity>> FolderIdentity::read(const std::string& folder) {
  const std::string path = folder + "/journal.id";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) return std::optional<FolderIdentity>();
  if (file < 0) return failed(path, "open it");
  char bytes[kMostBytes];
  const ssize_t size = ::read(file, bytes, sizeof bytes);
  const Error error = failed(path, "read it");
  ::close(file);
  if (size < 0) return error;
  const std::string_view text(bytes, static_cast<std::size_t>(size));
  if (auto parsed = parse(text)) {
    const std::size_t line = text.rfind("\nfile ");  // Earlier versions wrote none.
    parsed->overwritten = line != text.npos && text.substr(line + 1) != line_of_file(path);
    return parsed;
  }
  return Error(Errc::kCorruptState,
               "journal " + path + ": it is damaged. If " + folder +
                   "/journal.db is the newest one, remove journal.id; the server then treats the "
                   "journal as a restored copy");
}

Result<void> FolderIdentity::write(const std::string& folder) const {
  const std::string path = folder + "/journal.id";
  const std::string fresh = path + ".new";
  const int file =
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return failed(fresh, "make it");
  const std::string bytes = text() + line_of_file(fresh);
  const bool written =
      ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::fsync(file) == 0;
  const Error error = failed(fresh, "write it");
  ::close(file);
  if (!written) return error;
  if (::rename(fresh.c_str(), path.c_str()) != 0) return failed(path, "replace it");
  const int above = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (above < 0) return failed(folder, "open it");
  const bool synced = ::fsync(above) == 0;
  const Error unsynced = failed(folder, "sync it");
  ::close(above);
  if (!synced) return unsynced;
  return {};
}

}  // namespace holdfast::server
