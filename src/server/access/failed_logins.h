// Log-ins that failed at one port, as operators are told of them: one line every ten seconds.
//
// Thread-safety: the loop only. Time: boot time.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/server/access/users.h"

namespace holdfast::server {

class FailedLogins {
 public:
  // nullopt: a later line will count this one. Only names that exist are told, because people type
  // passwords in their place.
  std::optional<std::string> note(const UsersPtr& users, const std::string& user,
                                  const std::string& address) {
    constexpr std::chrono::seconds kBetween{10};
    const auto now = base::BootClock::now();
    ++untold_;
    if (now < next_) return std::nullopt;
    next_ = now + kBetween;
    const bool exists = users != nullptr && users->find(user) != nullptr;
    const std::size_t others = std::exchange(untold_, 0) - 1;
    return "a log-in " + (exists ? "as '" + user + "'" : "as a user who does not exist") +
           " from " + address + " failed" +
           (others == 0 ? std::string() : "; " + std::to_string(others) + " others did before");
  }

 private:
  std::size_t untold_ = 0;
  base::BootInstant next_{};
};

}  // namespace holdfast::server
