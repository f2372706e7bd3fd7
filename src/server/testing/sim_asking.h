// The messages of simulated clients, and the requests that a shard gets from them. The world of one
// server and that of several share these.
//
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/machine/types.h"
#include "src/server/shard.h"

namespace holdfast::server::testing {

enum class AskKind : std::uint8_t { kAcquire, kRenew, kRelease, kCancel, kKeep };

struct Message {
  std::size_t acquisition = 0;
  AskKind kind{};
  std::uint64_t seq = 0;
  machine::Duration length{};
};

// The steps of an acquisition that were ever in the journal.
struct Recorded {
  bool entered = false;
  bool ended = false;
  machine::Token granted{};
};

struct News {
  std::size_t acquisition = 0;
  std::uint64_t seq = 0;
  machine::Duration lease{};
  machine::Token token{};
};

// `one`: the acquisition that the message is about, as its world keeps it.
template <typename Acquisition>
Request request_of(const Acquisition& one, const Message& message) {
  Request request;
  request.client = one.client;
  request.issue = one.issue;
  switch (message.kind) {
    case AskKind::kAcquire: {
      machine::Acquire acquire{one.name, one.id, one.mode};
      acquire.ttl = one.ttl;
      acquire.waiter_ttl = one.waiter_ttl;
      request.action = acquire;
      break;
    }
    case AskKind::kRenew:
      request.action = machine::Renew{one.name, one.id, message.seq, message.length,
                                      std::min(message.length, 2 * one.waiter_ttl)};
      break;
    case AskKind::kRelease: request.action = machine::Release{one.name, one.id, {}}; break;
    case AskKind::kCancel: request.action = machine::Cancel{one.name, one.id, {}}; break;
    case AskKind::kKeep:
      request.action = machine::Keep{one.name, one.id, message.seq, message.length, "kept"};
      break;
  }
  return request;
}

}  // namespace holdfast::server::testing
