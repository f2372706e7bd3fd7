#include "src/server/front/channels/channels.h"

#include <cstddef>

#include "src/base/lock_name.h"
#include "src/server/front/calls.h"
#include "src/server/front/channels/watched_prefixes.h"
#include "src/server/front/libraries/redisson_locks.h"

namespace holdfast::server {
namespace {

// Each byte of the longest name may be escaped.
constexpr std::size_t kLongestChannel = 3 * base::kLongestStoredName + 64;

}  // namespace

// Redisson's channel of "x" is that of "{x}", too. A right to observe "x" is enough for both.
std::optional<std::string> lock_of_channel(const std::string& channel) {
  if (!channel.starts_with(kRedissonChannel)) return lock_of_value_channel(channel);
  const std::string lock = channel.substr(kRedissonChannel.size());
  if (lock.size() >= 2) {
    std::string plain = lock.substr(1, lock.size() - 2);
    if (redisson_channel_of(plain) == channel) return plain;
  }
  return redisson_channel_of(lock) == channel ? std::optional(lock) : std::nullopt;
}

Result<void> check_channel(const std::string& channel) {
  if (channel.size() > kLongestChannel) {
    return Error(Errc::kInvalidArgument,
                 "the name of a channel has at most " + std::to_string(kLongestChannel) + " bytes");
  }
  if (const auto lock = lock_of_channel(channel)) {
    // Redisson's locks are those that users name. Inner locks of primitives have values.
    return channel.starts_with(kRedissonChannel) ? base::check_lock_name(*lock)
                                                 : base::check_stored_name(*lock);
  }
  if (channel.starts_with(kWatchChannel)) {
    const std::string prefix = channel.substr(kWatchChannel.size());
    return prefix.empty() ? Result<void>() : base::check_stored_name(prefix);
  }
  if (channel.starts_with(kClientChannel)) return {};
  return Error(Errc::kInvalidArgument, "no such channel: this server has Holdfast's and RLock's");
}

}  // namespace holdfast::server
