#include "src/stores/zookeeper/transport/errors.h"

#include <zookeeper/zookeeper.h>

namespace holdfast::stores::zookeeper {

Error error_of(int rc, bool written, const std::string& what) {
  const std::string text = "zookeeper: " + what + ": ";
  switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
      return {written ? Errc::kOutcomeUnknown : Errc::kUnavailable,
              text + "the connection was lost before the answer came"};
    case ZSESSIONMOVED:
      return {Errc::kUnavailable, text + "the session moved to another server meanwhile"};
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE: return {Errc::kLost, text + "the session has ended"};
    case ZCLOSING: return {Errc::kLost, text + "the session was given up"};
    case ZNOAUTH:
    case ZINVALIDACL:
      return {Errc::kPermissionDenied,
              text +
                  "not allowed: name the user and password that the nodes were made with, or "
                  "choose another chroot"};
    case ZAUTHFAILED:
      return {Errc::kPermissionDenied, text +
                                           "the server refused the user or password: correct "
                                           "HOLDFAST_ZOOKEEPER_PASSWORD or the URL"};
    case ZNOTREADONLY:
      return {Errc::kUnavailable, text + "the server is read-only, without its leader: retry"};
    case ZUNIMPLEMENTED:
      return {Errc::kUnsupported, text + "the server is too old: 3.5 or later is needed"};
    case ZNONODE: return {Errc::kUnavailable, text + "the node has gone meanwhile: retry"};
    default: return {Errc::kUnavailable, text + zerror(rc) + " (" + std::to_string(rc) + ")"};
  }
}

}  // namespace holdfast::stores::zookeeper
