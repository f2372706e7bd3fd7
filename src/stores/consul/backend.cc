#include "src/stores/consul/backend.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "src/base/abandon.h"
#include "src/stores/consul/doctor.h"
#include "src/stores/consul/guarantees.h"

namespace holdfast::stores::consul {

using namespace std::chrono_literals;

ConsulBackend::ConsulBackend(const ConsulAddress& address, const port::StoreContext& context)
    : address_(address),
      loop_(*context.loop),
      keys_(address.recipe ? Keys(address.prefix, address.shared_path) : Keys(address.prefix)),
      agents_(std::make_shared<Agents>(address)),
      http_(*context.io, agents_),
      read_timer_(*context.io),
      watches_(std::make_shared<Watches>(*context.io, http_)),
      handoffs_(std::make_shared<Handoffs>(*context.io, http_)),
      session_(std::make_shared<StoreSession>(
          *context.io, http_, keys_,
          SessionTerms{"holdfast " + context.owner, address.session_ttl, address.lock_delay},
          session_events())),
      writes_(std::make_shared<Writes>(*context.io, http_, *session_, keys_, address.hosts.size())),
      gate_(
          address_, *session_, *writes_, *watches_,
          [this](std::string target, BootInstant deadline, GetDone done) {
            get(std::move(target), deadline, std::move(done));
          },
          [this](const std::string& line) { events_->on_alarm(line); }) {}

ConsulBackend::~ConsulBackend() { close(base::BootClock::now()); }

StoreSession::Events ConsulBackend::session_events() {
  return {[this](std::uint64_t epoch, const Error& why) {
            gate_.clear();
            handoffs_->clear();
            events_->on_session_ended(epoch, why);
          },
          [this] { events_->on_notify(); },
          [this](const std::string& line) { events_->on_alarm(line); }};
}

contend::SessionView ConsulBackend::session() const {
  if (!session_->open()) return {};
  return {session_->epoch(), session_->in_doubt(), session_->ttl(), session_->deadline(),
          session_->renews_at()};
}

void ConsulBackend::ensure_session(BootInstant deadline, Done<contend::SessionView> done) {
  session_->ensure(deadline, [this, done = std::move(done)](const Result<void>& opened) {
    if (opened) return done(session());
    done(opened.error());
  });
}

Guarantees ConsulBackend::guarantees() const { return consul::guarantees(address_); }

// Unlike get(), it does not ask an agent again that has refused, but the next one.
void ConsulBackend::ask_once(const std::string& target, BootInstant deadline, std::size_t agents,
                             GetDone done) {
  http_.send({.target = target, .reads = true, .limit = std::max(1ms, left_until(deadline))},
             [this, target, deadline, agents, done = std::move(done)](Result<HttpReply> reply) {
               const bool silent = !reply && reply.error().code() == Errc::kUnavailable;
               if (silent && agents > 1 && base::BootClock::now() < deadline) {
                 return ask_once(target, deadline, agents - 1, done);
               }
               done(std::move(reply));
             });
}

void ConsulBackend::look_at_servers(BootInstant deadline, Done<contend::Servers> done) {
  ask_once("/v1/agent/self", deadline, address_.hosts.size(),
           [this, deadline, done = std::move(done)](const Result<HttpReply>& self) {
             if (!self) return done(self.error());
             ask_once("/v1/status/peers", deadline, address_.hosts.size(),
                      [self = *self, done](const Result<HttpReply>& peers) {
                        if (!peers) return done(peers.error());
                        done(servers_behind(self, *peers));
                      });
           });
}

void ConsulBackend::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  examine({[this, deadline](std::string target, std::function<void(Result<HttpReply>)> answer) {
             get(std::move(target), deadline, std::move(answer));
           },
           [this, deadline](std::string body, std::function<void(Result<HttpReply>)> answer) {
             http_.send({.method = HttpRequest::Method::kPut,
                         .target = "/v1/txn",
                         .body = std::move(body),
                         .limit = std::max(1ms, left_until(deadline))},
                        std::move(answer));
           },
           [this, deadline](std::function<void(Result<std::string>)> answer) {
             session_->ensure(deadline, [this, answer](const Result<void>& opened) {
               if (!opened) return answer(opened.error());
               answer(session_->id());
             });
           },
           address_, keys_},
          std::move(done));
}

void ConsulBackend::stop_on_loop(BootInstant deadline, std::function<void()> done) {
  if (std::exchange(closed_, true)) return done();
  watches_->stop();
  handoffs_->stop();
  writes_->stop();
  read_timer_.stop();
  // Closing answers these together with all other waiting calls.
  for (auto& again : std::exchange(reads_again_, {})) again();
  session_->close(deadline, [this, done = std::move(done)] {
    loop_.post([this, done] {
      http_.stop();
      session_->stop();
      done();
    });
  });
}

void ConsulBackend::close(BootInstant deadline) {
  // Only once, because later the loop may no longer run.
  if (watches_ == nullptr || std::exchange(close_called_, true)) return;
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  const auto gate = std::make_shared<Gate>();
  loop_.post([this, deadline, gate] {
    stop_on_loop(deadline, [gate] {
      const std::lock_guard lock(gate->mutex);
      gate->open = true;
      gate->changed.notify_all();
    });
  });
  std::unique_lock lock(gate->mutex);
  gate->changed.wait(lock, [&] { return gate->open; });
}

void ConsulBackend::abandon_after_fork() noexcept {
  http_.abandon();
  read_timer_.abandon();
  session_->abandon();
  writes_->abandon();
  watches_->abandon();
  handoffs_->abandon();
  // Leaked on purpose: these objects use resources of the parent.
  base::abandon(std::move(session_));
  base::abandon(std::move(writes_));
  base::abandon(std::move(watches_));
  base::abandon(std::move(handoffs_));
}

}  // namespace holdfast::stores::consul
