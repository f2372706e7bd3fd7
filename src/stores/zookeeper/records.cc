#include "src/stores/zookeeper/records.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zookeeper/zookeeper.h>

#include "src/base/local_mutex.h"
#include "src/stores/zookeeper/errors.h"
#include "src/stores/zookeeper/link.h"
#include "src/stores/zookeeper/listeners.h"
#include "src/stores/zookeeper/nodes.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

// The loop's news of one link.
struct State {
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

class ZookeeperRecords final : public port::Records {
 public:
  ZookeeperRecords(ZookeeperAddress address, port::Loop& loop)
      : address_(std::move(address)), folder_(address_.base + "/records"), loop_(loop) {}
  ~ZookeeperRecords() override { close(); }

  Result<void> make_folder(BootInstant by) {
    for (std::size_t slash = folder_.find('/', 1);; slash = folder_.find('/', slash + 1)) {
      const std::string path = folder_.substr(0, slash);
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

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const std::string path = place_of(key);
    const auto found =
        send(by, /*written=*/false, path, [path, folder = folder_](Link& link, Link::Done done) {
          const auto checked = std::make_shared<int>(ZOK);
          link.multi({{Step::Kind::kCheck, folder}},
                     Link::Done::always([checked](const Reply& reply) { *checked = reply.rc; }));
          link.get(path, nullptr, Link::Done::always([checked, done](const Reply& reply) {
                     done(*checked == ZOK || *checked == ZNONODE ? reply : Reply{*checked});
                   }));
        });
    if (!found) return found.error();
    if (found->rc == ZNONODE) return std::optional<Record>();
    if (found->rc != ZOK) return error_of(found->rc, false, "reading " + path);
    return std::optional(Record{found->text, version_of(*found)});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    const std::string path = place_of(key);
    for (bool again = true;; again = false) {
      const auto made = send(by, /*written=*/true, path, [path, text](Link& link, Link::Done done) {
        link.create(path, text, NodeKind::kPersistent, std::move(done));
      });
      if (!made) return made.error();
      if (made->rc == ZOK) return Version(1);
      if (made->rc == ZNODEEXISTS) return Version();
      if (made->rc != ZNONODE || !again) return error_of(made->rc, true, "creating " + path);
      if (auto folder = make_folder(by); !folder) return folder.error();
    }
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    constexpr auto kNewest = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
    if (version == 0 || version > kNewest) return Version();
    const std::string path = place_of(key);
    const auto number = static_cast<std::int32_t>(version - 1);
    const auto set =
        send(by, /*written=*/true, path, [path, text, number](Link& link, Link::Done done) {
          link.set(path, text, number, std::move(done));
        });
    if (!set) return set.error();
    if (set->rc == ZOK) return Version(version_of(*set));
    if (set->rc == ZNONODE || set->rc == ZBADVERSION) return Version();
    return error_of(set->rc, true, "writing " + path);
  }

  std::string forgets() const override { return {}; }

 private:
  static std::uint64_t version_of(const Reply& reply) {
    return static_cast<std::uint64_t>(reply.stat.version) + 1;
  }
  std::string place_of(const std::string& key) const { return folder_ + "/" + encode_name(key); }

  // Sends nothing while there is no connection, so that nothing waits in the library.
  Result<void> connect(BootInstant by) {
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

  bool is_over() const {
    const base::LocalLock lock(state_->mutex);
    return state_->ended != ZOK;
  }

  // The answer, also a refusal. `written`: the request may change something.
  template <typename Ask>
  Result<Reply> send(BootInstant by, bool written, const std::string& path, Ask ask) {
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
    // The next call has a session of its own.
    const base::LocalLock lock(state_->mutex);
    state_->ended = reply.rc;
    return error_of(ZCONNECTIONLOSS, written && reply.rc != ZINVALIDSTATE, path);
  }

  void close() {
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

  const ZookeeperAddress address_;
  const std::string folder_;
  port::Loop& loop_;
  std::shared_ptr<State> state_;
  std::shared_ptr<Link> link_;
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const ZookeeperAddress& address,
                                                    const port::StoreContext& context) {
  const auto now = BootClock::now();
  // The library keeps trying without saying why.
  if (auto there = look_for_listeners(address.endpoints, now + (context.open_by - now) / 2);
      !there) {
    return there.error();
  }
  auto made = std::make_unique<ZookeeperRecords>(address, *context.loop);
  if (auto folder = made->make_folder(context.open_by); !folder) return folder.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::stores::zookeeper
