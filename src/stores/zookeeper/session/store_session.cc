#include "src/stores/zookeeper/session/store_session.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/base/thread.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr auto kLook = std::chrono::milliseconds(20);
// With less, a server would have no time to accept the connection.
constexpr auto kLeastAskedFor = std::chrono::milliseconds(200);

// All prefixes of a path that end at a slash or at its end: "/a", "/a/b".
std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> steps;
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    steps.push_back(path.substr(0, at));
    if (at == std::string::npos) return steps;
  }
}

}  // namespace

StoreSession::StoreSession(ZookeeperAddress address, const port::StoreContext& context)
    : address_(std::move(address)),
      loop_(context.loop),
      pendings_(*context.io),
      timer_(*context.io, [this] { on_timer(); }),
      agreed_length_(address_.session) {}

contend::SessionView StoreSession::view() const {
  contend::SessionView view;
  if (!ready_ || !session_deadline_) return view;
  view.epoch = epoch_;
  view.length = link_->session_length();
  view.deadline = session_deadline_->deadline();
  const auto late = session_deadline_->newest() + session_deadline_->spacing() * 5 / 2;
  view.more_at = beat_sent_ ? *beat_sent_ : beat_at_;
  view.in_doubt = !connected_ || BootClock::now() > late;
  return view;
}

void StoreSession::when_ready(std::shared_ptr<PendingBase> pending, std::function<void()> then) {
  if (stopped_) return pending->fail(Error(Errc::kClosed, "the client was closed"));
  if (can_ask()) return then();
  waiting_.push_back({std::move(pending), std::move(then)});
  if (!link_ && !opening_) open();
}

// --- Opening.

void StoreSession::help(std::function<void()> work) {
  const auto helpers = helpers_;
  {
    const std::lock_guard lock(helpers->mutex);
    ++helpers->running;
  }
  base::start_thread("holdfast-zk", [helpers, work = std::move(work)]() mutable {
    work();
    work = nullptr;
    const std::lock_guard lock(helpers->mutex);
    --helpers->running;
    helpers->changed.notify_all();
  }).detach();
}

// Starting the library looks up names, which may take long, so a helper thread does it.
void StoreSession::open() {
  opening_ = true;
  look_at_ = BootInstant::max();
  const Link::Options options{address_.servers, address_.auth, address_.session};
  auto told = std::make_shared<std::weak_ptr<Link>>();
  help([weak = weak_from_this(), loop = loop_, options, told] {
    const BootInstant at = BootClock::now();
    auto link = Link::open(options, *loop, [weak, told](LinkEvent event) {
      const auto self = weak.lock();
      const auto from = told->lock();
      if (self && from) self->on_event(from, event);
    });
    loop->post([weak, told, link, at]() mutable {
      *told = link;
      if (const auto self = weak.lock()) self->opened(std::move(link), at);
    });
  });
}

void StoreSession::opened(std::shared_ptr<Link> link, BootInstant at) {
  opening_ = false;
  if (stopped_) return;
  if (!link) {
    fail_waiting(
        Error(Errc::kUnavailable,
              "zookeeper: none of the servers' names can be looked up: " + address_.servers));
    return;
  }
  link_ = std::move(link);
  asked_at_ = at;
  look_at_ = at;
  arm();
  // Catches up on an event that came before this link was known here.
  if (link_->asked() && link_->session_id() != 0) on_event(link_, LinkEvent::kConnected);
}

void StoreSession::ask_least(std::function<void(std::chrono::milliseconds)> told) {
  const Link::Options options{address_.servers, address_.auth, kLeastAskedFor};
  auto asked = std::make_shared<std::weak_ptr<Link>>();
  auto answered = [weak = weak_from_this(), asked, told = std::move(told)](LinkEvent event) {
    const auto self = weak.lock();
    const auto link = asked->lock();
    if (!self || !link || self->stopped_) return;
    if (event == LinkEvent::kConnected) told(link->session_length());
    self->on_event(link, event);
  };
  help([weak = weak_from_this(), loop = loop_, options, asked, answered] {
    auto link = Link::open(options, *loop, answered);
    loop->post([weak, asked, answered, link = std::move(link)] {
      const auto self = weak.lock();
      if (!self || self->stopped_ || !link) return;
      *asked = link;
      self->see_off(link);
      // Catches up on an event that came before this link was known here.
      if (link->session_id() != 0) answered(LinkEvent::kConnected);
    });
  });
}

