#include "src/port/url_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "holdfast/detail/number.h"

namespace holdfast::port {
namespace {

constexpr std::size_t kLongestPassword = 64 * 1024;
constexpr std::size_t kMostEndpoints = 32;

Error bad_part(std::string_view store, const std::string& what) {
  return {Errc::kInvalidArgument, std::string(store) + " URL: " + what};
}

// One line of a descriptor, read to its end so that a pipe's writer is not cut off.
Result<std::string> first_line(int fd, std::string_view store, const std::string& where) {
  std::string text;
  char chunk[4096];
  while (true) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return bad_part(store,
                      "cannot read the password from " + where + ": " + std::strerror(errno));
    }
    if (got == 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kLongestPassword) {
      return bad_part(store, where + " is too long for a password");
    }
  }
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  if (text.empty()) return bad_part(store, "the password's first line is empty in " + where);
  return text;
}

Result<std::string> password_of_file(const std::string& path, std::string_view store) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Errc code =
        errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kInvalidArgument;
    return Error{code, std::string(store) + " URL: cannot open password_file '" + path +
                           "': " + std::strerror(errno)};
  }
  auto line = first_line(fd, store, "password_file '" + path + "'");
  ::close(fd);
  return line;
}

Result<std::string> password_of_variable(const std::string& name, std::string_view store) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') {
    return bad_part(store, "password_env: the environment has no variable '" + name + "'");
  }
  return std::string(value);
}

Result<void> take_before_at(StoreUrl& url, Login& login) {
  const auto at = url.authority.rfind('@');
  if (at == std::string::npos) return {};
  const std::string both = url.authority.substr(0, at);
  url.authority.erase(0, at + 1);
  const auto colon = both.find(':');
  auto user = percent_decode(std::string_view(both).substr(0, colon));
  if (!user) return user.error();
  login.user = *std::move(user);
  if (colon == std::string::npos) return {};
  auto password = percent_decode(std::string_view(both).substr(colon + 1));
  if (!password) return password.error();
  if (!password->empty()) login.password = *std::move(password);
  return {};
}

bool fits_host(std::string_view host) {
  return host.size() <= 255 && std::none_of(host.begin(), host.end(), [](unsigned char c) {
           return c <= ' ' || c == 0x7f ||
                  std::string_view("'\";&=").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

struct HostAndPort {
  std::string_view host;
  std::optional<std::string_view> port;
};

Result<HostAndPort> split_endpoint(std::string_view text, std::string_view store) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad_part(store, "an IPv6 address ends with ']'");
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') {
      return bad_part(store, "after [address] comes :port or nothing");
    }
    HostAndPort parts{text.substr(1, close - 1), std::nullopt};
    if (!rest.empty()) parts.port = rest.substr(1);
    return parts;
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return HostAndPort{text, std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos) {
    return bad_part(store, "an IPv6 address is written in brackets, [::1]:6379");
  }
  return HostAndPort{text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

std::string Endpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::uint32_t> parse_number(std::string_view text, std::uint32_t largest,
                                   std::string_view store, std::string_view what) {
  const auto number = detail::parse_number<std::uint32_t>(text);
  if (!number || *number > largest) {
    return bad_part(store, std::string(what) + " is a number up to " + std::to_string(largest));
  }
  return *number;
}

Result<Endpoint> parse_endpoint(std::string_view text, const Endpoint& fallback,
                                std::string_view store) {
  const auto parts = split_endpoint(text, store);
  if (!parts) return parts.error();
  if (parts->host.find(',') != std::string_view::npos) {
    return bad_part(store, "names one server, not a list");
  }
  if (!fits_host(parts->host)) return bad_part(store, "that is no host name");
  Endpoint endpoint = fallback;
  if (!parts->host.empty()) endpoint.host = std::string(parts->host);
  if (!parts->port) return endpoint;
  const auto number = parse_number(*parts->port, 65535, store, "the port");
  if (!number) return number.error();
  if (*number == 0) return bad_part(store, "port 0 cannot be connected to");
  endpoint.port = static_cast<std::uint16_t>(*number);
  return endpoint;
}

Result<void> expect_slashes(const StoreUrl& url, std::string_view store) {
  if (url.has_authority || url.path.empty()) return {};
  return bad_part(store, "write two slashes before the server: " + url.scheme + "://host:port");
}

Result<std::vector<Endpoint>> parse_endpoints(const StoreUrl& url, const Endpoint& fallback,
                                              std::string_view store) {
  if (auto good = expect_slashes(url, store); !good) return good.error();
  std::string_view text = url.authority;
  const bool several = text.find(',') != std::string_view::npos;
  std::vector<Endpoint> endpoints;
  while (true) {
    const auto comma = text.find(',');
    if (several && text.substr(0, comma).empty()) {
      return bad_part(store, "a server's name is empty: remove a comma");
    }
    auto endpoint = parse_endpoint(text.substr(0, comma), fallback, store);
    if (!endpoint) return endpoint.error();
    if (std::find(endpoints.begin(), endpoints.end(), *endpoint) != endpoints.end()) {
      return bad_part(store, "names " + endpoint->text() + " twice");
    }
    endpoints.push_back(*std::move(endpoint));
    if (endpoints.size() > kMostEndpoints) return bad_part(store, "names more than 32 servers");
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

Result<Login> take_login(StoreUrl& url, std::string_view store, const char* variable) {
  Login login;
  if (auto taken = take_before_at(url, login); !taken) return taken.error();
  const auto options = UrlOptions::take(url, store, kLoginOptions);
  if (!options) return options.error();
  if (options->has("user")) {
    if (!login.user.empty()) return bad_part(store, "the user is given twice");
    login.user = options->text("user");
  }
  int named = login.password ? 1 : 0;
  for (const UrlOption& option : kLoginOptions) {
    if (option.name != "user" && options->has(option.name)) ++named;
  }
  if (named > 1) {
    return bad_part(store, "name one of password, password_file, password_env, password_fd");
  }
  if (options->has("password")) login.password = options->text("password");
  std::optional<Result<std::string>> read;
  if (options->has("password_env")) {
    read = password_of_variable(options->text("password_env"), store);
  } else if (options->has("password_file")) {
    read = password_of_file(options->text("password_file"), store);
  } else if (options->has("password_fd")) {
    read = first_line(static_cast<int>(options->number("password_fd")), store,
                      "descriptor " + options->text("password_fd"));
  }
  if (read && !*read) return read->error();
  if (read) login.password = **read;
  if (named == 0) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') login.password = value;
  }
  return login;
}

Result<TlsPaths> take_tls(StoreUrl& url, bool tls, std::string_view store,
                          std::string_view tls_scheme) {
  const auto options = UrlOptions::take(url, store, kTlsOptions);
  if (!options) return options.error();
  for (const UrlOption& option : kTlsOptions) {
    const std::string name(option.name);
    if (!options->has(name)) continue;
    if (!tls) return bad_part(store, name + " needs " + std::string(tls_scheme));
    if (options->text(name).empty()) return bad_part(store, name + " is empty");
  }
  TlsPaths paths{options->text("tls_ca"), options->text("tls_cert"), options->text("tls_key"),
                 options->text("tls_name")};
  if (!paths.key.empty() && paths.cert.empty()) return bad_part(store, "tls_key needs tls_cert");
  if (paths.key.empty()) paths.key = paths.cert;
  return paths;
}

}  // namespace holdfast::port
