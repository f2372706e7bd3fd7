// Sends renewals on connections of their own, which no other request can delay. Their answers also
// show the server's clock, by which leases end.
//
// Thread-safety: without a confirmation one thread at a time, but give_up() and close(). With one,
// as many threads as RenewalThreads has: each uses a connection, because a confirmation blocks it.
// Ownership: `requests` outlives it. Blocking: renew(), until its deadline. Errors: those of
// DirectLink; each lock has its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/store.h"
#include "src/stores/redis/doctor/server_clock.h"
#include "src/stores/redis/protocol/requests.h"
#include "src/stores/redis/transport/confirmation.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

class Renewer {
 public:
  // `on_alarm`: called on the thread that renews.
  // With a wanted confirmation, a lease that replicas did not confirm is not renewed: the answer is
  // kOutcomeUnknown. A heartbeat that finds a grant asks again, with a confirmation.
  Renewer(RemotePtr remote, const Requests& requests, Confirmation confirmation,
          std::function<void(std::string)> on_alarm);

  // Sends 128 locks of one slot per script, and all scripts in one write.
  Result<std::vector<Result<port::AcquisitionState>>> renew(
      const std::vector<port::RenewItem>& items, base::BootInstant deadline);

  struct Answer {
    Result<port::AcquisitionState> state;
    std::string redirection{};  // The server's words, if nothing was done because the slot moves.
  };
  // How renewals are asked for: several locks per script, or one, or one after an ASK.
  enum class How : std::uint8_t { kTogether, kAlone, kAfterAsk };
  Result<std::vector<Answer>> ask(const std::vector<port::RenewItem>& items,
                                  base::BootInstant deadline, How how);
  // `microseconds` is the server's time in the answer to the request that left at `sent`.
  void watch_clock(base::BootInstant sent, std::string_view microseconds);

  // Ends the renew() under way; the next one opens another connection. From any thread.
  void give_up() noexcept;
  void close();
  void abandon() noexcept;

 private:
  std::optional<DirectLink::Turn> take_link() noexcept;
  Result<std::vector<Answer>> ask_once(const std::vector<port::RenewItem>& items,
                                       base::BootInstant deadline, How how, bool confirms);
  // Sends the requests, with a confirmation after them if it `confirms`. Its replies come last.
  Result<std::vector<Reply>> call(DirectLink::Turn& turn, const std::vector<std::string>& requests,
                                  base::BootInstant deadline, How how, bool confirms) const;
  // nullopt: it is confirmed. Takes the replies of the confirmation away.
  std::optional<Error> unconfirmed(std::vector<Reply>& replies) const;

  const std::string address_;
  const Requests& requests_;
  const Confirmation confirmation_;
  const std::function<void(std::string)> on_alarm_;
  std::vector<std::unique_ptr<DirectLink>> links_;
  base::LocalMutex mutex_;
  ServerClock clock_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::redis
