// The records port with the rules that are the same on every store, in front of a store's own.
//
// Guarantee: a store sees only keys in the namespace, of printable UTF-8 and at most kLongestKey
// bytes, texts of at most kLongestText bytes, and times that have not passed.
// Thread-safety, blocking, errors: as port::Records. A time that has passed is kUnavailable.
#pragma once

#include <memory>
#include <string>

#include "src/port/records.h"
#include "src/port/store.h"
#include "src/session/loop/event_loop.h"

namespace holdfast::client {

// A server's store needs these parts of a context as long as its records are there.
struct RecordsLoop final : port::Listener {
  void on_push(const port::Push&) override {}

  session::EventLoop events{[] {}};
};

// `loop`: nullptr where the store needs none.
std::unique_ptr<port::Records> checked_records(std::unique_ptr<port::Records> store,
                                               std::unique_ptr<RecordsLoop> loop,
                                               const std::string& name_space);

}  // namespace holdfast::client
