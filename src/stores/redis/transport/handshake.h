// The first requests on a new connection, as a pure step function: log in, set the client's name,
// choose the database, and ask whether the server is
// ready and, where that can change, a primary. The lock service also says which term it serves.
//
// Thread-safety: one thread at a time.
// Errors: kPermissionDenied (user, password, rights), kInvalidArgument (no such database),
// kUnavailable (a replica), or as
// to_error() has it. No message repeats what the server says about the password.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

class Handshake {
 public:
  enum class Step : std::uint8_t {
    kMore,     // More replies must come.
    kReady,    // The connection may be used.
    kLoading,  // The server is not ready: send ping() later, and continue.
  };

  // `proves_role`: asks with ROLE whether the server is a primary, and refuses it otherwise.
  // `asks_term`: attaches to the lock service, or to the shard of it that the address names.
  explicit Handshake(const RedisAddress& address, bool proves_role = false, bool asks_term = false);

  // All requests of the handshake, to be written at once.
  const std::string& requests() const noexcept { return requests_; }
  static std::string ping();
  Result<Step> on_reply(const Reply& reply);
  // "HF1 <journal id> <shard> <term>"; empty unless asked for.
  const std::string& attached() const noexcept { return attached_; }
  // A server of the lock service refused because another one leads.
  bool stands_by() const noexcept { return stands_by_; }

 private:
  enum class Asked : std::uint8_t { kLogIn, kName, kDatabase, kRole, kTerm, kReady };

  // Which settings hold the user and the password.
  const char* login_settings() const noexcept;
  Error wants_login() const;
  Error no_leader(Reply reply) const;
  Result<Step> on_role(const Reply& reply) const;
  void ask(Asked what, std::vector<std::string_view> args);

  std::string where_;
  std::vector<port::Endpoint> servers_;  // That the address names.
  bool is_sentinel_ = false;
  bool is_service_ = false;
  bool stands_by_ = false;
  std::string requests_;
  std::string attached_;
  std::vector<Asked> asked_;
  std::size_t answered_ = 0;
};

}  // namespace holdfast::stores::redis
