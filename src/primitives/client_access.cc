#include "src/primitives/client_access.h"

#include "src/session/core.h"

namespace holdfast {

Client::Client(std::shared_ptr<session::Core> core) : core_(std::move(core)) {}

}  // namespace holdfast
