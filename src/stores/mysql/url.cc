#include "src/stores/mysql/url.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace holdfast::stores::mysql {
namespace {

Error bad(std::string what) { return {Errc::kInvalidArgument, "mysql URL: " + std::move(what)}; }

// Such a name reads the same in messages and, between backticks, in SQL.
bool plain_name(std::string_view name, std::size_t longest) {
  return !name.empty() && name.size() <= longest &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

Result<void> take_place(port::StoreUrl& url, MysqlAddress& address) {
  std::string path = std::exchange(url.path, "");
  if (url.scheme == "mysql+unix") {
    if (!url.authority.empty()) return bad("mysql+unix:// has no host: three slashes");
    if (path.size() < 2) return bad("write mysql+unix:///path/of/the/socket");
    address.socket = std::move(path);
    return {};
  }
  if (auto good = port::expect_slashes(url, "mysql"); !good) return good;
  auto hosts = port::parse_endpoints(url, {"127.0.0.1", 3306}, "mysql");
  if (!hosts) return hosts.error();
  address.hosts = *std::move(hosts);
  if (path.size() > 1) address.database = path.substr(1);
  return {};
}

}  // namespace

std::string MysqlAddress::display() const {
  if (!socket.empty()) return "mysql+unix://" + socket + "?database=" + database;
  std::string text = tls ? "mysqls://" : "mysql://";
  for (const port::Endpoint& host : hosts) {
    if (&host != &hosts.front()) text += ',';
    text += host.text();
  }
  return text + '/' + database;
}

Result<MysqlAddress> parse_mysql_url(port::StoreUrl& url) {
  MysqlAddress address;
  address.tls = url.scheme == "mysqls";
  const char* variable = "HOLDFAST_MYSQL_PASSWORD";
  const char* own = std::getenv(variable);
  if (own == nullptr || *own == '\0') variable = "MYSQL_PWD";
  auto login = port::take_login(url, "mysql", variable);
  if (!login) return login.error();
  address.login = *std::move(login);
  auto tls = port::take_tls(url, address.tls, "mysql", "mysqls://");
  if (!tls) return tls.error();
  address.tls_paths = *std::move(tls);
  if (!address.tls_paths.name.empty()) {
    return bad("tls_name is not supported: libmariadb checks the host");
  }
  const bool in_path = url.scheme != "mysql+unix" && url.path.size() > 1;
  if (auto taken = take_place(url, address); !taken) return taken.error();
  const auto options = port::UrlOptions::take(url, "mysql", kUrlOptions);
  if (!options) return options.error();
  if (options->has("database")) {
    if (in_path) return bad("the database is given twice, as the path and as database=");
    address.database = options->text("database");
  }
  address.create = options->text("create") != "no";
  if (options->has("prefix")) address.prefix = options->text("prefix");
  address.connect_timeout = options->time("connect_timeout");
  if (!plain_name(address.database, 64)) {
    return bad("database is a name of letters, digits, '_' and '-', at most 64 bytes");
  }
  if (!plain_name(address.prefix, 40)) {
    return bad("prefix is a name of letters, digits, '_' and '-', at most 40 bytes");
  }
  return address;
}

}  // namespace holdfast::stores::mysql
