#include "src/stores/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace holdfast::stores::postgres {
namespace {

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::erase(text, '\t');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string field_of(const PGresult* result, int field) {
  const char* text = PQresultErrorField(result, field);
  return text == nullptr ? "" : text;
}

// Each statement is planned once per connection. It names its rows by their keys, however few rows
// there were when it was planned. The answer tells whose session this is, too.
constexpr char kPlanning[] =
    "SELECT pg_backend_pid(), set_config(name, value, false) FROM (VALUES "
    "('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), "
    "('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), ('jit', 'off')) AS s(name, value)";

constexpr std::size_t kMostNames = 64;

// libpq has no word for "none", and a service that PGSERVICE names can have an address.
bool goes_elsewhere(PGconn* connection) {
  PQconninfoOption* const options = PQconninfo(connection);
  bool elsewhere = false;
  for (const auto* option = options; option != nullptr && option->keyword != nullptr; ++option) {
    elsewhere = elsewhere || (std::string_view(option->keyword) == "hostaddr" &&
                              option->val != nullptr && *option->val != '\0');
  }
  PQconninfoFree(options);
  return elsewhere;
}

std::string name_of(const std::string& text) {
  return "hf" + std::to_string(std::hash<std::string>()(text));
}

}  // namespace

// "FATAL:  28P01: password authentication failed" and, in the next line, "LOCATION:  auth_failed,
// auth.c:326". Everything but the code is in the language of the server or of this process.
std::string take_code(std::string& words) {
  std::string code;
  std::string kept;
  std::istringstream lines(std::exchange(words, {}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(":  ");
    if (at == line.npos) {
      kept += line + '\n';
      continue;
    }
    const std::string_view said = std::string_view(line).substr(at + 3);
    const std::string_view place = said.substr(std::min(said.rfind(".c:"), said.size()));
    if (place.size() > 3 && place.find_first_not_of("0123456789", 3) == place.npos) continue;
    const bool has_code = said.size() > 7 && said.substr(5, 2) == ": " &&
                          std::all_of(said.begin(), said.begin() + 5, [](char c) {
                            return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
                          });
    if (has_code) {
      code = said.substr(0, 5);
      line.erase(at + 3, 7);
    }
    kept += line + '\n';
  }
  words = std::move(kept);
  return code;
}

std::string_view advice_on(std::string_view code, std::string_view why) {
  const auto has = [why](std::string_view part) { return why.find(part) != why.npos; };
  if (code == "3D000") return ": make it with CREATE DATABASE, or name another one in the URL";
  if (has("hostaddr of a service")) return ": unset PGSERVICE, or remove the hostaddr there";
  if (has("definition of service")) return ": unset PGSERVICE, or name a service that there is";
  return {};
}

// libpq says so when something that is not PostgreSQL answers.
bool is_of_another_server(std::string_view why) {
  for (const std::string_view said :
       {"expected authentication request from server", "received invalid response to SSL"}) {
    if (why.find(said) != why.npos) return true;
  }
  return false;
}

PostgresConnection::~PostgresConnection() {
  if (connection_ != nullptr) PQfinish(connection_);
}

PostgresConnection::Progress PostgresConnection::start() {
  const auto words = address_.keywords();
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : words) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = PQconnectStartParams(names.data(), values.data(), 0);
  if (connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD) return failed();
  PQsetErrorVerbosity(connection_, PQERRORS_VERBOSE);
  if (goes_elsewhere(connection_)) {
    last_words_ = "libpq would connect to the hostaddr of a service instead of the URL's host";
    return Progress::kFailed;
  }
  polling_ = PGRES_POLLING_WRITING;
  return Progress::kGoesOn;
}

PostgresConnection::Progress PostgresConnection::failed() {
  if (connection_ == nullptr) return Progress::kFailed;
  std::string words = PQerrorMessage(connection_);
  code_ = take_code(words);
  // libpq has not asked the server then.
  if (PQconnectionNeedsPassword(connection_) == 1) code_ = "28P01";
  last_words_ = one_line(std::move(words));
  return Progress::kFailed;
}

PostgresConnection::Progress PostgresConnection::proceed(short /*events*/) {
  polling_ = PQconnectPoll(connection_);
  if (polling_ == PGRES_POLLING_FAILED) return failed();
  if (polling_ != PGRES_POLLING_OK) return Progress::kGoesOn;
  PQsetErrorVerbosity(connection_, PQERRORS_DEFAULT);
  if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1) {
    return failed();
  }
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  connected_ = true;
  return Progress::kDone;
}

