#include "src/stores/mysql/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace holdfast::stores::mysql {
namespace {

// Numbers of errors, from mysqld_error.h, which not every client's package has.
constexpr unsigned kUnknownDatabase = 1049;
constexpr unsigned kReadOnlyOption = 1290;
constexpr unsigned kReadOnlyMode = 1836;
constexpr unsigned kFirstOfLibrary = 2000;
constexpr unsigned kLastOfLibrary = 2999;

// These settings do not depend on the server's own, and bound how long a statement may keep rows.
// The answer tells a server that only reads.
constexpr char kSession[] =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SET SESSION autocommit = 1, completion_type = 0, time_zone = '+00:00',"
    " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_safe_updates = 0,"
    " sql_select_limit = 18446744073709551615,"
    " group_concat_max_len = 1048576, innodb_lock_wait_timeout = 2, lock_wait_timeout = 5,"
    " wait_timeout = 28800 /*M! , idle_transaction_timeout = 5 */;"
    "SELECT @@global.read_only";
constexpr std::size_t kSessionAnswer = 2;

// Whether the end was reached is not known: interrupted, or a commit that failed.
bool ends_open(unsigned number) {
  for (const unsigned one : {1180U, 1181U, 1317U, 1598U, 1969U, 3024U}) {
    if (number == one) return true;
  }
  return false;
}

// The server is about to close the connection: shutdown, killed, idle for too long.
bool says_goodbye(unsigned number) {
  for (const unsigned one : {1053U, 1077U, 1079U, 1927U, 4031U}) {
    if (number == one) return true;
  }
  return number >= kFirstOfLibrary && number <= kLastOfLibrary;
}

struct Free {
  void operator()(MYSQL_RES* rows) const { ::mysql_free_result(rows); }
};

class StoredRows final : public sql::Rows {
 public:
  explicit StoredRows(MYSQL_RES* rows) : rows_(rows), columns_(::mysql_num_fields(rows)) {
    while (const MYSQL_ROW row = ::mysql_fetch_row(rows)) {
      const unsigned long* lengths = ::mysql_fetch_lengths(rows);
      for (unsigned column = 0; column < columns_; ++column) {
        cells_.push_back({row[column], lengths[column]});
      }
    }
  }

  int size() const override {
    return columns_ == 0 ? 0 : static_cast<int>(cells_.size() / columns_);
  }
  bool is_null(int row, int column) const override { return cell(row, column).text == nullptr; }
  std::string_view text(int row, int column) const override {
    const Cell& found = cell(row, column);
    return found.text == nullptr ? std::string_view() : std::string_view(found.text, found.length);
  }
  std::string bytes(int row, int column) const override { return std::string(text(row, column)); }

 private:
  struct Cell {
    const char* text = nullptr;
    std::size_t length = 0;
  };

  const Cell& cell(int row, int column) const {
    static const Cell none;
    const auto at = static_cast<std::size_t>(row) * columns_ + static_cast<std::size_t>(column);
    return row < 0 || column < 0 || static_cast<unsigned>(column) >= columns_ || at >= cells_.size()
               ? none
               : cells_[at];
  }

  std::unique_ptr<MYSQL_RES, Free> rows_;
  unsigned columns_;
  std::vector<Cell> cells_;
};

// A statement without rows: what it told of itself.
class Changed final : public sql::Rows {
 public:
  Changed(std::uint64_t affected, std::uint64_t set)
      : affected_(affected), text_(std::to_string(set != 0 ? set : affected)) {}

  int size() const override { return affected_ > 0 ? 1 : 0; }
  bool is_null(int, int column) const override { return column != 0; }
  std::string_view text(int, int column) const override {
    return column == 0 ? std::string_view(text_) : std::string_view();
  }
  std::string bytes(int row, int column) const override { return std::string(text(row, column)); }

