// A user who is logged in: what all of the user's connections share, and what it may do.
//
// Thread-safety: the loop only.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/errc.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/server/access/rate.h"
#include "src/server/access/users.h"

namespace holdfast::server {

struct Account {
  explicit Account(UserPtr its_user) : user(std::move(its_user)), rate_(user->rate) {}

  // Counts acquisitions and looks. nullopt: there is room.
  std::optional<Error> refuse_rate(base::BootInstant now, std::size_t count = 1) {
    if (rate_.take(now, count)) return std::nullopt;
    return Error(Errc::kQueueFull, "user '" + user->name + "' may ask for " +
                                       std::to_string(user->rate) + " locks a second");
  }

  // nullopt: one more connection is welcome.
  std::optional<Error> refuse_connection() const {
    if (user->connections == 0 || connections < user->connections) return std::nullopt;
    return Error(Errc::kUnavailable, "user '" + user->name + "' has " +
                                         std::to_string(user->connections) +
                                         " connections already, and may have no more");
  }

  const UserPtr user;
  std::size_t connections = 0;

 private:
  Rate rate_;
};

// Null where the server has no users: everything is allowed then.
using AccountPtr = std::shared_ptr<Account>;

inline bool may(const AccountPtr& account, Right right, std::string_view lock) {
  return account == nullptr || account->user->may(right, lock);
}

// The accounts of the users who have logged in, at either port.
class Accounts {
 public:
  // From now on these are the users. A user whose line has changed gets a new account.
  void use(UsersPtr users) {
    users_ = std::move(users);
    std::erase_if(known_, [&](const auto& entry) {
      const UserPtr now = users_ == nullptr ? nullptr : users_->find(entry.first);
      return now == nullptr || *now != *entry.second->user;
    });
  }
  // Null: the users have changed since this one's password was found to be right.
  AccountPtr of(const UserPtr& user) {
    const UserPtr now = users_ == nullptr ? nullptr : users_->find(user->name);
    if (now == nullptr || *now != *user) return nullptr;
    AccountPtr& account = known_[user->name];
    if (account == nullptr) account = std::make_shared<Account>(user);
    return account;
  }

 private:
  UsersPtr users_;
  std::map<std::string, AccountPtr, std::less<>> known_;
};
using AccountsPtr = std::shared_ptr<Accounts>;

// nullopt: it may.
inline std::optional<Error> refuse(const AccountPtr& account, Right right, std::string_view lock) {
  if (may(account, right, lock)) return std::nullopt;
  return Error(Errc::kPermissionDenied, "user '" + account->user->name + "' has no right to " +
                                            std::string(to_word(right)) + " '" + std::string(lock) +
                                            "'");
}

// nullopt: it may do what operators do with the server itself.
inline std::optional<Error> refuse_operator(const AccountPtr& account) {
  if (account == nullptr || account->user->admin) return std::nullopt;
  return Error(Errc::kPermissionDenied, "user '" + account->user->name + "' is no admin");
}

// nullopt: it may see all locks whose names begin with this.
inline std::optional<Error> refuse_all(const AccountPtr& account, const std::string& prefix) {
  if (account == nullptr || account->user->may_list(prefix)) return std::nullopt;
  return Error(Errc::kPermissionDenied, "user '" + account->user->name +
                                            "' has no right to observe all locks that begin " +
                                            "with '" + prefix + "': ask for a longer beginning");
}

}  // namespace holdfast::server
