// The users of a lock service and their rights, as a file lists them, one line for each user
// (docs/design/0067-users-and-tls.md):
//
//   # name   passwords                    rights and limits
//   app      password:$y$j9T$...          acquire:orders/* acquire:stock connections:200 rate:5000
//   support  password:$6$... password:... observe:* break:orders/* admin
//
// A right is for one lock and the inner locks behind its name, or, with a `*` at the end, for all
// whose names begin so. `acquire` and `break` include `observe`. In names, '%' and what cannot
// stand in a word is percent-encoded. A password is a hash of crypt(3).
//
// Guarantee: a file with one bad line is refused whole; the message names the line and never shows
// a password's hash.
// Thread-safety: safe once made. Ownership: shared by the connections of its users.
// Errors: kInvalidArgument, kPermissionDenied, naming the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::server {

enum class Right : std::uint8_t { kObserve, kAcquire, kBreak };

std::string_view to_word(Right right);

struct User {
  struct Grant {
    Right right{};
    std::string name;
    bool begins = false;  // For all locks whose names begin with `name`.
    friend bool operator==(const Grant&, const Grant&) = default;
  };

  std::string name;
  std::vector<std::string> passwords;  // Hashes of crypt(3).
  std::vector<Grant> grants;
  bool admin = false;           // May do what operators do with the server itself.
  std::size_t connections = 0;  // At most; 0: no limit of its own.
  std::size_t rate = 0;         // Acquisitions and looks in a second; 0: no limit.

  bool may(Right right, std::string_view lock) const;
  // All locks whose names begin with `prefix`.
  bool may_list(std::string_view prefix) const;
  friend bool operator==(const User&, const User&) = default;
};
using UserPtr = std::shared_ptr<const User>;

class Users {
 public:
  static Result<std::shared_ptr<const Users>> read(const std::string& path);
  // `where` begins the messages.
  static Result<std::shared_ptr<const Users>> parse(std::string_view text,
                                                    const std::string& where);

  // Null: there is no such user.
  UserPtr find(std::string_view name) const;
  // The hash of somebody's password: to hash for a user who is not there, because the time must not
  // tell that.
  const std::string& decoy() const { return users_.begin()->second->passwords.front(); }
  // Operators should know it; empty: nothing.
  const std::string& warning() const { return warning_; }

 private:
  std::map<std::string, UserPtr, std::less<>> users_;
  std::string warning_;
};
using UsersPtr = std::shared_ptr<const Users>;

}  // namespace holdfast::server