 private:
  std::uint64_t affected_;
  std::string text_;
};

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

MysqlConnection::MysqlConnection(MysqlAddress address, std::shared_ptr<std::size_t> first)
    : address_(std::move(address)), host_(std::move(first)), hosts_left_(address_.hosts.size()) {
  // The library would do it itself, but not for two threads at once.
  static std::once_flag once;
  std::call_once(once, [] { ::mysql_server_init(0, nullptr, nullptr); });
  open();
}

MysqlConnection::~MysqlConnection() {
  // It says goodbye to the server, for which it must not wait.
  // A host that keeps us waiting is the last one to be tried next time.
  if (doing_ == Doing::kConnect && waits_ != 0 && !address_.hosts.empty()) {
    *host_ = (*host_ + 1) % address_.hosts.size();
  }
  const my_socket socket = ::mysql_get_socket(&mysql_);
  if (socket >= 0 && doing_ != Doing::kNothing) ::shutdown(socket, SHUT_RDWR);
  ::mysql_close(&mysql_);
}

void MysqlConnection::open() {
  ::mysql_init(&mysql_);
  const auto set = [this](mysql_option option, const void* value) {
    ::mysql_options(&mysql_, option, value);
  };
  const unsigned off = 0;
  const my_bool on = 1;
  set(MYSQL_OPT_NONBLOCK, nullptr);
  set(MYSQL_OPT_LOCAL_INFILE, &off);
  set(MYSQL_SET_CHARSET_NAME, "utf8mb4");
  ::mysql_options4(&mysql_, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "holdfast");
  if (!address_.tls) return;
  ::mysql_ssl_set(&mysql_, or_null(address_.tls_paths.key.empty() ? address_.tls_paths.cert
                                                                  : address_.tls_paths.key),
                  or_null(address_.tls_paths.cert), or_null(address_.tls_paths.ca), nullptr,
                  nullptr);
  set(MYSQL_OPT_SSL_ENFORCE, &on);
  set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
}

// --- Calls of the library

void MysqlConnection::begin(Doing what, std::string_view text) {
  doing_ = what;
  switch (what) {
    case Doing::kNothing: break;
    case Doing::kConnect: {
      const bool socket = !address_.socket.empty();
      const char* password = address_.login.password ? address_.login.password->c_str() : nullptr;
      waits_ = ::mysql_real_connect_start(
          &connect_result_, &mysql_, socket ? "localhost" : address_.hosts[*host_].host.c_str(),
          or_null(address_.login.user), password, address_.database.c_str(),
          socket ? 0 : address_.hosts[*host_].port, or_null(address_.socket),
          CLIENT_MULTI_STATEMENTS);
      break;
    }
    case Doing::kSend:
      waits_ = ::mysql_send_query_start(&result_, &mysql_, text.data(),
                                        static_cast<unsigned long>(text.size()));
      break;
    case Doing::kRead:
      begun_ = false;
      waits_ = MYSQL_WAIT_READ;
      break;
    case Doing::kRollBack:
      waits_ = ::mysql_real_query_start(&result_, &mysql_, text.data(),
                                        static_cast<unsigned long>(text.size()));
      break;
    case Doing::kStore: waits_ = ::mysql_store_result_start(&rows_, &mysql_); break;
    case Doing::kNext: waits_ = ::mysql_next_result_start(&result_, &mysql_); break;
  }
}

void MysqlConnection::go_on(short events) {
  int ready = 0;
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) ready |= MYSQL_WAIT_READ;
  if ((events & (POLLOUT | POLLHUP | POLLERR)) != 0) ready |= MYSQL_WAIT_WRITE;
  if ((events & POLLPRI) != 0) ready |= MYSQL_WAIT_EXCEPT;
  ready &= waits_;
  if (ready == 0) return;
  switch (doing_) {
    case Doing::kNothing: break;
    case Doing::kConnect:
      waits_ = ::mysql_real_connect_cont(&connect_result_, &mysql_, ready);
      break;
    case Doing::kSend: waits_ = ::mysql_send_query_cont(&result_, &mysql_, ready); break;
    case Doing::kRead:
      // Sending and reading are calls of their own, since different threads may do them: the
      // library's call that does both would go on, in its middle, on another thread.
      waits_ = std::exchange(begun_, true)
                   ? ::mysql_read_query_result_cont(&unread_, &mysql_, ready)
                   : ::mysql_read_query_result_start(&unread_, &mysql_);
      break;
    case Doing::kRollBack: waits_ = ::mysql_real_query_cont(&result_, &mysql_, ready); break;
    case Doing::kStore: waits_ = ::mysql_store_result_cont(&rows_, &mysql_, ready); break;
    case Doing::kNext: waits_ = ::mysql_next_result_cont(&result_, &mysql_, ready); break;
  }
}

// A call that ended before it was waited for is looked at as soon as poll() returns: at once.
MysqlConnection::Awaited MysqlConnection::awaits() {
  short events = 0;
  if ((waits_ & MYSQL_WAIT_READ) != 0 || doing_ == Doing::kNothing) events |= POLLIN;
  if ((waits_ & MYSQL_WAIT_WRITE) != 0) events |= POLLOUT;
  if ((waits_ & MYSQL_WAIT_EXCEPT) != 0) events |= POLLPRI;
  if (waits_ == 0 && doing_ != Doing::kNothing) events |= POLLOUT;
  return {static_cast<int>(::mysql_get_socket(&mysql_)), events};
}

// --- The connection

MysqlConnection::Progress MysqlConnection::start() {
  begin(Doing::kConnect);
  return proceed(0);
}

MysqlConnection::Progress MysqlConnection::proceed(short events) {
  if (waits_ != 0) go_on(events);
  while (waits_ == 0) {
    bool good = true;
    bool complete = false;
    sql::Answer answer;
    if (doing_ == Doing::kConnect) {
      good = connect_result_ != nullptr || lose();
      if (good) good = send({kSession, {}, kSessionAnswer});
    } else {
      good = done(answer, complete);
    }
    if (complete && answer.fate == sql::Fate::kDone && answer.rows->number(0, 0) == 0) {
      return Progress::kDone;
    }
    if (complete) {
      const bool refused = answer.fate != sql::Fate::kDone;
      error_code_ = refused ? answer.code : std::to_string(kReadOnlyOption);
      error_ = refused ? answer.message
                       : "this server only reads (a replica?)";
    }
    if ((!good || complete) && !try_next_host()) return Progress::kFailed;
  }
  return Progress::kGoesOn;
}