void StoreSession::on_event(const std::shared_ptr<Link>& link, LinkEvent event) {
  if (stopped_) return;
  if (link != link_) {
    // The link of an ended session has found a server or its end, so it can be closed now.
    if (event != LinkEvent::kDisconnected && std::erase(leaving_, link) > 0) retire(link);
    return;
  }
  ++connections_;
  switch (event) {
    case LinkEvent::kConnected:
      connected_ = true;
      // Requests wait until the session's own nodes exist, because others notify the client by
      // them.
      if (!ready_) return make_nodes();
      left_at_ = {};
      beat_sent_.reset();
      beat();
      return run_waiting();
    case LinkEvent::kDisconnected: connected_ = false; return;
    case LinkEvent::kExpired:
      retire(std::exchange(link_, nullptr));
      return end(Error(Errc::kLost, "zookeeper: the server has ended the session"));
    case LinkEvent::kAuthFailed:
      retire(std::exchange(link_, nullptr));
      end(Error(Errc::kLost, "zookeeper: the server refused the user or password"));
      return fail_waiting(error_of(ZAUTHFAILED, false, "connecting"));
  }
}

void StoreSession::make_nodes() {
  // If the log-in fails the library connects again, and that event repeats this.
  if (making_ || !link_->log_in()) return;
  making_ = true;
  char tag[32];
  std::snprintf(tag, sizeof tag, "%016llx", static_cast<unsigned long long>(link_->session_id()));
  tag_ = tag;
  const std::string path = address_.base + "/sessions/" + tag_;
  auto link = link_;
  link->create(own_node(), "", NodeKind::kEphemeral, Link::Done::nothing());
  link->create(path, "", NodeKind::kEphemeral,
               Link::Done::always([self = shared_from_this(), link](const Reply& reply) {
                 if (self->stopped_ || self->link_ != link) return;
                 self->making_ = false;
                 if (reply.rc == ZOK || reply.rc == ZNODEEXISTS) return self->ready();
                 if (reply.rc == ZNONODE) return self->make_base(0);
                 if (reply.rc == ZCONNECTIONLOSS || reply.rc == ZOPERATIONTIMEOUT) return;
                 self->fail_waiting(error_of(reply.rc, false, "making the session's node"));
                 self->retire(std::exchange(self->link_, nullptr));
               }));
}

void StoreSession::make_base(std::size_t from) {
  // The folder of the sessions comes last. If it exists, all the others were created.
  std::vector<std::string> steps = steps_of(address_.base + "/locks");
  steps.push_back(address_.base + "/sessions");
  if (from == steps.size()) return make_nodes();
  making_ = true;
  auto link = link_;
  link->create(steps[from], "", NodeKind::kPersistent,
               Link::Done::always([self = shared_from_this(), link, from](const Reply& reply) {
                 if (self->stopped_ || self->link_ != link) return;
                 self->making_ = false;
                 if (reply.rc == ZOK || reply.rc == ZNODEEXISTS) return self->make_base(from + 1);
                 if (reply.rc == ZCONNECTIONLOSS || reply.rc == ZOPERATIONTIMEOUT) return;
                 self->fail_waiting(error_of(reply.rc, false, "making " + self->address_.base));
                 self->retire(std::exchange(self->link_, nullptr));
               }));
}

void StoreSession::ready() {
  ready_ = true;
  look_at_ = BootInstant::max();
  ++epoch_;
  agreed_length_ = link_->session_length();
  session_deadline_.emplace(asked_at_, agreed_length_.load());
  beat_sent_.reset();
  beat_at_ = BootClock::now();
  watch_notifications();
  arm();
  run_waiting();
}

void StoreSession::run_waiting() {
  auto waiting = std::exchange(waiting_, {});
  for (const Waiting& each : waiting) {
    if (!each.pending->over()) each.then();
  }
}

void StoreSession::fail_waiting(const Error& error) {
  auto waiting = std::exchange(waiting_, {});
  for (const Waiting& each : waiting) {
    if (!each.pending->over()) each.pending->fail(error);
  }
}

