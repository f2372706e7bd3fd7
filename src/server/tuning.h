// A server as tests start it.
#pragma once

#include "holdfast/result.h"
#include "holdfast/server.h"
#include "src/server/front/front.h"
#include "src/server/http/http_front.h"
#include "src/server/service.h"
#include "src/server/sharing.h"

namespace holdfast::server {

struct ServerTuning {
  ServiceOptions service{};
  FrontLimits front{};
  HttpLimits http{};
  SharingTimes sharing{};
};

struct ServerAccess {
  static Result<Server> start(ServerOptions options, ServerTuning tuning);
};

}  // namespace holdfast::server
