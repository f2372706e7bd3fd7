#include "src/stores/zookeeper/transport/blocking_link.h"

#include <chrono>
#include <future>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/base/local_mutex.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {

using base::BootClock;
using base::BootInstant;

// The loop's news of one link.
struct BlockingLink::State {
  base::LocalMutex mutex;
  base::LocalCondition changed;
  bool connected HOLDFAST_GUARDED_BY(mutex) = false;
  int ended HOLDFAST_GUARDED_BY(mutex) = ZOK;  // Why the session is over.
  std::shared_ptr<Link> link{};                // The loop's, while the session lives.

  void on_event(LinkEvent event) {
    // The library takes the log-in only now, and requests come after it.
    if (event == LinkEvent::kConnected && link) static_cast<void>(link->log_in());
    const base::LocalLock lock(mutex);
    connected = event == LinkEvent::kConnected && link;
    if (event == LinkEvent::kExpired) ended = ZSESSIONEXPIRED;
    if (event == LinkEvent::kAuthFailed) ended = ZAUTHFAILED;
    changed.notify_all();
  }
};

BlockingLink::BlockingLink(ZookeeperAddress address, port::Loop& loop)
    : address_(std::move(address)), loop_(loop) {}
BlockingLink::~BlockingLink() { close(); }

Result<void> BlockingLink::make_folder(const std::string& folder, BootInstant by) {
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string path = folder.substr(0, slash);
    const auto made = send(by, /*written=*/false, path, [path](Link& link, Link::Done done) {
      link.create(path, "", NodeKind::kPersistent, std::move(done));
    });
    if (!made) return made.error();
    if (made->rc != ZOK && made->rc != ZNODEEXISTS) {
      return error_of(made->rc, false, "making " + path);
    }
    if (slash == std::string::npos) return {};
  }
}

Result<void> BlockingLink::connect(BootInstant by) {
  if (state_) {
    const base::LocalLock lock(state_->mutex);
    if (state_->ended == ZOK && state_->connected) return {};
  }
  if (!link_ || is_over()) {
    close();
    state_ = std::make_shared<State>();
    const Link::Options options{address_.servers, address_.auth, address_.session};
    link_ =
        Link::open(options, loop_, [state = state_](LinkEvent event) { state->on_event(event); });
    if (!link_) {
      return Error(Errc::kUnavailable,
                   "zookeeper: none of the servers' names can be looked up: " + address_.servers);
    }
    // Catches up on an event that came before this link was known to the loop.
    loop_.post([state = state_, link = link_] {
      state->link = link;
      if (link->session_id() != 0) state->on_event(LinkEvent::kConnected);
    });
  }
  const base::LocalLock lock(state_->mutex);
  while (!state_->connected && state_->ended == ZOK && BootClock::now() < by) {
    state_->changed.wait_for(state_->mutex, by - BootClock::now());
  }
  if (state_->ended == ZAUTHFAILED) return error_of(ZAUTHFAILED, false, "connecting");
  if (state_->connected) return {};
  return Error(Errc::kUnavailable, "zookeeper: no server of " + address_.servers + " answers");
}

Result<Reply> BlockingLink::send(BootInstant by, bool written, const std::string& path, Ask ask) {
  if (auto ready = connect(by); !ready) return ready.error();
  const auto told = std::make_shared<std::promise<Reply>>();
  auto answer = told->get_future();
  loop_.post([link = link_, told, ask = std::move(ask)] {
    ask(*link, Link::Done::always([told](const Reply& reply) { told->set_value(reply); }));
  });
  const auto left = by - BootClock::now();
  if (answer.wait_for(left) != std::future_status::ready) {
    return error_of(ZOPERATIONTIMEOUT, written, path);
  }
  Reply reply = answer.get();
  if (reply.rc != ZSESSIONEXPIRED && reply.rc != ZINVALIDSTATE && reply.rc != ZCLOSING) {
    return reply;
  }
  end_session(reply.rc);
  return error_of(ZCONNECTIONLOSS, written && reply.rc != ZINVALIDSTATE, path);
}

bool BlockingLink::is_over() const {
  const base::LocalLock lock(state_->mutex);
  return state_->ended != ZOK;
}

void BlockingLink::end_session(int rc) {
  const base::LocalLock lock(state_->mutex);
  state_->ended = rc;
}

void BlockingLink::close() {
  if (!link_) return;
  link_->close();
  std::promise<void> gone;
  loop_.post([&] {
    state_->link.reset();
    gone.set_value();
  });
  gone.get_future().wait();
  link_.reset();
}

}  // namespace holdfast::stores::zookeeper
