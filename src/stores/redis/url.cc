#include "src/stores/redis/url.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kLongestSocketPath = 107;
constexpr std::size_t kLongestPassword = 64 * 1024;
constexpr std::uint32_t kLargestDb = 1'000'000;

Error bad(std::string what) { return {Errc::kInvalidArgument, "redis URL: " + std::move(what)}; }

Result<std::uint32_t> parse_number(std::string_view text, std::uint32_t largest, const char* what) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end || number > largest) {
    return bad(std::string(what) + " is a number up to " + std::to_string(largest));
  }
  return number;
}

// One line of a descriptor, read to its end so that a pipe's writer is not cut off.
Result<std::string> first_line(int fd, const std::string& where) {
  std::string text;
  char chunk[4096];
  while (true) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad("cannot read the password from " + where + ": " + std::strerror(errno));
    if (got == 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kLongestPassword) return bad(where + " is too long for a password");
  }
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  if (text.empty()) return bad("the password's first line is empty in " + where);
  return text;
}

Result<std::string> password_of_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Errc code =
        errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kInvalidArgument;
    return Error{code,
                 "redis URL: cannot open password_file '" + path + "': " + std::strerror(errno)};
  }
  auto line = first_line(fd, "password_file '" + path + "'");
  ::close(fd);
  return line;
}

Result<void> take_host(std::string_view text, RedisAddress& address) {
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad("an IPv6 address ends with ']'");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return bad("after [address] comes :port or nothing");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return bad("an IPv6 address is written in brackets, [::1]:6379");
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (host.find(',') != std::string_view::npos) return bad("names one server, not a list");
  if (host.size() > 255 || std::any_of(host.begin(), host.end(), [](unsigned char c) {
        return c <= ' ' || c == 0x7f ||
               std::string_view("'\";&=").find(static_cast<char>(c)) != std::string_view::npos;
      })) {
    return bad("that is no host name");
  }
  if (!host.empty()) address.host = std::string(host);
  if (!has_port) return {};
  const auto number = parse_number(port, 65535, "the port");
  if (!number) return number.error();
  if (*number == 0) return bad("port 0 cannot be connected to");
  address.port = static_cast<std::uint16_t>(*number);
  return {};
}

Result<void> take_authority(const port::StoreUrl& url, RedisAddress& address) {
  std::string_view rest = url.authority;
  if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    const auto colon = login.find(':');
    auto user = port::percent_decode(login.substr(0, colon));
    if (!user) return user.error();
    address.user = *std::move(user);
    if (colon != std::string_view::npos) {
      auto password = port::percent_decode(login.substr(colon + 1));
      if (!password) return password.error();
      if (!password->empty()) address.password = *std::move(password);
    }
  }
  if (url.scheme != "redis+unix") return take_host(rest, address);
  if (!rest.empty()) return bad("redis+unix:// has no host: three slashes before the path");
  return {};
}

Result<void> take_path(port::StoreUrl& url, RedisAddress& address) {
  std::string path = std::exchange(url.path, "");
  if (url.scheme == "redis+unix") {
    if (!path.starts_with('/') || path.size() < 2) {
      return bad("write redis+unix:///path/to/redis.sock");
    }
    // It is shown in messages.
    if (path.find_first_of("&;") != std::string::npos && path.find('=') != std::string::npos) {
      return bad("options stand behind a '?', not in the socket's path");
    }
    if (path.size() > kLongestSocketPath) return bad("a socket's path has at most 107 bytes");
    address.socket_path = std::move(path);
    return {};
  }
  const bool in_path = path.size() > 1;
  auto option = url.take("db");
  if (in_path && option) return bad("the database stands twice, as the path and as db=");
  if (!in_path && !option) return {};
  const auto db = parse_number(in_path ? std::string_view(path).substr(1) : *option, kLargestDb,
                               "the database (/db)");
  if (!db) return db.error();
  address.db = *db;
  return {};
}

