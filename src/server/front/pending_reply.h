// Where the reply to one request goes when it is known.
//
// Thread-safety: the loop's thread. Ownership: keeps the connection alive.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "src/server/front/calls.h"
#include "src/server/front/connection.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {

class PendingReply {
 public:
  explicit PendingReply(Connection& connection)
      : connection_(connection.shared_from_this()), turn_(connection.begin()) {}

  // The user who has logged in, who is charged. Empty: there are no users.
  std::string user() const {
    return connection_->account ? connection_->account->user->name : std::string();
  }
  void rest_after(std::size_t tickets) const { connection_->rest_after(tickets); }
  int protocol() const { return connection_->protocol; }
  Connection& connection() const { return *connection_; }
  // All earlier replies are known, so this one is written at once when it is given.
  bool is_first() const { return connection_->is_first(turn_); }
  // Once that is so. Never, if the connection is closed before.
  void when_first(std::function<void()> call) const {
    connection_->when_first(turn_, std::move(call));
  }
  void note_taken(const machine::AcquisitionId& id) const { connection_->note_taken(id); }
  void give(std::string bytes) const { connection_->finish(turn_, std::move(bytes)); }
  void fail(const Error& why) const {
    std::string bytes;
    append_error(bytes, failure_text(why));
    give(std::move(bytes));
  }
  void text(std::string_view text) const {
    std::string bytes;
    append_text(bytes, text);
    give(std::move(bytes));
  }

 private:
  ConnectionPtr connection_;
  Connection::Turn turn_;
};

}  // namespace holdfast::server
