// The store on a SQL server: the port's operations on an engine, for any dialect.
//
// A store's own folder has its URL, its connection, its dialect and, where the server can tell
// clients something, its wake-ups.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/url_options.h"
#include "src/sql/dialect.h"
#include "src/sql/engine.h"
#include "src/sql/link.h"

namespace holdfast::sql {

// Hears what the server tells this client, on a connection of its own.
//
// Thread-safety: any thread. Ownership: the engine outlives it.
class WakeUps {
 public:
  virtual ~WakeUps() = default;
  // Returns once the server tells this client what it has to tell, or cannot be asked for that now;
  // at the latest then.
  virtual void start(base::BootInstant by) = 0;
  virtual void close() = 0;
  virtual port::WatchHandle watch_value(const std::string& name, port::Task changed) = 0;
};

// Settings for tests alone.
struct Tuning {
  std::function<machine::Instant()> now{};  // Instead of the server's time.
  bool fast_path = true;                    // false: every command goes through the machine.
};

struct StoreParts {
  std::unique_ptr<Dialect> dialect;
  Link::Settings requests;  // Each is a connection.
  Link::Settings renewals;
  bool may_create = true;  // Missing tables are made; false: they are an error.
  // None: waiters poll.
  std::function<std::unique_ptr<WakeUps>(Engine& engine)> wake_ups{};
};

// The URL's option for `may_create`.
inline constexpr port::UrlOption kCreateOption = port::word_option(
    "create", "yes|no", "no: missing tables are an error, and nobody makes them (default: yes)");

// Connects, and makes the tables where they are not there. With `context.schema`: only that, or
// less, and no store is returned.
// Errors: kUnavailable, kPermissionDenied, kCorruptState (no tables), kVersionMismatch.
Result<std::unique_ptr<port::Store>> open_store(StoreParts parts, const port::StoreContext& context,
                                                Tuning tuning);

}  // namespace holdfast::sql
