// The stores that this library knows, as data: for programs that let people choose one, complete
// its URL, or keep its secrets off a screen. Each is declared in src/stores/NAME/manifest.h.
//
// Guarantee: the facts hold for every server of that kind and need no connection. The guarantees of
// one running server are in Client::guarantees(). Not guaranteed: that the store is part of this
// build, or that its module is installed; Client::connect() tells.
// Thread-safety: constants. Errors: none.
#pragma once

#include <span>
#include <string_view>

#include "holdfast/export.h"

namespace holdfast {

// The part before the `@` of a store's URL.
enum class StoreLogin {
  kNone,      // The store has no log-in: an `@` is part of a path.
  kPassword,  // "user:password"; the password is secret.
  kToken,     // One token, all of it secret.
};

struct StoreExample {
  std::string_view url;
  std::string_view about;
};

struct StoreKind {
  std::string_view name;  // "consul"; also the label of its tests and the end of its module's name.
  std::string_view title;                        // "Consul"
  std::span<const std::string_view> url_starts;  // "consul://", "consuls://": one for each scheme.
  StoreExample pattern;                          // {"consul://HOST, consuls://HOST", "many hosts"}
  std::span<const StoreExample> examples;        // A few URLs that could be real.
  StoreLogin login{};
  std::string_view secret_variable{};  // The password or token, where the URL names none.
  bool path_is_number = false;         // "/3" after the host: no name can be taken for a password.
  std::span<const std::string_view> open_options{};  // Its URL options that hold no secret.
  // As `holdfast doctor --require` names them: "fenced", "survives-failover" ...
  std::span<const std::string_view> leaves_out{};
  bool bound_to_client = false;     // As Guarantees::bound_to_client.
  bool shared_by_processes = true;  // false: it lives and dies with one process.
};

// In the order of registration.
HOLDFAST_EXPORT std::span<const StoreKind> known_stores() noexcept;

// The store whose scheme the URL begins with, in letters of either case; nullptr: none.
HOLDFAST_EXPORT const StoreKind* store_of_url(std::string_view url) noexcept;

}  // namespace holdfast
