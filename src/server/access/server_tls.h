// TLS for a server, which the module of the store `holdfast` makes.
#pragma once

#include <string>

#include "holdfast/result.h"
#include "src/port/service/server_tls.h"

namespace holdfast::server {

// `key` empty: the certificate's file has it, too. `trusted` vouches for the servers that this one
// connects to; empty: the system's trusted certificates do. Errors: kInvalidArgument,
// kPermissionDenied, naming the file; kUnsupported: this build has no TLS.
Result<port::ServerTlsPtr> make_server_tls(const std::string& certificate, const std::string& key,
                                           const std::string& trusted);

}  // namespace holdfast::server
