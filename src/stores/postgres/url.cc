#include "src/stores/postgres/url.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace holdfast::stores::postgres {
namespace {

Error bad(std::string what) { return {Errc::kInvalidArgument, "postgres URL: " + std::move(what)}; }

// Such a name needs no quotes: it reads the same in messages, settings and SQL.
bool plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

Result<void> take_place(port::StoreUrl& url, PostgresAddress& address) {
  std::string path = std::exchange(url.path, "");
  if (url.scheme == "postgres+unix") {
    if (!url.authority.empty()) return bad("postgres+unix:// has no host: three slashes");
    if (path.size() < 2) return bad("write postgres+unix:///folder/of/the/socket");
    address.socket_folder = std::move(path);
    return {};
  }
  if (auto good = port::expect_slashes(url, "postgres"); !good) return good;
  auto hosts = port::parse_endpoints(url, {"127.0.0.1", 5432}, "postgres");
  if (!hosts) return hosts.error();
  address.hosts = *std::move(hosts);
  if (path.size() > 1) address.database = path.substr(1);
  return {};
}

std::string joined(const std::vector<port::Endpoint>& hosts, bool ports) {
  std::string text;
  for (const port::Endpoint& host : hosts) {
    if (!text.empty()) text += ',';
    text += ports ? std::to_string(host.port) : host.host;
  }
  return text;
}

}  // namespace

std::string PostgresAddress::display() const {
  if (!socket_folder.empty()) return "postgres+unix://" + socket_folder + "?database=" + database;
  std::string text = tls ? "postgress://" : "postgres://";
  for (const port::Endpoint& host : hosts) {
    if (&host != &hosts.front()) text += ',';
    text += host.text();
  }
  return text + '/' + database;
}

std::vector<std::pair<std::string, std::string>> PostgresAddress::keywords() const {
  std::vector<std::pair<std::string, std::string>> words = {
      {"dbname", database},
      {"application_name", "holdfast"},
      {"client_encoding", "UTF8"},
      {"gssencmode", "disable"},
      // Also where it is "any": otherwise PGTARGETSESSIONATTRS would count.
      {"target_session_attrs", hosts.size() > 1 ? "read-write" : "any"},
      {"tcp_user_timeout", std::to_string(std::max<long>(connect_timeout.count() * 3, 5'000))},
  };
  if (socket_folder.empty()) {
    words.emplace_back("host", joined(hosts, false));
    words.emplace_back("port", joined(hosts, true));
  } else {
    words.emplace_back("host", socket_folder);
    words.emplace_back("port", std::to_string(socket_port));
  }
  // libpq takes an empty word for none. Older poolers refuse clients that send this setting.
  if (overrides_options) words.emplace_back("options", " ");
  if (!login.user.empty()) words.emplace_back("user", login.user);
  if (login.password) words.emplace_back("password", *login.password);
  words.emplace_back("sslmode", tls ? "verify-full" : "disable");
  if (tls) {
    words.emplace_back("sslrootcert", tls_paths.ca.empty() ? "system" : tls_paths.ca);
    if (!tls_paths.cert.empty()) {
      words.emplace_back("sslcert", tls_paths.cert);
      words.emplace_back("sslkey", tls_paths.key.empty() ? tls_paths.cert : tls_paths.key);
    }
  }
  return words;
}

Result<PostgresAddress> parse_postgres_url(port::StoreUrl& url) {
  PostgresAddress address;
  address.tls = url.scheme == "postgress";
  // libpq has no word for "none", and two users of one URL must meet at one server.
  if (const char* elsewhere = std::getenv("PGHOSTADDR"); elsewhere && *elsewhere != '\0') {
    return bad("libpq would connect to PGHOSTADDR instead of the URL's host: unset that variable");
  }
  // Settings that these bring for the server's session could make it read-only or end statements.
  for (const char* brings : {"PGOPTIONS", "PGSERVICE"}) {
    const char* set = std::getenv(brings);
    address.overrides_options = address.overrides_options || (set != nullptr && *set != '\0');
  }
  const char* variable = "HOLDFAST_POSTGRES_PASSWORD";
  const char* own = std::getenv(variable);
  if (own == nullptr || *own == '\0') variable = "PGPASSWORD";
  auto login = port::take_login(url, "postgres", variable);
  if (!login) return login.error();
  address.login = *std::move(login);
  auto tls = port::take_tls(url, address.tls, "postgres", "postgress://");
  if (!tls) return tls.error();
  address.tls_paths = *std::move(tls);
  if (!address.tls_paths.name.empty())
    return bad("tls_name is not supported: libpq checks the host");
  const bool in_path = url.scheme != "postgres+unix" && url.path.size() > 1;
  if (auto taken = take_place(url, address); !taken) return taken.error();
  const auto options = port::UrlOptions::take(url, "postgres", kUrlOptions);
  if (!options) return options.error();
  if (options->has("schema")) address.schema = options->text("schema");
  if (options->has("database")) {
    if (in_path) return bad("the database is given twice, as the path and as database=");
    address.database = options->text("database");
  }
  address.create = options->text("create") != "no";
  if (options->has("port")) {
    if (address.socket_folder.empty()) return bad("port is for postgres+unix://: write HOST:PORT");
    address.socket_port = options->number("port");
  }
  address.connect_timeout = options->time("connect_timeout");
  if (!plain_name(address.schema)) {
    return bad("schema is a name of lower-case letters, digits, '_' and '-', at most 63 bytes");
  }
  if (address.schema.starts_with("pg_")) {
    return bad("schema begins with pg_: PostgreSQL keeps such names for itself; name another one");
  }
  return address;
}

}  // namespace holdfast::stores::postgres