bool MysqlConnection::try_next_host() {
  if (hosts_left_ <= 1) return false;
  --hosts_left_;
  *host_ = (*host_ + 1) % address_.hosts.size();
  ::mysql_close(&mysql_);
  open();
  begin(Doing::kConnect);
  return true;
}

bool MysqlConnection::send(const sql::Request& request) {
  text_ = request.text;
  answers_ = request.answers;
  statement_ = 0;
  answer_ = {sql::Fate::kDone, std::make_shared<Changed>(0, 0)};
  begin(Doing::kSend, text_);
  if (waits_ != 0) return true;
  if (result_ != 0) return lose();
  begin(Doing::kRead);
  return true;
}

bool MysqlConnection::receive(short events, const Sink& sink) {
  if (doing_ == Doing::kNothing) {
    error_ = "the server closed the connection";
    return false;
  }
  if (waits_ != 0) go_on(events);
  while (waits_ == 0 && doing_ != Doing::kNothing) {
    sql::Answer answer;
    bool complete = false;
    if (!done(answer, complete)) return false;
    if (!complete) continue;
    const std::string code = answer.code;
    sink.answered(std::move(answer));
    // It was demoted: another host may take writes.
    if (code == std::to_string(kReadOnlyOption) || code == std::to_string(kReadOnlyMode)) {
      error_ = "this server only reads now";
      return false;
    }
  }
  return true;
}

// A call has ended. False: the connection is lost. `complete`: so has the request.
bool MysqlConnection::done(sql::Answer& answer, bool& complete) {
  const auto finish = [&] {
    doing_ = Doing::kNothing;
    answer = std::move(answer_);
    complete = true;
    return true;
  };
  switch (doing_) {
    case Doing::kNothing:
    case Doing::kConnect: return true;
    case Doing::kRollBack:
      if (result_ != 0) return lose();
      open_transaction_ = false;
      return finish();
    case Doing::kSend:
      if (result_ != 0) return lose();
      begin(Doing::kRead);
      return true;
    case Doing::kRead:
    case Doing::kNext:
      if ((doing_ == Doing::kRead ? unread_ : result_) != 0) return failed(answer, complete);
      if (::mysql_field_count(&mysql_) > 0) {
        begin(Doing::kStore);
        return true;
      }
      rows_ = nullptr;
      break;
    case Doing::kStore:
      if (rows_ == nullptr) return failed(answer, complete);
      break;
  }
  keep_result();
  if (::mysql_more_results(&mysql_)) {
    begin(Doing::kNext);
    return true;
  }
  return finish();
}

void MysqlConnection::keep_result() {
  open_transaction_ = (mysql_.server_status & SERVER_STATUS_IN_TRANS) != 0;
  std::unique_ptr<MYSQL_RES, Free> rows(std::exchange(rows_, nullptr));
  if (statement_++ != answers_) return;
  answer_.fate = sql::Fate::kDone;
  if (rows) {
    answer_.rows = std::make_shared<StoredRows>(rows.release());
  } else {
    answer_.rows = std::make_shared<Changed>(::mysql_affected_rows(&mysql_),
                                             ::mysql_insert_id(&mysql_));
  }
}

bool MysqlConnection::failed(sql::Answer& answer, bool& complete) {
  const unsigned number = ::mysql_errno(&mysql_);
  if (says_goodbye(number)) return lose();
  answer_ = {ends_open(number) ? sql::Fate::kUnknown : sql::Fate::kRefused, nullptr,
             std::to_string(number), ::mysql_error(&mysql_)};
  if (open_transaction_) {
    begin(Doing::kRollBack, "ROLLBACK");
    return true;
  }
  doing_ = Doing::kNothing;
  answer = std::move(answer_);
  complete = true;
  return true;
}

bool MysqlConnection::lose() {
  const unsigned number = ::mysql_errno(&mysql_);
  error_code_ = std::to_string(number);
  error_ = ::mysql_error(&mysql_);
  if (number == kUnknownDatabase) {
    error_ += ": make it with CREATE DATABASE, or name another one in the URL";
  }
  return false;
}

sql::Link::Settings link_settings(const MysqlAddress& address, const char* thread_name,
                                  bool keep) {
  const auto first = std::make_shared<std::size_t>(0);
  const auto hosts = static_cast<int>(std::max<std::size_t>(address.hosts.size(), 1));
  return {[address, first] { return std::make_unique<MysqlConnection>(address, first); },
          address.connect_timeout * hosts, thread_name, keep, address.connect_timeout};
}

}  // namespace holdfast::stores::mysql