void StoreSession::watch_notifications() {
  notified_ = std::make_shared<contend::Waker>();
  notified_->wake = [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped_ || !self->ready_) return;
    self->watch_notifications();
    self->events_->on_notify();
  };
  link_->get(address_.base + "/sessions/" + tag_, notified_, Link::Done::nothing());
}

// --- Keeping.

void StoreSession::beat() {
  if (!ready_ || !connected_ || beat_sent_) return;
  const BootInstant now = BootClock::now();
  beat_sent_ = now;
  beat_at_ = now + session_deadline_->spacing();
  auto link = link_;
  link->set(own_node(), "", -1,
            Link::Done::always([self = shared_from_this(), link, now](const Reply& reply) {
              self->on_beat(link, now, reply);
            }));
  arm();
}

void StoreSession::on_beat(const std::shared_ptr<Link>& link, BootInstant sent,
                           const Reply& reply) {
  if (stopped_ || link != link_ || !ready_) return;
  if (beat_sent_ == sent) beat_sent_.reset();
  if (reply.rc == ZOK) return session_deadline_->acknowledged(sent);
  if (reply.rc == ZNONODE) {
    // Somebody has removed the node. The session and its contenders live, so create it again.
    link_->create(own_node(), "", NodeKind::kEphemeral, Link::Done::nothing());
  }
}

void StoreSession::arm() {
  if (stopped_) return;
  BootInstant next = look_at_;
  if (ready_) next = std::min({next, beat_at_, session_deadline_->deadline()});
  if (next != BootInstant::max()) timer_.arm(next);
}

void StoreSession::on_timer() {
  if (stopped_) return;
  const BootInstant now = BootClock::now();
  if (!ready_ && link_ && now >= look_at_) {
    look_at_ = now + kLook;
    // `now` was read before this call, so it is early enough to count from.
    if (!link_->asked()) asked_at_ = now;
    if (connected_) make_nodes();
  }
  if (!ready_) return arm();
  if (now >= session_deadline_->deadline()) {
    return end(Error(Errc::kLost, "zookeeper: no server has confirmed the session in time"));
  }
  if (now >= beat_at_) {
    // The server is silent, so the rest of the session's time goes to another one.
    const bool silent = beat_sent_ && now - *beat_sent_ > session_deadline_->spacing() * 9 / 10;
    if (silent && now - left_at_ > session_deadline_->spacing()) {
      left_at_ = now;
      beat_sent_.reset();
      link_->leave_server();
    }
    beat_at_ = now + session_deadline_->spacing();
    beat();
  }
  arm();
}

// --- Ending.

void StoreSession::end(const Error& why) {
  const bool ran = ready_;
  const bool away = ran && !connected_;
  ready_ = connected_ = making_ = false;
  session_deadline_.reset();
  notified_ = nullptr;
  auto link = std::exchange(link_, nullptr);
  away ? see_off(std::move(link)) : retire(std::move(link));
  if (ran) events_->on_session_ended(epoch_, why);
  if (!stopped_ && !waiting_.empty() && !opening_ && !link_) open();
}

// A new leader may give the old session its whole time again, with all its nodes. So the link stays
// until the library has found a server, and then closes the session.
void StoreSession::see_off(std::shared_ptr<Link> link) {
  if (link) leaving_.push_back(std::move(link));
}

// A helper thread waits for the library's threads.
void StoreSession::retire(std::shared_ptr<Link> link) {
  if (!link) return;
  help([link] { link->close(); });
}

void StoreSession::stop() {
  if (std::exchange(stopped_, true)) return;
  timer_.stop();
  pendings_.stop();
  waiting_.clear();
  notified_ = nullptr;
  pendings_.fail_all(Error(Errc::kClosed, "the client was closed"));
}

void StoreSession::close() {
  if (link_) link_->close();
  for (const auto& link : leaving_) link->close();
  std::unique_lock lock(helpers_->mutex);
  helpers_->changed.wait(lock, [this] { return helpers_->running == 0; });
}

void StoreSession::abandon() noexcept {
  if (link_) link_->abandon();
  for (const auto& link : leaving_) link->abandon();
}

}  // namespace holdfast::stores::zookeeper
