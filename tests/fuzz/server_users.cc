// The lock service's file of users, and the channels that users may listen to.

#include <optional>
#include <sstream>
#include <string>

#include "src/server/access/users.h"
#include "src/server/front/calls.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_users {
namespace {

constexpr std::size_t kShortestSecret = 13;

// The hashes of a file are nobody's business.
void check_silence(std::string_view file, const std::string& message) {
  constexpr std::string_view kWord = "password:";
  for (std::size_t at = file.find(kWord); at != file.npos; at = file.find(kWord, at + 1)) {
    const std::string_view rest = file.substr(at + kWord.size());
    const std::string secret(rest.substr(0, rest.find_first_of(" \t\r\n\v\f")));
    demand(secret.size() < kShortestSecret || message.find(secret) == message.npos,
           "no message shows a hash");
  }
}

void check_user(const server::User& user) {
  demand(!user.name.empty() && !user.passwords.empty(), "a user has a name and a password");
  for (const server::User::Grant& each : user.grants) {
    demand(each.begins || !each.name.empty(), "a right is for a lock");
    demand(user.may(each.right, each.name), "a right is for what it names");
    demand(user.may(server::Right::kObserve, each.name), "every right includes to observe");
    demand(user.may(each.right, each.name + "/../queue"), "it is for inner locks, too");
    demand(!each.begins || user.may_list(each.name), "it is for the list of what it covers");
  }
}

}  // namespace

void run(std::string_view input) {
  const std::string channel(input.substr(0, input.find('\n')));
  if (const auto lock = server::lock_of_value_channel(channel)) {
    demand(server::value_channel_of(*lock) == channel, "a lock has one channel");
  }
  const auto users = server::Users::parse(input, "users");
  if (!users) return check_silence(input, users.error().message());
  std::istringstream lines{std::string(input)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name) || name.starts_with('#')) continue;
    const server::UserPtr user = (*users)->find(name);
    demand(user != nullptr, "each line is a user");
    check_user(*user);
  }
}

}  // namespace holdfast::fuzz::server_users

HOLDFAST_FUZZ_TARGET(server_users)
