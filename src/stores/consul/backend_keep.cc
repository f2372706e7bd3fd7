// Contenders that are kept by sessions of their own, which nobody renews: each renewal of theirs is
// a new session, and one transaction that moves the key to it.
#include <algorithm>
#include <chrono>
#include <utility>

#include "src/stores/consul/backend.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using contend::Kept;
using contend::Read;

constexpr auto kDestroyed = std::chrono::seconds(5);

}  // namespace

struct ConsulBackend::Keeping {
  std::uint64_t epoch = 0;
  contend::Keep what;
  BootInstant deadline;
  Done<std::optional<Read>> done;
  std::string from;                 // The key's session.
  bool own = false;                 // It is one that keeps this contender alone.
  std::string session{};            // The new one.
};

// The new session's time begins after the send of the request for it.
void ConsulBackend::keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
                         Done<std::optional<Read>> done) {
  const Kept& kept = *what.details.kept;
  const bool own = is_session_id(kept.lease);
  const SessionTerms terms{"holdfast, kept",
                           std::max(std::chrono::ceil<std::chrono::milliseconds>(kept.ttl),
                                    address_.session_ttl),
                           std::chrono::milliseconds(0)};
  auto keeping = std::make_shared<Keeping>(Keeping{epoch, std::move(what), deadline,
                                                   std::move(done),
                                                   own ? kept.lease : session_->id(), own});
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/session/create",
              .body = session_body(terms),
              .reads = true,  // A second session has no keys: it just expires.
              .limit = writes_->patience(deadline)},
             [this, keeping](const Result<HttpReply>& reply) {
               auto id = reply ? read_session_id(*reply, "keeping a lock")
                               : Result<std::string>(reply.error());
               if (!id) return keeping->done(id.error());
               keeping->session = *std::move(id);
               move_to_session(keeping);
             });
}

void ConsulBackend::move_to_session(const std::shared_ptr<Keeping>& keeping) {
  Kept kept = *keeping->what.details.kept;
  kept.lease = keeping->session;
  keeping->what.details.kept = std::make_shared<const Kept>(std::move(kept));
  const std::string path = keys_.contender(keeping->what.lock, keeping->what.place.key);
  Write write{.lock = keeping->what.lock,
              .epoch = keeping->epoch,
              .what = "keep",
              .steps = {},
              .deadline = keeping->deadline,
              .done = {}};
  // Between the two steps the key is nobody's; outside of the transaction it never is.
  write.steps = [this, keeping, path](Transaction& all) {
    const contend::Keep& what = keeping->what;
    const std::uint64_t index = what.place.modified != 0 ? what.place.modified : what.place.order;
    const std::string text = contend::to_text(what.details);
    all.check_index(path, index).unlock(path, text, keeping->from).lock(path, text,
                                                                        keeping->session);
    if (what.value) all.set(keys_.value(what.lock), *what.value);
  };
  write.done = [this, keeping, path](const Result<TransactionReply>& answer) {
    on_moved(keeping, path, answer);
  };
  writes_->send(std::move(write));
}

void ConsulBackend::on_moved(const std::shared_ptr<Keeping>& keeping, const std::string& path,
                             const Result<TransactionReply>& answer) {
  if (!answer) {
    // After an unknown outcome the key may be the new session's, which stays then.
    if (answer.error().code() != Errc::kOutcomeUnknown) destroy(keeping->session);
    return keeping->done(answer.error());
  }
  if (!answer->done) {
    destroy(keeping->session);
    return keeping->done(std::optional<Read>());
  }
  if (keeping->own) destroy(keeping->from);
  std::optional<Read> read;
  for (const Pair& pair : answer->pairs) {
    if (pair.key == path) read = Read{keeping->what.details, pair.created, pair.modified};
  }
  keeping->done(std::move(read));
}

void ConsulBackend::end_kept_lease(const std::string& lease) {
  if (is_session_id(lease)) destroy(lease);
}

// No key is its any more. Otherwise it would end by itself.
void ConsulBackend::destroy(const std::string& session) {
  http_.send({.method = HttpRequest::Method::kPut,
              .target = "/v1/session/destroy/" + session,
              .reads = true,
              .limit = kDestroyed},
             [](const Result<HttpReply>&) {});
}

}  // namespace holdfast::stores::consul
