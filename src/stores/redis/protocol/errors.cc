#include "src/stores/redis/protocol/errors.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kMostOfServersWords = 200;

struct Row {
  std::string_view begins;  // The reply's first word; with a space, its first words.
  Errc code;
  std::string_view advice;
};

constexpr std::string_view kNoCluster =
    "the server is a node of a cluster: name some of its nodes as redis+cluster://HOST,HOST";

// The first matching row counts, so special rows come before general ones.
constexpr Row kTable[] = {
    {"NOSCRIPT", Errc::kUnavailable, "the server has forgotten the script: send it with EVAL"},
    {"READONLY", Errc::kUnavailable, "the server is a replica: name the primary, or retry"},
    {"LOADING", Errc::kUnavailable, "the server is loading its data: retry"},
    {"MASTERDOWN", Errc::kUnavailable, "the server is a replica cut off from its primary: retry"},
    {"MISCONF", Errc::kUnavailable,
     "the server cannot save its data and refuses writes: fix its disk, see its log"},
    {"OOM", Errc::kUnavailable, "the server has reached maxmemory: free memory or raise the limit"},
    {"BUSY", Errc::kUnavailable, "a script keeps the server busy: retry, or SCRIPT KILL it"},
    {"UNKILLABLE", Errc::kUnavailable,
     "the script that keeps the server busy has written already: wait for its end"},
    {"NOREPLICAS", Errc::kUnavailable,
     "too few replicas are in reach for min-replicas-to-write: fix replication"},
    {"CLUSTERDOWN", Errc::kUnavailable, "the cluster does not serve this slot: retry"},
    {"TRYAGAIN", Errc::kUnavailable, "the cluster is moving this slot: retry"},
    {"EXECABORT", Errc::kUnavailable, "the transaction was discarded: retry"},
    {"OVERLOADED", Errc::kUnavailable, "the lock service has too much to do: retry"},
    {"UNAVAILABLE", Errc::kUnavailable, "the lock service does not serve at present: retry"},
    {"STANDBY", Errc::kUnavailable, "no server of the lock service that was asked leads: retry"},
    {"SHARDS", Errc::kVersionMismatch,
     "the lock service has another number of shards than the one that this client began with, so "
     "it is another one: name the servers of one service in the URL, and connect anew"},
    {"NOMASTERLINK", Errc::kUnavailable, "the replica has no link to its primary: retry"},
    {"FAILOVER", Errc::kUnavailable, "the server is handing over to a replica: retry"},
    {"MOVED", Errc::kUnsupported, kNoCluster},
    {"ASK", Errc::kUnsupported, kNoCluster},
    {"CROSSSLOT", Errc::kUnsupported, kNoCluster},
    // A script met a key that is at another node. Our scripts look before they write, but nothing
    // else proves that none did.
    {"ERR Script attempted to access a non local key", Errc::kOutcomeUnknown,
     "the cluster is moving this slot, and the request may have been applied: retry it"},
    {"NOAUTH", Errc::kPermissionDenied,
     "the server wants a password: set HOLDFAST_REDIS_PASSWORD, or add ?password_file=PATH to the "
     "URL"},
    {"WRONGPASS", Errc::kPermissionDenied,
     "the server does not accept this user and password: correct HOLDFAST_REDIS_PASSWORD or the "
     "URL"},
    {"UNSUPPORTED", Errc::kUnsupported, "this server of the lock service cannot do it"},
    {"NOPERM user", Errc::kPermissionDenied,
     "the lock service's file of users does not allow it: docs/stores/holdfast.md has the rights"},
    {"NOPERM", Errc::kPermissionDenied,
     "the ACL of this user does not allow it: docs/stores/redis.md has the line that does"},
    {"DENIED", Errc::kPermissionDenied,
     "the server is in protected mode: give it a password or a bind address"},
    {"WRONGTYPE", Errc::kCorruptState,
     "a key of the lock holds data that Holdfast did not write: look at it, choose another ns"},
    {"NOPROTO", Errc::kUnsupported, "the server does not speak this protocol version"},
    {"ERR max number of clients", Errc::kUnavailable,
     "the server has no room for another connection: raise maxclients, or retry"},
    {"ERR DB index", Errc::kInvalidArgument, "the server has no such database: choose another"},
    {"ERR invalid DB index", Errc::kInvalidArgument, "the server has no such database"},
    {"ERR SELECT is not allowed", Errc::kInvalidArgument, "a cluster has database 0 only"},
    // Redis 7.0's NOPERM for a command in a script.
    {"ERR The user executing the script", Errc::kPermissionDenied,
     "the ACL of this user does not allow it: docs/stores/redis.md has the line that does"},
    {"ERR ACL failure in script", Errc::kPermissionDenied,  // Redis 8.0's.
     "the ACL of this user does not allow it: docs/stores/redis.md has the line that does"},
    {"ERR unknown command", Errc::kUnsupported,
     "the server lacks or has renamed the command: see docs/stores/redis.md"},
    {"ERR Unknown Redis command called from script", Errc::kUnsupported,
     "the server lacks or has renamed a command that the script needs"},
    // Servers before 7.0 reject the script's first line, '#!lua'.
    {"ERR Error compiling script", Errc::kUnsupported,
     "the server does not understand Holdfast's scripts, which need Redis 7.0 or later, or Valkey"},
    {"ERR Invalid command passed to redis.acl_check_cmd", Errc::kUnsupported,
     "the server lacks or has renamed a command that the scripts need"},
    {"ERR unknown subcommand", Errc::kUnsupported, "the server is too old: upgrade it"},
    {"ERR AUTH", Errc::kPermissionDenied,
     "the server has no password for its default user: name none, or a user"},
    {"ERR invalid password", Errc::kPermissionDenied, "the server does not accept the password"},
};

