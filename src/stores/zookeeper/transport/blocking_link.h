// A session without nodes whose caller waits for each answer: for records and counters.
//
// Thread-safety, blocking: as port::Records; also for names that are looked up.
// Ownership: the loop outlives it.
// Errors: kUnavailable, kPermissionDenied; kOutcomeUnknown where the request may change something.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

class BlockingLink {
 public:
  BlockingLink(ZookeeperAddress address, port::Loop& loop);
  ~BlockingLink();
  BlockingLink(const BlockingLink&) = delete;
  BlockingLink& operator=(const BlockingLink&) = delete;

  // Makes a folder and those above it, where they are missing.
  Result<void> make_folder(const std::string& path, base::BootInstant by);

  // The answer, also a refusal. `written`: the request may change something.
  using Ask = std::function<void(Link& link, Link::Done done)>;
  Result<Reply> send(base::BootInstant by, bool written, const std::string& path, Ask ask);

 private:
  struct State;

  // Sends nothing while there is no connection, so that nothing waits in the library.
  Result<void> connect(base::BootInstant by);
  bool is_over() const;
  // The next call has a session of its own.
  void end_session(int rc);
  void close();

  const ZookeeperAddress address_;
  port::Loop& loop_;
  std::shared_ptr<State> state_;
  std::shared_ptr<Link> link_;
};

}  // namespace holdfast::stores::zookeeper
