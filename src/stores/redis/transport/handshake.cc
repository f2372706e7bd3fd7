#include "src/stores/redis/transport/handshake.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/stores/redis/protocol/errors.h"

namespace holdfast::stores::redis {
namespace {

constexpr char kCannotAttach[] = ": cannot attach to the lock service";

}  // namespace

Handshake::Handshake(const RedisAddress& address, bool proves_role, bool asks_term)
    : where_(address.display()),
      servers_(address.nodes),
      is_sentinel_(address.is_sentinel),
      is_service_(address.lock_service) {
  if (address.password || !address.user.empty()) {
    // The server may admit this user without a password.
    const std::string_view password = address.password ? *address.password : std::string_view();
    if (address.user.empty()) {
      ask(Asked::kLogIn, {"AUTH", password});
    } else {
      ask(Asked::kLogIn, {"AUTH", address.user, password});
    }
  }
  ask(Asked::kName, {"CLIENT", "SETNAME", "holdfast"});
  const std::string db = std::to_string(address.db);
  if (address.db != 0) ask(Asked::kDatabase, {"SELECT", db});
  if (proves_role) ask(Asked::kRole, {"ROLE"});
  const std::string shard = std::to_string(address.shard.value_or(0));
  if (asks_term && address.shard) ask(Asked::kTerm, {"HF1", "attach", "0", shard});
  if (asks_term && !address.shard) ask(Asked::kTerm, {"HF1", "attach", "0"});
  ask(Asked::kReady, {"PING"});
}

void Handshake::ask(Asked what, std::vector<std::string_view> args) {
  append_command(requests_, args);
  asked_.push_back(what);
}

std::string Handshake::ping() {
  std::string wire;
  const std::string_view args[] = {"PING"};
  append_command(wire, args);
  return wire;
}

Result<Handshake::Step> Handshake::on_reply(const Reply& reply) {
  if (answered_ == asked_.size()) {
    return Error{Errc::kCorruptState, where_ + ": an answer that nothing was asked for"};
  }
  const Asked asked = asked_[answered_++];
  const std::string_view word = reply.error_word();
  // The server says this once, whatever was asked, and closes.
  if (word == "DENIED" || reply.text.starts_with("ERR max number")) return to_error(reply, where_);
  if (reply.text.starts_with("ERR this port speaks TLS")) {
    return Error{Errc::kPermissionDenied,
                 where_ + ": this port speaks TLS: begin the URL with holdfasts://"};
  }
  switch (asked) {
    case Asked::kLogIn:
      if (!reply.is_error()) break;
      if (word == "WRONGPASS" || word == "NOPERM" || word == "ERR") {
        return Error{Errc::kPermissionDenied,
                     where_ +
                         ": cannot log in: the server does not accept the user or password, "
                         "or has none set (" +
                         std::string(word) + "): correct " + login_settings()};
      }
      return to_error(reply, where_ + ": cannot log in");
    case Asked::kName: break;  // Only readers of CLIENT LIST miss the name.
    case Asked::kDatabase:
      if (reply.is_error()) return to_error(reply, where_ + ": cannot choose the database");
      break;
    case Asked::kRole: return on_role(reply);
    case Asked::kTerm:
      if (word == "NOAUTH") return wants_login();
      if (reply.is_error() && reply.text.starts_with("ERR unknown command")) {
        return Error{Errc::kUnsupported,
                     where_ +
                         ": this server is not Holdfast's lock service: for a Redis server, "
                         "begin the URL with redis://"};
      }
      stands_by_ = word == "STANDBY";
      if (stands_by_) return no_leader(reply);
      if (reply.is_error()) {
        return to_error(reply, where_ + kCannotAttach, /*reads_only=*/true);
      }
      attached_ = reply.text;
      break;
    case Asked::kReady:
      if (word == "LOADING") {
        --answered_;
        return Step::kLoading;
      }
      // Other refusals, such as a missing permission or a stale replica, come again with each
      // request, which reports them.
      if (word == "NOAUTH" && (is_sentinel_ || is_service_)) return wants_login();
      if (word == "NOAUTH") return to_error(reply, where_);
      return Step::kReady;
  }
  return Step::kMore;
}

Error Handshake::wants_login() const {
  if (is_service_) {
    return {Errc::kPermissionDenied,
            where_ +
                ": it wants a user and password: name the user in the URL, USER@HOST, and give "
                "the password by HOLDFAST_SERVICE_PASSWORD or password_file="};
  }
  return {Errc::kPermissionDenied, where_ + ": it wants a password: set " + login_settings()};
}

// A server that stands by names the one that was last seen leading, and advises to name all. That
// is no advice for an address that names it.
Error Handshake::no_leader(Reply reply) const {
  const std::size_t advice = reply.text.find("; name all servers");
  const bool named = std::any_of(servers_.begin(), servers_.end(), [&](const port::Endpoint& each) {
    return reply.text.find(": " + each.text() + " was last seen") != std::string::npos;
  });
  if (named && advice != std::string::npos) reply.text.resize(advice);
  return to_error(reply, where_ + kCannotAttach, /*reads_only=*/true);
}

const char* Handshake::login_settings() const noexcept {
  if (is_service_) {
    return "HOLDFAST_SERVICE_PASSWORD, or user@ and password_file= of the URL";
  }
  return is_sentinel_ ? "HOLDFAST_REDIS_SENTINEL_PASSWORD, or sentinel_user= and "
                        "sentinel_password_file= of the URL"
                      : "HOLDFAST_REDIS_PASSWORD, or user@ and password_file= of the URL";
}

Result<Handshake::Step> Handshake::on_role(const Reply& reply) const {
  if (reply.is_error()) {
    return to_error(reply, where_ + ": cannot ask for the server's role", /*reads_only=*/true);
  }
  const bool known = reply.kind == Reply::Kind::kArray && !reply.items.empty();
  const std::string_view role = known ? std::string_view(reply.items[0].text) : "of unknown role";
  if (role == "master") return Step::kMore;
  return Error{Errc::kUnavailable, where_ + ": the server that was named as the primary is " +
                                       (role == "slave" ? "a replica" : std::string(role)) +
                                       ": wait for the fail-over to end, or correct what names it"};
}

}  // namespace holdfast::stores::redis