bool fits(const Row& row, std::string_view text) {
  if (!text.starts_with(row.begins)) return false;
  // A single word must equal the reply's first word, not only begin it.
  if (row.begins.find(' ') != std::string_view::npos) return true;
  return text.size() == row.begins.size() || text[row.begins.size()] == ' ';
}

// A server's text, made fit for one line of a log. Quoted arguments are cut off, as they may be
// secret.
std::string fit_for_people(std::string_view text) {
  text = text.substr(0, text.find(", with args beginning with"));
  std::string out(text.substr(0, kMostOfServersWords));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  if (text.size() > kMostOfServersWords) out += "...";
  return out;
}

}  // namespace

Error to_error(const Reply& error_reply, std::string_view what, bool reads_only) {
  const std::string_view text = error_reply.text;
  const std::string head = std::string(what) + ": ";
  const std::string said = " (the server says: " + fit_for_people(text) + ")";
  // A script that was stopped or failed halfway may have written already.
  if (text.find("Script killed by user") != std::string_view::npos) {
    return {reads_only ? Errc::kUnavailable : Errc::kOutcomeUnknown,
            head + "somebody killed the script while it ran" + said};
  }
  for (const Row& row : kTable) {
    if (!fits(row, text)) continue;
    const bool harmless = reads_only && row.code == Errc::kOutcomeUnknown;
    return {harmless ? Errc::kUnavailable : row.code,
            std::string(head).append(row.advice).append(said)};
  }
  if (reads_only) {
    return {Errc::kUnsupported, head + "the server refuses what Holdfast needs" + said};
  }
  return {Errc::kOutcomeUnknown,
          head + "the server refused in a way that does not say whether it wrote" + said};
}

bool is_redirection(std::string_view text) {
  constexpr std::string_view kWords[] = {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"};
  return std::find(std::begin(kWords), std::end(kWords), text.substr(0, text.find(' '))) !=
         std::end(kWords);
}

std::string asking() {
  std::string wire;
  const std::string_view words[] = {"ASKING"};
  append_command(wire, words);
  return wire;
}

}  // namespace holdfast::stores::redis
