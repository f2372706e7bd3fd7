// The parts that the URLs of network stores have in common: servers, log-in, TLS.
//
// Their options are kLoginOptions and kTlsOptions.
// A password named in two ways is refused.
//
// Guarantee: no message holds a user or a password. `store` is the word messages begin with.
// Thread-safety: pure functions, except for files, descriptors and the environment.
// Errors: kInvalidArgument, with what was expected; kPermissionDenied or kInvalidArgument when a
// password's file or descriptor cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"

namespace holdfast::port {

inline constexpr UrlOption kLoginOptions[] = {
    text_option("user", "as before the '@', where it is percent-encoded"),
    text_option("password", "as before the '@', where it is percent-encoded"),
    text_option("password_file", "a file whose first line is the password"),
    text_option("password_env", "an environment variable that holds the password"),
    number_option("password_fd", "", "a descriptor whose first line is the password; not closed",
                  1'000'000),
};
inline constexpr UrlOption kTlsOptions[] = {
    text_option("tls_ca", "trusted certificates, PEM (default: the system's)"),
    text_option("tls_cert", "the client's certificate chain, PEM; it may hold the key, too"),
    text_option("tls_key", "the client's key, PEM"),
    text_option("tls_name", "host name or address that the server's certificate must carry"),
};

struct Endpoint {
  std::string host;  // Without brackets.
  std::uint16_t port = 0;

  std::string text() const;  // "host:port", "[::1]:port".
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct Login {
  std::string user;
  std::optional<std::string> password;
};

struct TlsPaths {
  std::string ca;
  std::string cert;
  std::string key;
  std::string name;
};

// A whole number up to `largest`. `what` begins the message.
Result<std::uint32_t> parse_number(std::string_view text, std::uint32_t largest,
                                   std::string_view store, std::string_view what);

// "host", "host:port", "[v6]:port"; what is not said is `fallback`'s.
Result<Endpoint> parse_endpoint(std::string_view text, const Endpoint& fallback,
                                std::string_view store);

// Refuses "scheme:host": without the slashes a host would pass for a path, and the server that is
// asked be another one.
Result<void> expect_slashes(const StoreUrl& url, std::string_view store);

// The servers of the URL, separated by commas: at least one, at most 32, none twice, none empty
// beside others.
Result<std::vector<Endpoint>> parse_endpoints(const StoreUrl& url, const Endpoint& fallback,
                                              std::string_view store);

// Takes "user:password@" off the authority, and the options. A password that is named nowhere is
// that of `variable` in the environment, when it is set and not empty.
Result<Login> take_login(StoreUrl& url, std::string_view store, const char* variable);

// Takes the options; without `tls` each of them is refused, with the scheme that it needs.
Result<TlsPaths> take_tls(StoreUrl& url, bool tls, std::string_view store,
                          std::string_view tls_scheme);

}  // namespace holdfast::port
