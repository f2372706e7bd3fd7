// Asks replicas to confirm what a connection has written.
//
// WAIT counts the replicas that have everything that its own connection wrote last. So a small
// write goes before it: then it also confirms what came before from other connections, such as a
// grant by another client's release.
//
// Not guaranteed: that a confirmed write survives. A replica that did not confirm may be promoted,
// and one that did may lose its memory.
//
// Thread-safety: values and pure functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

struct Confirmation {
  std::uint32_t replicas = 0;  // 0: nothing is confirmed.
  std::chrono::milliseconds timeout{1000};
  std::string key{};  // The small write goes to this key, which expires after a minute.
  std::function<std::string()> key_now{};  // If set, in place of `key`. Called on any thread.

  bool wanted() const noexcept { return replicas > 0; }

  static constexpr std::size_t kReplies = 2;

  // Appends the two requests. The server answers them at half of the time until `deadline`, so that
  // a missing confirmation can still be reported.
  void append(std::string& wire, base::BootInstant deadline) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        (deadline - base::BootClock::now()) / 2);
    // WAIT 0 has no timeout.
    const auto most = std::max(std::chrono::milliseconds(1), std::min(timeout, left));
    const std::string place = key_now ? key_now() : key;
    const std::string_view write[] = {"SET", place, "1", "PX", "60000"};
    append_command(wire, write);
    const std::string number = std::to_string(replicas);
    const std::string milliseconds = std::to_string(most.count());
    const std::string_view wait[] = {"WAIT", number, milliseconds};
    append_command(wire, wait);
  }

  bool given(const Reply& write, const Reply& wait) const noexcept {
    return !write.is_error() && wait.kind == Reply::Kind::kInteger &&
           wait.integer >= static_cast<std::int64_t>(replicas);
  }

  // "2 replicas did not confirm it within 1000 ms: ...". The server's own words, if it refused.
  std::string missing(const Reply& write, const Reply& wait) const {
    const Reply* const refused = write.is_error() ? &write : wait.is_error() ? &wait : nullptr;
    return (refused != nullptr
                ? "the server refuses to ask the replicas (" + refused->text.substr(0, 80) + ")"
                : std::to_string(replicas) + " replicas did not confirm it within " +
                      std::to_string(timeout.count()) + " ms (" + std::to_string(wait.integer) +
                      " did)") +
           ": look at the replication, or lower replicas= of the URL";
  }
};

}  // namespace holdfast::stores::redis
