// A step writes this, of one lock or of several: the columns of each row, as they are to be.
//
// A dialect makes one transaction of it. Each lock's row must still have the version that was read;
// otherwise nothing is written, or, where `apart` is set, nothing of that lock.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/machine/image.h"
#include "src/rows/lock_rows.h"

namespace holdfast::sql {

struct Writes {
  struct Lock {
    rows::LockRow row;
    std::int64_t expected = 0;  // The version that was read; 0: there was no row.
    std::int64_t version = 0;
    std::int64_t refuse_until = 0;
  };
  struct Ticket {
    std::string lock;
    rows::TicketRow row;
  };
  struct Dropped {
    std::string lock;
    machine::AcquisitionId id;
  };
  // A field that is not set stays as it is.
  struct Extra {
    std::string name;
    std::optional<std::string> value;
    std::optional<rows::Changes::Broken> broken;
  };
  // In place of all that the lock had.
  struct Tombstones {
    std::string lock;
    std::vector<machine::TombstoneImage> stones;
  };
  struct Notification {
    std::string lock;  // Sent if this one is written.
    std::string channel;
    std::string payload;
  };

  std::vector<Lock> locks;  // By name.
  std::vector<Ticket> tickets;
  std::vector<Dropped> dropped;
  std::vector<Extra> extras;
  std::vector<Tombstones> tombstones;
  std::vector<Notification> notifications;
  bool apart = false;  // The locks have nothing to do with each other.

  // `version`: what was read; 0: there was no row. `instant`: what the server's clock showed then.
  void add(rows::Changes changes, std::int64_t version, std::int64_t instant,
           std::int64_t refuse_until) {
    const std::string name = changes.lock.name;
    for (rows::TicketRow& ticket : changes.saved) tickets.push_back({name, std::move(ticket)});
    for (const machine::AcquisitionId& id : changes.dropped) dropped.push_back({name, id});
    if (changes.value || changes.broken) {
      extras.push_back({name, std::move(changes.value), std::move(changes.broken)});
    }
    // A row that is made again never has the version of one that was deleted.
    const std::int64_t next = version > 0 ? version + 1 : std::max<std::int64_t>(instant, 1);
    locks.push_back({std::move(changes.lock), version, next, refuse_until});
  }
};

}  // namespace holdfast::sql
