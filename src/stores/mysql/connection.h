// One connection to a MySQL or MariaDB server: libmariadb's calls that do not block.
//
// A request is a text of one or several statements, and goes as one packet. Its answer is the
// result of one of them (sql::Request::answers), and comes when all are done. Where that one
// returns no rows, the answer has a row if it changed something: LAST_INSERT_ID(x) where the
// statement set it, else the number of rows. When a statement fails the server leaves out the rest;
// an open transaction is rolled back before the answer.
//
// Guarantee: kRefused: nothing of a request that is one statement or one transaction was carried
// out. An error that tells no more than that the end is open is kUnknown.
//
// Thread-safety: as of sql::Connection.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <mysql.h>

#include "src/sql/link.h"
#include "src/stores/mysql/url.h"

namespace holdfast::stores::mysql {

class MysqlConnection final : public sql::Connection {
 public:
  // `first`: the host that is tried first, by its place in the address; where it does not let us in
  // or does not take writes, the others follow. Kept up for the next connection.
  MysqlConnection(MysqlAddress address, std::shared_ptr<std::size_t> first);
  ~MysqlConnection() override;
  MysqlConnection(const MysqlConnection&) = delete;
  MysqlConnection& operator=(const MysqlConnection&) = delete;

  Progress start() override;
  Progress proceed(short events) override;
  Awaited awaits() override;
  bool takes_more() const override { return doing_ == Doing::kNothing; }
  bool send(const sql::Request& request) override;
  bool receive(short events, const Sink& sink) override;
  std::string error_code() const override { return error_code_; }
  std::string error() const override { return error_; }
  // The session's number, as the server said at log-in; a proxy says another one.
  std::uint64_t thread_id() { return ::mysql_thread_id(&mysql_); }

 private:
  enum class Doing : std::uint8_t { kNothing, kConnect, kSend, kRead, kStore, kNext, kRollBack };

  void open();
  bool try_next_host();
  void begin(Doing what, std::string_view text = {});
  void go_on(short events);
  bool done(sql::Answer& answer, bool& complete);
  void keep_result();
  bool failed(sql::Answer& answer, bool& complete);
  bool lose();

  const MysqlAddress address_;
  const std::shared_ptr<std::size_t> host_;
  std::size_t hosts_left_ = 0;
  MYSQL mysql_{};
  bool open_transaction_ = false;  // As far as the last good statement told.

  Doing doing_ = Doing::kNothing;
  bool begun_ = false;  // kRead: the call has begun; it does when there is something to read.
  int waits_ = 0;       // MYSQL_WAIT_*; 0: the call has ended, with one of:
  MYSQL* connect_result_ = nullptr;
  int result_ = 0;
  my_bool unread_ = 0;
  MYSQL_RES* rows_ = nullptr;

  std::string text_;  // Under way.
  std::size_t answers_ = 0;
  std::size_t statement_ = 0;  // Which of the text's.
  sql::Answer answer_{};
  std::string error_code_;
  std::string error_;
};

sql::Link::Settings link_settings(const MysqlAddress& address, const char* thread_name, bool keep);

}  // namespace holdfast::stores::mysql
