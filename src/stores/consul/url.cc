#include "src/stores/consul/url.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "holdfast/detail/percent.h"

namespace holdfast::stores::consul {
namespace {

constexpr std::size_t kLongestPrefix = 128;
constexpr char kPrefix[] = "holdfast";

Error bad(std::string what) { return {Errc::kInvalidArgument, "consul URL: " + std::move(what)}; }

// Prefixes the error about the user's text.
Error in_our_words(const Error& error) {
  std::string text = error.message();
  const std::string theirs = "password";
  for (auto at = text.find(theirs); at < text.find('\''); at = text.find(theirs, at)) {
    text.replace(at, theirs.size(), "token");
  }
  return {error.code(), text};
}

// The token takes the place of other stores' password, so both spellings are accepted.
Result<void> take_token(port::StoreUrl& url, ConsulAddress& address) {
  // Other code reads "token@host" as a user without a password.
  if (const auto at = url.authority.rfind('@'); at != std::string::npos) {
    if (url.authority.substr(0, at).find(':') != std::string::npos) {
      return bad("the part before the '@' must be one token, without a ':'");
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
  // The token becomes a line of a request.
  if (std::any_of(address.token.begin(), address.token.end(),
                  [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    return bad("the token contains an invalid character");
  }
  return {};
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
        "the path is the prefix of all keys: letters, digits, '/', '-', at most 128 bytes; none of "
        "its segments is empty, '.' or '..'");
  }
  address.prefix = std::move(path);
  address.has_path = true;
  return {};
}

Result<void> take_ways(port::StoreUrl& url, ConsulAddress& address) {
  const auto options = port::UrlOptions::take(url, "consul", kUrlOptions);
  if (!options) return options.error();
  if (options->has("dc")) {
    address.datacenter = options->text("dc");
    const bool good = !address.datacenter.empty() &&
                      std::all_of(address.datacenter.begin(), address.datacenter.end(), [](char c) {
                        return detail::is_alphanumeric(c) || c == '-' || c == '_';
                      });
    if (!good) return bad("dc is a datacenter's name");
  }
  if (options->has("recipe")) {
    address.recipe = true;
    // With a recipe, the path names the shared locks, and our own keys move aside.
    if (address.has_path) address.shared_path = std::exchange(address.prefix, kPrefix) + "/";
    address.lock_delay = options->time("lock_delay");
  } else if (options->has("lock_delay")) {
    return bad("lock_delay goes with recipe=consul: other locks need none");
  }
  address.session_ttl = options->time("session");
  address.connect_timeout = options->time("connect_timeout");
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
