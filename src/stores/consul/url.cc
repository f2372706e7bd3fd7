#include "src/stores/consul/url.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace holdfast::stores::consul {
namespace {

constexpr std::size_t kLongestPrefix = 128;
constexpr char kPrefix[] = "holdfast";

Error bad(std::string what) { return {Errc::kInvalidArgument, "consul URL: " + std::move(what)}; }

// In front of what the user has written.
Error in_our_words(const Error& error) {
  std::string text = error.message();
  const std::string theirs = "password";
  for (auto at = text.find(theirs); at < text.find('\''); at = text.find(theirs, at)) {
    text.replace(at, theirs.size(), "token");
  }
  return {error.code(), text};
}

// The token stands where other stores have a password; the words of both are known.
Result<void> take_token(port::StoreUrl& url, ConsulAddress& address) {
  // "token@host" is a user without a password to everybody else.
  if (const auto at = url.authority.rfind('@'); at != std::string::npos) {
    if (url.authority.substr(0, at).find(':') != std::string::npos) {
      return bad("what stands before the '@' is one token, without a ':'");
    }
    url.authority.insert(0, ":");
  }
  for (const auto& [ours, theirs] :
       {std::pair{"token", "password"}, std::pair{"token_file", "password_file"},
        std::pair{"token_env", "password_env"}, std::pair{"token_fd", "password_fd"}}) {
    if (url.take(theirs)) return bad(std::string("Consul has tokens: write ") + ours + "=");
    if (auto value = url.take(ours)) url.options.emplace_back(theirs, *std::move(value));
  }
  if (url.take("user")) return bad("Consul has tokens and no users: write token=");
  const char* variable = "HOLDFAST_CONSUL_TOKEN";
  const char* own = std::getenv(variable);
  if (own == nullptr || *own == '\0') variable = "CONSUL_HTTP_TOKEN";
  auto login = port::take_login(url, "consul", variable);
  if (!login) return in_our_words(login.error());
  address.token = login->password.value_or("");
  // It becomes a line of a request.
  if (std::any_of(address.token.begin(), address.token.end(),
                  [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    return bad("the token has a character that no token has");
  }
  return {};
}

Result<std::chrono::milliseconds> take_time(port::StoreUrl& url, const char* name,
                                            std::chrono::milliseconds otherwise) {
  const auto text = url.take(name);
  if (!text) return otherwise;
  const auto time = port::parse_duration(*text);
  if (!time) return bad(std::string(name) + ": " + time.error().message());
  return *time;
}

Result<void> take_prefix(port::StoreUrl& url, ConsulAddress& address) {
  std::string path = std::exchange(url.path, "");
  while (path.starts_with('/')) path.erase(0, 1);
  while (path.ends_with('/')) path.pop_back();
  if (path.empty()) return {};
  const bool odd = std::any_of(path.begin(), path.end(), [](unsigned char c) {
    return c <= ' ' || c >= 0x7f ||
           std::string_view("%?#&\\\"").find(static_cast<char>(c)) != std::string_view::npos;
  });
  const std::string slashed = "/" + path + "/";
  if (odd || path.size() > kLongestPrefix || slashed.find("//") != std::string::npos ||
      slashed.find("/../") != std::string::npos || slashed.find("/./") != std::string::npos) {
    return bad(
        "the path is what keys begin with: letters, digits, '/', '-', at most 128 bytes; none of "
        "its segments is empty, '.' or '..'");
  }
  address.prefix = std::move(path);
  address.has_path = true;
  return {};
}

Result<void> take_ways(port::StoreUrl& url, ConsulAddress& address) {
  if (auto dc = url.take("dc")) {
    const bool good = !dc->empty() && std::all_of(dc->begin(), dc->end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    });
    if (!good) return bad("dc is a datacenter's name");
    address.datacenter = *std::move(dc);
  }
  if (const auto recipe = url.take("recipe")) {
    if (*recipe != "consul") return bad("recipe=consul is the only one there is");
    address.recipe = true;
    // Our own keys stand aside.
    if (address.has_path) address.shared_path = std::exchange(address.prefix, kPrefix) + "/";
    address.lock_delay = std::chrono::seconds(15);
  }
  const bool delays = std::any_of(url.options.begin(), url.options.end(),
                                  [](const auto& each) { return each.first == "lock_delay"; });
  if (delays && !address.recipe) {
    return bad("lock_delay goes with recipe=consul: other locks need none");
  }
  const auto delay = take_time(url, "lock_delay", address.lock_delay);
  if (!delay) return delay.error();
  if (*delay < std::chrono::milliseconds(0) || *delay > std::chrono::seconds(60)) {
    return bad("lock_delay is at most 60s");
  }
  address.lock_delay = *delay;
  const auto ttl = take_time(url, "session", address.session_ttl);
  if (!ttl) return ttl.error();
  // Less than 10 s is for servers that were told so (session_ttl_min).
  if (*ttl < std::chrono::milliseconds(500) || *ttl > std::chrono::hours(24)) {
    return bad("session is 10s to 24h");
  }
  address.session_ttl = *ttl;
  const auto connect = take_time(url, "connect_timeout", address.connect_timeout);
  if (!connect) return connect.error();
  if (connect->count() <= 0) return bad("connect_timeout is longer than nothing");
  address.connect_timeout = *connect;
  return {};
}

}  // namespace

std::string ConsulAddress::display() const {
  std::string text = tls ? "consuls://" : "consul://";
  for (std::size_t i = 0; i < hosts.size(); ++i) text += (i == 0 ? "" : ",") + hosts[i].text();
  return text + "/" + prefix;
}

Result<ConsulAddress> parse_consul_url(port::StoreUrl& url) {
  if (url.scheme != "consul" && url.scheme != "consuls") {
    return bad("begins with consul:// or consuls://");
  }
  ConsulAddress address;
  address.tls = url.scheme == "consuls";
  if (auto taken = take_token(url, address); !taken) return taken.error();
  auto tls = port::take_tls(url, address.tls, "consul", "consuls");
  if (!tls) return tls.error();
  address.tls_paths = *std::move(tls);
  const port::Endpoint fallback{"127.0.0.1", static_cast<std::uint16_t>(address.tls ? 8501 : 8500)};
  auto hosts = port::parse_endpoints(url, fallback, "consul");
  if (!hosts) return hosts.error();
  address.hosts = *std::move(hosts);
  if (auto taken = take_prefix(url, address); !taken) return taken.error();
  if (auto taken = take_ways(url, address); !taken) return taken.error();
  return address;
}

}  // namespace holdfast::stores::consul
