// Parts of a step that need no engine.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/machine/lock_machine.h"
#include "src/stores/memcached/engine.h"

namespace holdfast::stores::memcached {

// A run of the machine between the reading and the writing of a document.
struct Engine::Ran {
  Version version;
  Document before;
  std::optional<machine::LockMachine> machine;
  machine::Effects effects;
  machine::Instant at;
  std::vector<Applied> answers;  // One per command.
  Document after;
  std::string bytes;     // The same as it is written, if the client may remember it.
  bool exists = false;   // There is to be a document.
  bool changed = false;  // There is something to write.
};

// Commands about one lock that are carried out together.
struct Engine::Step {
  std::string name;
  std::vector<CommandPtr> commands;
  int tries = 0;
  bool guessed = false;
  Ran ran;  // The last try's.
};

// The document in the reply to a get; nullopt: there is none. Errors: kCorruptState (also where
// the document is another lock's), kVersionMismatch, kUnavailable (the server refused to answer).
Result<std::optional<Document>> document_of(const Reply& reply, const std::string& name);

// How long the server is to keep the item: 0: without end.
std::uint64_t expiry_seconds(const Document& document);

}  // namespace holdfast::stores::memcached
