#include "src/server/front/libraries/library_owner.h"

#include <chrono>
#include <memory>
#include <utility>

#include "holdfast/detail/percent.h"

namespace holdfast::server {
namespace {

// A holder by a value is shown as this program. Holdfast's own clients never name it.
constexpr std::string_view kLibraries = "a lock library for Redis";

bool stays(char c) { return c > ' ' && c < 0x7f && c != '%' && c != '"' && c != '\\'; }

}  // namespace

machine::OwnerPtr library_owner(std::string_view value, std::string_view user,
                                std::string_view client) {
  machine::OwnerInfo owner;
  owner.owner = detail::percent_encode(value, stays);
  owner.host = detail::percent_encode(client, stays);
  owner.program = kLibraries;
  // A library never listens, so the place for that is free. The journal keeps it.
  owner.wake = user;
  owner.since_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  return std::make_shared<const machine::OwnerInfo>(std::move(owner));
}

bool is_library_owner(const machine::OwnerPtr& owner) {
  return owner != nullptr && owner->program == kLibraries;
}

std::string value_of(const machine::OwnerInfo& owner) {
  return detail::percent_decode(owner.owner).value_or("");
}

bool may_see_owner(const AccountPtr& account, const machine::OwnerPtr& owner) {
  if (account == nullptr || !is_library_owner(owner)) return true;
  return account->user->admin || account->user->name == owner->wake;
}

machine::OwnerPtr shown_owner(const AccountPtr& account, const machine::OwnerPtr& owner) {
  if (may_see_owner(account, owner)) return owner;
  machine::OwnerInfo shown = *owner;
  shown.owner = owner->wake;
  return std::make_shared<const machine::OwnerInfo>(std::move(shown));
}

}  // namespace holdfast::server
