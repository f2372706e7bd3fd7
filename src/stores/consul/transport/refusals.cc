#include "src/stores/consul/transport/refusals.h"

#include <utility>

#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

bool refuses(const HttpReply& reply) {
  if (reply.status == 200) return false;
  return reply.status == 401 || reply.status == 403 || is_refusal(reply.body);
}

}  // namespace

bool Refusals::doubtful(base::BootInstant now) const {
  return outage_at_ && now - *outage_at_ < kSettles;
}

Result<HttpReply> Refusals::weigh(base::BootInstant now, bool changes, Result<HttpReply> answer) {
  if (!answer) {
    if (answer.error().code() != Errc::kPermissionDenied) {
      if (accepted_) outage_at_ = now;
      return answer;
    }
    if (!doubtful(now)) return answer;
    return Error(Errc::kUnavailable, answer.error().message());
  }
  if (refuses(*answer)) {
    answer->doubtful = doubtful(now);
    return answer;
  }
  if (answer->status == 200 && changes) accepted_ = true;
  if (answer->status >= 500 && accepted_) outage_at_ = now;
  return answer;
}

}  // namespace holdfast::stores::consul
