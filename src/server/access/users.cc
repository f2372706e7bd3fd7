#include "src/server/access/users.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/server/access/password.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kLargestFile = std::size_t{4} << 20U;
constexpr std::size_t kLongestUser = 64;
// Between the name of a lock and those of its inner locks.
constexpr std::string_view kInner = "/../";

constexpr std::pair<std::string_view, Right> kRights[] = {
    {"observe", Right::kObserve}, {"acquire", Right::kAcquire}, {"break", Right::kBreak}};

bool covers(const User::Grant& grant, std::string_view lock) {
  if (!lock.starts_with(grant.name)) return false;
  return grant.begins || lock.size() == grant.name.size() ||
         lock.substr(grant.name.size()).starts_with(kInner);
}

// nullopt: not a word of a right.
std::optional<Right> right_of(std::string_view word) {
  const auto* const found = std::find_if(std::begin(kRights), std::end(kRights),
                                         [&](const auto& each) { return each.first == word; });
  return found == std::end(kRights) ? std::nullopt : std::optional(found->second);
}

// The reader of one line. `why` stays empty while all is well.
class Line {
 public:
  explicit Line(std::string_view text) : words_{std::string(text)} {}

  std::shared_ptr<User> read() {
    auto user = std::make_shared<User>();
    if (!(words_ >> user->name) || user->name.starts_with('#')) return nullptr;
    const bool fine = std::all_of(user->name.begin(), user->name.end(), [](unsigned char c) {
      return c > ' ' && c < 0x7f && c != ':' && c != '@';
    });
    if (!fine || user->name.size() > kLongestUser) {
      spoil("a user's name has 1 to 64 visible characters, and neither ':' nor '@'");
    }
    for (std::string word; why_.empty() && words_ >> word && !word.starts_with('#');) {
      take(word, *user);
    }
    if (why_.empty() && user->passwords.empty()) {
      spoil("user '" + user->name + "' has no password: 'holdfast server password' makes one");
    }
    return user;
  }
  const std::string& why() const { return why_; }

 private:
  void spoil(std::string why) { why_ = std::move(why); }

  void take(const std::string& word, User& user) {
    const std::size_t colon = word.find(':');
    const std::string key = word.substr(0, colon);
    const std::string value = colon == word.npos ? "" : word.substr(colon + 1);
    if (word == "admin") {
      user.admin = true;
      return;
    }
    if (key == "password") return take_password(value, user);
    if (const auto right = right_of(key)) return take_right(*right, value, user);
    if (key == "connections") return take_number(key, value, user.connections);
    if (key == "rate") return take_number(key, value, user.rate);
    spoil(colon == word.npos ? "a word has no ':', as in acquire:orders/*"
                             : "'" + key +
                                   ":' is not understood: there are password:, acquire:, observe:, "
                                   "break:, connections: and rate:, and the word admin");
  }

  void take_password(const std::string& hash, User& user) {
    if (!is_hash(hash)) {
      return spoil("user '" + user.name +
                   "': password: takes a whole hash of crypt(3), as 'holdfast server password' "
                   "makes one: yescrypt, scrypt, SHA-512, SHA-256 or bcrypt. It takes no hash that "
                   "is cut off, no weaker one such as MD5 ($1$), only 5000 to 1000000 "
                   "rounds of SHA and a bcrypt cost of 10 to 13, and never the password itself");
    }
    user.passwords.push_back(hash);
  }

  void take_right(Right right, std::string name, User& user) {
    const bool begins = name.ends_with('*');
    if (begins) name.pop_back();
    const auto plain = detail::percent_decode(name);
    if (!plain || (name.empty() && !begins) || name.find('*') != name.npos) {
      return spoil(std::string(to_word(right)) +
                   ": takes the name of a lock, or the beginning of names and then '*' (a '%' is "
                   "written %25, a '*' within a name %2A)");
    }
    user.grants.push_back({right, *plain, begins});
  }

  void take_number(const std::string& key, const std::string& value, std::size_t& into) {
    const auto number = detail::parse_number<std::size_t>(value);
    if (!number || *number == 0) return spoil(key + ": takes a number from 1 on");
    into = *number;
  }

  std::istringstream words_;
  std::string why_;
};

}  // namespace

std::string_view to_word(Right right) {
  return std::find_if(std::begin(kRights), std::end(kRights),
                      [&](const auto& each) { return each.second == right; })
      ->first;
}

bool User::may(Right right, std::string_view lock) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& each) {
    return (each.right == right || right == Right::kObserve) && covers(each, lock);
  });
}

bool User::may_list(std::string_view prefix) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& each) {
    return each.begins && prefix.starts_with(each.name);
  });
}

Result<std::shared_ptr<const Users>> Users::read(const std::string& path) {
  const std::string where = "users file '" + path + "'";
  struct stat found {};
  const bool there = ::stat(path.c_str(), &found) == 0;
  // To open a pipe would wait for its writer.
  if (there && !S_ISREG(found.st_mode)) {
    return Error(Errc::kInvalidArgument,
                 where + (S_ISDIR(found.st_mode) ? " is a folder" : " is not a plain file") +
                     "; name a text file with a line for each user: NAME password:HASH acquire:*");
  }
  if (there && static_cast<std::size_t>(found.st_size) > kLargestFile) {
    return Error(Errc::kInvalidArgument, where + " has more than 4 MiB");
  }
  std::ifstream file;
  if (there) file.open(path, std::ios::binary);
  if (!there || !file) {
    const int why = errno;
    return Error(why == EACCES ? Errc::kPermissionDenied : Errc::kInvalidArgument,
                 where + ": " + std::strerror(why) +
                     "; write a line for each user: NAME password:HASH acquire:*");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto parsed = parse(text, where);
  if (!parsed || (found.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) == 0) return parsed;
  auto users = std::make_shared<Users>(**parsed);
  users->warning_ =
      where + ": others can read or change it, and it holds password hashes: chmod 640";
  return std::shared_ptr<const Users>(std::move(users));
}

Result<std::shared_ptr<const Users>> Users::parse(std::string_view text, const std::string& where) {
  auto users = std::make_shared<Users>();
  const auto refuse = [&](std::size_t number, const std::string& why) {
    return Error(Errc::kInvalidArgument, where + ", line " + std::to_string(number) + ": " + why);
  };
  if (text.find('\0') != text.npos) return Error(Errc::kInvalidArgument, where + ": it is no text");
  if (text.starts_with("\xef\xbb\xbf")) {
    return refuse(1, "it begins with a byte order mark, which no editor shows: save it without");
  }
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    Line line(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    std::shared_ptr<User> user = line.read();
    if (!line.why().empty()) return refuse(number, line.why());
    if (user == nullptr) continue;
    const std::string name = user->name;
    if (!users->users_.emplace(name, std::move(user)).second) {
      return refuse(number, "user '" + name + "' is there already; a user has one line");
    }
  }
  if (users->users_.empty()) {
    return Error(Errc::kInvalidArgument,
                 where + ": it has no user: write NAME password:HASH acquire:*");
  }
  return std::shared_ptr<const Users>(std::move(users));
}

UserPtr Users::find(std::string_view name) const {
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : found->second;
}

}  // namespace holdfast::server
