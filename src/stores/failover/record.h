// The record of a fail-over chain: which of its stores is used, and since which epoch. It is the
// value beside the lock of the chain, in the chain's last store. Each store has a stamp of it.
//
// Thread-safety: pure functions. Errors: kCorruptState, kVersionMismatch (a later form).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::stores::failover {

struct ChainRecord {
  std::string chain;       // A hash of its URLs: clients with another list are refused.
  std::string authority;   // A random id, of the record's first writing.
  std::uint32_t epoch = 0;  // In use, or to be used when the drain has ended.
  std::uint32_t last = 0;   // The epoch before: its clients must have gone. 0: none.
  std::uint32_t active = 0;  // The store's place in the chain.
  bool draining = false;
  std::uint32_t authority_ms = 0;  // The length of the authority lease.
  std::uint32_t longest_ms = 0;    // No lock's lease is longer.

  friend bool operator==(const ChainRecord&, const ChainRecord&) = default;
};

std::string to_text(const ChainRecord& record);
Result<ChainRecord> read_record(std::string_view text);

// The text that the active store must have, word for word.
std::string stamp_of(const ChainRecord& record);
// Whether a stamp is of the same chain and authority, in whichever epoch.
bool is_ours(std::string_view stamp, const ChainRecord& record);

}  // namespace holdfast::stores::failover
