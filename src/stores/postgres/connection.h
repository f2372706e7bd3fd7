// One connection to a PostgreSQL server: libpq in pipeline mode. A Sync stands after each
// statement, which so is a transaction of its own.
//
// Thread-safety: as of sql::Connection.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "src/sql/link.h"
#include "src/stores/postgres/url.h"
#include "src/stores/postgres/values.h"

namespace holdfast::stores::postgres {

// Takes the SQLSTATE of the server's last error out of libpq's verbose words, and the place in the
// server's source, too. Empty: the server has said nothing.
std::string take_code(std::string& words);
// The caller's next step when no connection was made for this reason, by the server's code and
// libpq's words; empty: the URL and the environment are not to blame.
std::string_view advice_on(std::string_view code, std::string_view why);
// Whether libpq's words tell of a server that does not speak PostgreSQL's protocol.
bool is_of_another_server(std::string_view why);

class PostgresConnection final : public sql::Connection {
 public:
  // `prepares`: statements keep a plan on the connection: not where a pooler gives each transaction
  // another session.
  PostgresConnection(PostgresAddress address, std::shared_ptr<const std::atomic<bool>> prepares)
      : address_(std::move(address)), prepares_(std::move(prepares)) {}
  ~PostgresConnection() override;
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  Progress start() override;
  Progress proceed(short events) override;
  Awaited awaits() override;
  // Several at once only where no pooler stands between. When a client leaves after one of two
  // answers, pgbouncer gives its session to the next client, and the second answer with it.
  bool takes_more() const override { return sent_.empty() || own_session_; }
  bool send(const sql::Request& request) override;
  bool receive(short events, const Sink& sink) override;
  std::string error_code() const override { return code_; }
  std::string error() const override;
  // The server's process, as it said at log-in; a pooler says another number.
  int process_id() const { return connection_ == nullptr ? 0 : PQbackendPID(connection_); }
  // The session was found to be that process: no pooler stands between.
  void set_own_session() { own_session_ = true; }

 private:
  struct Sent {
    int ahead = 0;  // Results that come before the statement's.
    bool prepares = false;
    std::string name{};
    sql::Answer answer{sql::Fate::kUnknown};
  };

  Progress failed();
  const std::string& known_name_of(const std::string& text);
  bool prepare(const std::string& text, Sent& sent);
  bool take(PGresult* result, const Sink& sink);

  const PostgresAddress address_;
  const std::shared_ptr<const std::atomic<bool>> prepares_;
  PGconn* connection_ = nullptr;
  PostgresPollingStatusType polling_ = PGRES_POLLING_WRITING;
  bool connected_ = false;
  bool own_session_ = false;  // It is known that the session is the one of the log-in.
  std::string code_;  // Why no connection was made.
  std::string last_words_;
  std::deque<Sent> sent_;
  std::vector<std::pair<std::string, std::string>> names_;  // They belong to the newest texts.
  std::unordered_set<std::string> prepared_;
};

}  // namespace holdfast::stores::postgres
