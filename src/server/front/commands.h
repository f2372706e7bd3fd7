// The commands of Redis that drivers and `redis-cli` need to talk to this server. Every other one
// is refused by its name (safety rule 61).
//
// Thread-safety: the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/stores.h"
#include "src/server/front/connection.h"
#include "src/server/front/front.h"

namespace holdfast::server {

// The parts of the front that commands need.
class CommandContext {
 public:
  // Errors: kInvalidArgument (not a channel, or too many), kPermissionDenied.
  virtual Result<void> subscribe(Connection& connection, const std::string& channel) = 0;
  virtual void unsubscribe(Connection& connection, const std::string& channel) = 0;
  // Whether a connection that has the client's own channel also has that of the watch.
  virtual bool hears(const std::string& client, const std::string& watched_prefix) const = 0;
  virtual bool has_users() const = 0;
  // The connection begins no other request until `done` was called with the outcome. Errors:
  // kPermissionDenied, kUnavailable (too much to do; come again).
  virtual void log_in(Connection& connection, const std::string& user, const std::string& password,
                      std::function<void(const Result<void>&)> done) = 0;
  virtual std::size_t connections() const = 0;
  virtual const Greeting& greeting() const = 0;
  virtual void tell(std::uint32_t shard, const std::string& channel, std::string_view payload) = 0;
  // A lock's, when it is free and was held not long ago.
  virtual std::optional<machine::Token> last_token(const std::string& lock) const = 0;
  // These three are of the shard that the connection has attached to. Without a shard, id and term
  // are empty, and the state is the sum of all shards that this server leads.
  virtual std::string journal_id(const Connection& connection) const = 0;
  virtual std::string term(const Connection& connection) const = 0;
  virtual Service::State state(const Connection& connection) const = 0;
  // The shards that this server leads have so many copies of each commit, beside the first.
  virtual std::size_t copies() const = 0;
  virtual std::uint32_t shards() const = 0;
  virtual std::vector<std::uint32_t> led_shards() const = 0;
  bool leads() const { return !led_shards().empty(); }
  // The servers that lead the shards, if there are several, with commas between them. An empty
  // word: not known.
  virtual std::string shard_leaders() const = 0;
  // Has this server hand over what it leads, a moment later. Errors: kUnsupported (its journal is
  // not shared, or with several shards it leads none, or no other server is there).
  virtual Result<void> step_down() = 0;
  // The servers on this journal. `done` may come within the call.
  virtual void list_members(std::function<void(Result<std::vector<ServerMember>>)> done) = 0;
  // The findings of a doctor about the store under the journal. `done` may come within the call.
  virtual void examine_journal(std::function<void(Result<std::vector<Finding>>)> done) = 0;
  // Has the program that runs this server stop it in order. `who` asks for that. False: it cannot.
  virtual bool drain(const std::string& who) = 0;
  // While it does not, and there is one shard: the server that does; empty: not known.
  virtual std::string leader() const = 0;

 protected:
  ~CommandContext() = default;
};

// A command or an option in capital letters, cut and without control characters: fit for a message.
std::string command_word(std::string_view word);

// A connection that must log in can do nothing else before.
void run_command(CommandContext& context, Connection& connection, const Words& words);

}  // namespace holdfast::server