Result<void> take_password(port::StoreUrl& url, RedisAddress& address) {
  int named = address.password ? 1 : 0;
  if (auto user = url.take("user")) {
    if (!address.user.empty()) return bad("the user stands twice");
    address.user = *std::move(user);
  }
  const auto plain = url.take("password");
  const auto file = url.take("password_file");
  const auto variable = url.take("password_env");
  const auto descriptor = url.take("password_fd");
  for (const auto* source : {&plain, &file, &variable, &descriptor}) named += *source ? 1 : 0;
  if (named > 1) return bad("name one of password, password_file, password_env, password_fd");
  if (plain) address.password = *plain;
  if (variable) {
    const char* value = std::getenv(variable->c_str());
    if (value == nullptr || *value == '\0') {
      return bad("password_env: the environment has no variable '" + *variable + "'");
    }
    address.password = value;
  }
  if (file) {
    auto line = password_of_file(*file);
    if (!line) return line.error();
    address.password = *std::move(line);
  }
  if (descriptor) {
    const auto fd = parse_number(*descriptor, 1'000'000, "password_fd");
    if (!fd) return fd.error();
    auto line = first_line(static_cast<int>(*fd), "descriptor " + *descriptor);
    if (!line) return line.error();
    address.password = *std::move(line);
  }
  if (named == 0) {
    const char* value = std::getenv("HOLDFAST_REDIS_PASSWORD");
    if (value != nullptr && *value != '\0') address.password = value;
  }
  return {};
}

Result<void> take_tls(port::StoreUrl& url, RedisAddress& address) {
  address.tls = url.scheme == "rediss";
  for (const auto& [key, place] : {std::pair{"tls_ca", &address.tls_ca},
                                   {"tls_cert", &address.tls_cert},
                                   {"tls_key", &address.tls_key},
                                   {"tls_name", &address.tls_name}}) {
    auto value = url.take(key);
    if (!value) continue;
    if (!address.tls) return bad(std::string(key) + " needs rediss://");
    if (value->empty()) return bad(std::string(key) + " is empty");
    *place = *std::move(value);
  }
  if (!address.tls_key.empty() && address.tls_cert.empty()) return bad("tls_key needs tls_cert");
  // One file may hold both.
  if (address.tls_key.empty()) address.tls_key = address.tls_cert;
  return {};
}

}  // namespace

std::string RedisAddress::display() const {
  const std::string tail = db == 0 ? "" : (socket_path.empty() ? "/" : "?db=") + std::to_string(db);
  if (!socket_path.empty()) return "redis+unix://" + socket_path + tail;
  const bool v6 = host.find(':') != std::string::npos;
  return (tls ? "rediss://" : "redis://") + (v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port) + tail;
}

Result<RedisAddress> parse_redis_url(port::StoreUrl& url) {
  if (url.scheme != "redis" && url.scheme != "rediss" && url.scheme != "redis+unix") {
    return bad("begins with redis://, rediss:// or redis+unix://");
  }
  RedisAddress address;
  if (auto taken = take_authority(url, address); !taken) return taken.error();
  if (url.scheme == "redis+unix") {
    if (auto option = url.take("db")) {
      const auto db = parse_number(*option, kLargestDb, "db");
      if (!db) return db.error();
      address.db = *db;
    }
  }
  if (auto taken = take_path(url, address); !taken) return taken.error();
  if (auto taken = take_password(url, address); !taken) return taken.error();
  if (auto taken = take_tls(url, address); !taken) return taken.error();
  if (auto text = url.take("connect_timeout")) {
    const auto time = port::parse_duration(*text);
    if (!time) return bad("connect_timeout: " + time.error().message());
    if (time->count() <= 0) return bad("connect_timeout is longer than nothing");
    address.connect_timeout = *time;
  }
  return address;
}

}  // namespace holdfast::stores::redis