PostgresConnection::Awaited PostgresConnection::awaits() {
  if (!connected_) {
    return {PQsocket(connection_),
            static_cast<short>(polling_ == PGRES_POLLING_READING ? POLLIN : POLLOUT)};
  }
  const int left = PQflush(connection_);
  return {PQsocket(connection_), static_cast<short>(left > 0 ? POLLIN | POLLOUT : POLLIN)};
}

bool PostgresConnection::send(const sql::Request& request) {
  Sent sent;
  std::vector<const char*> values;
  for (const Param& param : request.params) values.push_back(param ? param->c_str() : nullptr);
  const int count = static_cast<int>(values.size());
  bool good = true;
  if (*prepares_) {
    good = prepare(request.text, sent) &&
           PQsendQueryPrepared(connection_, sent.name.c_str(), count, values.data(), nullptr,
                               nullptr, 0) == 1;
  } else {
    good = PQsendQueryParams(connection_, request.text.c_str(), count, nullptr, values.data(),
                             nullptr, nullptr, 0) == 1;
  }
  sent_.push_back(std::move(sent));
  return good && PQpipelineSync(connection_) == 1;
}

// A handful of texts come again and again, and comparing them is cheaper than hashing.
const std::string& PostgresConnection::known_name_of(const std::string& text) {
  const auto known = std::find_if(names_.begin(), names_.end(),
                                  [&](const auto& each) { return each.first == text; });
  if (known != names_.end()) return known->second;
  if (names_.size() >= kMostNames) names_.clear();
  return names_.emplace_back(text, name_of(text)).second;
}

bool PostgresConnection::prepare(const std::string& text, Sent& sent) {
  sent.name = known_name_of(text);
  const bool first = prepared_.empty();
  sent.prepares = prepared_.insert(sent.name).second;
  if (!sent.prepares) return true;
  if (first) {
    ++sent.ahead;
    if (PQsendQueryParams(connection_, kPlanning, 0, nullptr, nullptr, nullptr, nullptr, 0) != 1) {
      return false;
    }
  }
  ++sent.ahead;
  return PQsendPrepare(connection_, sent.name.c_str(), text.c_str(), 0, nullptr) == 1;
}

bool PostgresConnection::receive(short /*events*/, const Sink& sink) {
  if (PQconsumeInput(connection_) == 0) return false;
  int gaps = 0;
  while (!sent_.empty() && PQisBusy(connection_) == 0) {
    PGresult* result = PQgetResult(connection_);
    if (result == nullptr) {  // Between two commands; a second one: nothing more is there.
      if (++gaps > 1) break;
      continue;
    }
    gaps = 0;
    if (!take(result, sink)) return false;
  }
  if (PQstatus(connection_) == CONNECTION_BAD) return false;
  while (PGnotify* told = PQnotifies(connection_)) {
    if (sink.notified) sink.notified(told->relname, told->extra);
    PQfreemem(told);
  }
  return true;
}

// False: the server ends the connection.
bool PostgresConnection::take(PGresult* result, const Sink& sink) {
  auto rows = std::make_shared<PostgresRows>(result);
  Sent& sent = sent_.front();
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
      if (sent.ahead > 0) {
        --sent.ahead;
        // kPlanning's; PREPARE has no rows. A pooler told a number of its own at log-in.
        if (rows->size() > 0) own_session_ = rows->number(0, 0) == process_id();
      } else {
        sent.answer = {sql::Fate::kDone, std::move(rows)};
      }
      return true;
    case PGRES_PIPELINE_SYNC: {
      sql::Answer answer = std::move(sent.answer);
      sent_.pop_front();
      sink.answered(std::move(answer));
      return true;
    }
    case PGRES_PIPELINE_ABORTED: return true;
    default: break;
  }
  // Whatever the server says when it ends the connection, the statement may have been committed.
  if (field_of(result, PG_DIAG_SEVERITY_NONLOCALIZED) != "ERROR") {
    last_words_ = one_line(PQresultErrorMessage(result));
    return false;
  }
  sent.answer = {sql::Fate::kRefused, nullptr, field_of(result, PG_DIAG_SQLSTATE),
                 field_of(result, PG_DIAG_MESSAGE_PRIMARY)};
  // A plan that could not be made, or was forgotten, is made again with the next statement.
  if (sent.ahead > 0 || sent.answer.code == "26000") prepared_.erase(sent.name);
  return true;
}

std::string PostgresConnection::error() const {
  if (connection_ == nullptr) return "no memory for a connection";
  std::string why = last_words_.empty() ? one_line(PQerrorMessage(connection_)) : last_words_;
  why += advice_on(code_, why);
  if (is_of_another_server(why)) {
    why += ": no PostgreSQL server is there: check the URL's host and port";
  }
  return why;
}

}  // namespace holdfast::stores::postgres
