// Certificates for a test: good ones, and those that must be refused.
//
// Made once per test process with the openssl program; valid for two days; keys without password.
#pragma once

#include <string>

namespace holdfast::support {

struct KeyPair {
  std::string certificate;  // Paths of PEM files.
  std::string key;
};

struct TlsFiles {
  std::string ca;          // The authority's certificate.
  KeyPair server;          // For "localhost", 127.0.0.1 and ::1.
  KeyPair wrong_host;      // Good, but for "elsewhere.invalid".
  KeyPair client;          // CN=client.
  std::string foreign_ca;  // An authority nobody trusts,
  KeyPair foreign_server;  // and what it signed, for the same names as `server`.
  KeyPair foreign_client;
};

// Throws when there is no openssl program. Thread-safe.
const TlsFiles& tls_files();

}  // namespace holdfast::support
