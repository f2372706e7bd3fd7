// The commands of Redis that drivers and `redis-cli` need to talk to this server. Every other one
// is refused by its name (safety rule 61).
//
// Thread-safety: the loop's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/server/front/connection.h"
#include "src/server/front/front.h"

namespace holdfast::server {

// The parts of the front that commands need.
class CommandContext {
 public:
  // False: not a channel of Holdfast's, or too many.
  virtual bool subscribe(Connection& connection, const std::string& channel) = 0;
  virtual void unsubscribe(Connection& connection, const std::string& channel) = 0;
  virtual std::size_t connections() const = 0;
  virtual const Greeting& greeting() const = 0;
  // A lock's, when it is free and was held not long ago.
  virtual std::optional<machine::Token> last_token(const std::string& lock) const = 0;
  virtual std::string journal_id() const = 0;
  virtual std::string term() const = 0;
  virtual Service::State state() const = 0;

 protected:
  ~CommandContext() = default;
};

void run_command(CommandContext& context, Connection& connection, const Words& words);

}  // namespace holdfast::server
