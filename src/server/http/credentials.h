// The head of a request says who sends it, and which server it means.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "src/server/http/http_codec.h"

namespace holdfast::server {

struct Credentials {
  std::string user;
  std::string password;
};

// Reads "Basic ..."; nullopt: it is nothing like it.
std::optional<Credentials> read_credentials(std::string_view authorization);

// The address of the caller whose request another server has forwarded. nullopt: the
// request was not forwarded. Not guaranteed: that it is true, because every sender may write it.
std::optional<std::string> forwarded_for(const HttpRequest& request);

// "Locks.example:7421" is "locks.example"; "[::1]:1" is "[::1]".
std::string host_of(std::string_view authority);

// Why the request must not be served: by another host's name a page of a browser may have come
// here, and a page of another origin must not change locks (safety rule 63). nullopt: it may.
std::optional<HttpAnswer> refuse_origin(const HttpRequest& request,
                                        const std::set<std::string>& hosts);

}  // namespace holdfast::server
