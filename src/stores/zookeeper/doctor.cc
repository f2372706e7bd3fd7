#include "src/stores/zookeeper/doctor.h"

#include <string>

namespace holdfast::stores::zookeeper {
namespace {

constexpr int kTicksOfTheLeast = 2;
constexpr int kTicksNeeded = 6;

std::string text_of(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

Finding length_finding(std::chrono::milliseconds agreed, std::chrono::milliseconds asked_for) {
  if (agreed == asked_for) {
    return {Severity::kOk, "session", "the session lasts " + text_of(agreed), ""};
  }
  return {Severity::kWarning, "session",
          "the server makes it " + text_of(agreed) + ", not " + text_of(asked_for) +
              " as was asked for",
          "ask for what it allows with session=, or change minSessionTimeout and "
          "maxSessionTimeout"};
}

Finding ticks_finding(std::chrono::milliseconds session, std::chrono::milliseconds least) {
  const auto tick = least / kTicksOfTheLeast;
  const std::string ticks = "ticks of the servers, which are " + text_of(tick) +
                            " each by the shortest session that they grant, or longer if "
                            "minSessionTimeout is below two of them";
  if (session >= tick * kTicksNeeded) {
    return {Severity::kOk, "ticks", "the session lasts six " + ticks, ""};
  }
  return {Severity::kWarning, "ticks",
          "the session lasts less than six " + ticks +
              ": a client whose follower is cut off from the leader may count on it for too long",
          "set session=" + std::to_string((tick * kTicksNeeded).count()) +
              "ms or more, or a shorter tickTime on the servers"};
}

}  // namespace holdfast::stores::zookeeper
