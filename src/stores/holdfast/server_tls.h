// TLS for the lock service itself, by the OpenSSL that this store's module links.
//
// Guarantee and limits: as in src/port/service/server_tls.h. A client that does not speak TLS is
// told so in a line of the Redis protocol.
#pragma once

#include <string>

#include "holdfast/result.h"
#include "src/port/service/server_tls.h"

namespace holdfast::stores::holdfast {

// Errors: kInvalidArgument, kPermissionDenied, naming the file.
Result<port::ServerTlsPtr> make_server_tls(const std::string& certificate, const std::string& key);

}  // namespace holdfast::stores::holdfast
