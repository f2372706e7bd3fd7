// TLS for the lock service itself, by the OpenSSL that this store's module links.
//
// Guarantee and limits: as in src/port/service/server_tls.h. A client that does not speak TLS is
// told so in a line of the Redis protocol.
#pragma once

#include <string>

#include "holdfast/result.h"
#include "src/port/service/server_tls.h"

namespace holdfast::stores::holdfast {

// `trusted` vouches for the other servers that this one connects to; empty: the system's trusted
// certificates do. Errors: kInvalidArgument, kPermissionDenied, naming the file.
Result<port::ServerTlsPtr> make_server_tls(const std::string& certificate, const std::string& key,
                                           const std::string& trusted);

}  // namespace holdfast::stores::holdfast
