// One connection for requests whose effect replicas have to confirm.
//
// The link writes all waiting requests, then one confirmation (confirmation.h) for all of them. The
// next batch follows its answer, because WAIT blocks the connection. So requests that gain nothing
// from a confirmation (releases, cancellations) belong on another connection.
//
// Guarantee: each request completes exactly once, on the loop. `confirmed` is true only if the
// request and its confirmation were answered on the same connection. kUnavailable: the request did
// not leave this process whole; kOutcomeUnknown: it did, and no answer came.
//
// Thread-safety: send() from any thread; close() from any but the loop.
// Ownership: as with Pipeline. Time: boot time. Errors: those of Pipeline.
#pragma once

#include <memory>
#include <string>

#include "src/stores/redis/transport/confirmation.h"
#include "src/stores/redis/transport/pipeline.h"

namespace holdfast::stores::redis {

struct ConfirmedReply {
  Reply reply;
  bool confirmed = false;
  std::string missing{};  // Why it is not confirmed.
};

class ConfirmedLink {
 public:
  ConfirmedLink(asio::io_context& io, RemotePtr remote, Confirmation confirmation);
  ~ConfirmedLink();
  ConfirmedLink(const ConfirmedLink&) = delete;
  ConfirmedLink& operator=(const ConfirmedLink&) = delete;

  void send(std::string wire, base::BootInstant deadline, port::Done<ConfirmedReply> done);

  // As with Pipeline.
  void close();
  void abandon() noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::redis
