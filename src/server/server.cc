#include "holdfast/server.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/server/access/users.h"
#include "src/server/front/front.h"
#include "src/server/http/http_front.h"
#include "src/server/journal.h"
#include "src/server/server_tls.h"
#include "src/server/service.h"
#include "src/server/tuning.h"

#ifndef HOLDFAST_VERSION
#define HOLDFAST_VERSION "unknown"
#endif

namespace holdfast {
namespace {

std::vector<std::string> http_names(const ServerOptions& options) {
  std::vector<std::string> names;
  std::string_view rest = options.http_hosts;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0) names.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (!options.advertise.empty()) names.push_back(options.advertise);
  return names;
}

}  // namespace

struct Server::Impl {
  // Both ports hear of what was committed.
  struct Ears final : server::ServiceListener {
    explicit Ears(Impl& its_server) : server(its_server) {}
    void on_push(const server::ClientName& client, const port::Push& push) override {
      server.front.on_push(client, push);
      server.http.on_push(client, push);
    }
    void on_effect(server::Position position, const machine::Effect& effect,
                   machine::Instant at) override {
      server.front.on_effect(position, effect, at);
      server.http.on_effect(effect);
    }
    void on_stopped(const Error& reason) override { server.front.on_stopped(reason); }

    Impl& server;
  };

  Impl(ServerOptions wanted, server::ServerTuning its_tuning,
       std::unique_ptr<server::Journal> its_journal)
      : options(std::move(wanted)),
        tuning(std::move(its_tuning)),
        place(its_journal->place()),
        shared(its_journal->is_shared()),
        front(io, tuning.front, greeting(), [this](const Error& reason) { on_stopped(reason); }),
        http(io, tuning.http, greeting(), http_names(options)),
        journal(std::move(its_journal)) {
    front.warn_by([this](const std::string& what) { warn(what); });
    http.warn_by([this](const std::string& what) { warn(what); });
    if (shared) front.step_down_by([this] { ask_to_step_down(); });
    front.operate_by([this](server::Front::Listed done) { list_members(std::move(done)); },
                     options.on_drain);
  }
  ~Impl() { stop(); }

  server::Greeting greeting() const {
    return {.version = HOLDFAST_VERSION,
            .journal = options.journal.substr(0, options.journal.find(':')),
            .place = place};
  }

  void warn(const std::string& what) const {
    if (options.on_warning) options.on_warning(what);
  }

  // On the loop. On a shared journal this was one term of several.
  void on_stopped(const Error& reason) {
    if (!shared) {
      front.close();
      http.close();
      return end(reason);
    }
    warn("does not lead any more: " + reason.message());
    const base::LocalLock lock(mutex);
    term_ended = true;
    changed.notify_all();
  }

  // On the loop.
  void ask_to_step_down() {
    const base::LocalLock lock(mutex);
    steps_down = true;
    changed.notify_all();
  }

  void end(const Error& reason) const {
    if (options.on_stopped) options.on_stopped(reason);
  }

  // The users and the certificate, as the files have them now.
  Result<server::FrontDoor> read_door() const {
    server::FrontDoor door;
    door.plaintext = options.plaintext;
    door.accounts = accounts;
    if (!options.users.empty()) {
      auto users = server::Users::read(options.users);
      if (!users) return users.error();
      door.users = *std::move(users);
      if (!door.users->warning().empty()) warn(door.users->warning());
    }
    if (options.tls_cert.empty() && options.tls_key.empty()) return door;
    auto tls = server::make_server_tls(options.tls_cert, options.tls_key);
    if (!tls) return tls.error();
    door.tls = *std::move(tls);
    return door;
  }

  Result<void> reload() {
    if (!thread.joinable()) return Error(Errc::kClosed, "the server was stopped");
    auto door = read_door();
    if (!door) return door.error();
    on_loop([&] {
      http.guard(*door);
      front.guard(*std::move(door));
    });
    return {};
  }

  Result<void> start() {
    auto door = read_door();
    if (!door) return door.error();
    http.guard(*door);
    front.guard(*std::move(door));
    // First the port: a second server on it must not wait for the journal.
    if (auto listening = front.listen(options.listen); !listening) return listening;
    address = front.address();
    if (!options.http.empty()) {
      if (auto listening = http.listen(options.http); !listening) return listening;
      http_address = http.address();
    }
    told = options.advertise.empty() ? address : options.advertise;
    http.tell_address(told);
    if (shared) join_members();
    if (!shared) {
      if (auto leading = begin_term(); !leading) return leading;
    }
    thread = base::start_thread("holdfast-serve", [this] { io.run(); });
    if (!shared) return {};
    const auto leads = journal->lead(told, base::BootClock::now());
    if (!leads) return leads.error();
    if (auto known = take_first_turn(*leads); !known) return known;
    follower = base::start_thread("hf-stand-by", [this] { follow(); });
    return {};
  }

  Result<void> take_first_turn(bool leads) {
    if (!leads) {
      stand_by(journal->leader());
      return {};
    }
    const auto began = begin_term_on_loop();
    if (began || began.error().code() != Errc::kUnavailable) return began;
    warn("cannot lead: " + began.error().message());
    stand_by({});
    return {};
  }

  // Serves with the journal. On the loop, or before there is one.
  Result<void> begin_term() {
    server::ServiceOptions service_options = tuning.service;
    service_options.clients_stopped = options.clients_stopped;
    service_options.warn = [this](const std::string& what) { warn(what); };
    service.emplace(io, take_journal(), ears, std::move(service_options));
    if (auto started = service->start(); !started) {
      service.reset();
      return started;
    }
    const auto& seen = service->found();
    ServerLead now{true,
                   told,
                   {seen.began, service->term(), seen.locks, seen.restored,
                    std::chrono::ceil<std::chrono::seconds>(seen.quiet)}};
    front.serve(*service);
    http.serve(*service);
    const base::LocalLock lock(mutex);
    journal_id = service->journal_id();
    steps_down = false;
    lead = std::move(now);
    tell_role();
    return {};
  }

  Result<void> begin_term_on_loop() {
    Result<void> began;
    on_loop([&] { began = begin_term(); });
    return began;
  }

  void stand_by(const std::string& leader) {
    on_loop([&] {
      front.stand_by(leader);
      http.stand_by(leader);
      service.reset();
    });
    const base::LocalLock lock(mutex);
    lead = {false, leader, {}};
    journal_id.clear();
    tell_role();
  }

  // A server that is not on the list serves locks as well as any other.
  void join_members() {
    auto made = server::make_members(options.journal);
    if (made) {
      members = *std::move(made);
    } else {
      warn("is not on the list of 'holdfast server members': " + made.error().message());
    }
  }

  void tell_role() HOLDFAST_REQUIRES(mutex) {
    if (!self.address.empty() && self.leads == lead.leads) return;
    self = {told, HOLDFAST_VERSION, lead.leads, base::wall_now()};
    if (members) members->announce(self);
  }

  // On the loop.
  void list_members(server::Front::Listed done) {
    ServerMember own;
    {
      const base::LocalLock lock(mutex);
      own = self;
    }
    if (!shared) return done(std::vector{own});
    if (!members) return done(Error(Errc::kUnavailable, "this server has no list of the others"));
    members->list(base::BootClock::now() + kListing,
                  [this, own, done = std::move(done)](Result<std::vector<ServerMember>> found) {
                    asio::post(io, [own, done, found = std::move(found)]() mutable {
                      done(with_own(std::move(found), own));
                    });
                  });
  }

  // The one that answers is there, whether it is on the list yet or not.
  static Result<std::vector<ServerMember>> with_own(Result<std::vector<ServerMember>> found,
                                                    const ServerMember& own) {
    if (!found || own.address.empty()) return found;
    const bool listed = std::any_of(found->begin(), found->end(), [&](const ServerMember& each) {
      return each.address == own.address;
    });
    if (!listed) found->push_back(own);
    return found;
  }

  void tell_lead() {
    ServerLead now;
    {
      const base::LocalLock lock(mutex);
      now = lead;
    }
    if (options.on_lead) options.on_lead(now);
  }

  // The thread of a server on a shared journal: it leads or stands by, in turns, until stop().
  void follow() {
    bool told_trouble = false;
    while (!is_stopping()) {
      if (service) {
        const bool by_wish = wait_for_term_end();
        if (is_stopping()) return;
        if (by_wish) on_loop([&] { service->stop(); });  // Answers what is under way.
        stand_by({});
        tell_lead();
        if (by_wish) pause(kForOthers);
        continue;
      }
      const auto leads = try_to_lead();
      if (!leads && leads.error().code() != Errc::kUnavailable) return end(leads.error());
      if (!leads && !std::exchange(told_trouble, true)) {
        warn("cannot lead: " + leads.error().message());
      }
      if (leads && std::exchange(told_trouble, false)) warn("the journal answers again");
      if (leads && *leads) tell_lead();
      if (!leads) pause(kBetweenTries);
    }
  }

  // True: it leads. A journal's object has one term.
  Result<bool> try_to_lead() {
    if (!journal_is_there()) {
      auto made = server::make_journal(options.journal);
      if (!made) return made.error();
      const base::LocalLock lock(mutex);
      journal = *std::move(made);
    }
    const auto leads = journal->lead(told, base::BootClock::now() + kPatience);
    if (!leads) return leads;
    if (!*leads) {
      const std::string leader = journal->leader();
      if (leader == known_leader()) return false;
      stand_by(leader);
      tell_lead();
      return false;
    }
    if (const auto began = begin_term_on_loop(); !began) return began.error();
    return true;
  }

  std::unique_ptr<server::Journal> take_journal() {
    const base::LocalLock lock(mutex);
    return std::move(journal);
  }
  bool journal_is_there() {
    const base::LocalLock lock(mutex);
    return journal != nullptr;
  }
  std::string known_leader() {
    const base::LocalLock lock(mutex);
    return lead.leader;
  }
  bool is_stopping() {
    const base::LocalLock lock(mutex);
    return stopping;
  }
  // True: by an operator's wish, and the term goes on so far.
  bool wait_for_term_end() {
    const base::LocalLock lock(mutex);
    while (!stopping && !term_ended && !steps_down) changed.wait(mutex);
    const bool by_wish = std::exchange(steps_down, false);
    return !std::exchange(term_ended, false) && by_wish;
  }
  void pause(std::chrono::milliseconds time) {
    const base::LocalLock lock(mutex);
    if (!stopping) changed.wait_for(mutex, time);
  }

  template <typename Task>
  void on_loop(Task task) {
    std::promise<void> ended;
    asio::post(io, [&] {
      task();
      ended.set_value();
    });
    ended.get_future().wait();
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      const base::LocalLock lock(mutex);
      stopping = true;
      if (journal) journal->interrupt();
      changed.notify_all();
    }
    if (follower.joinable()) follower.join();
    on_loop([this] {
      front.drain();
      if (service) service->stop();  // Answers what is under way.
      front.close();
      http.close();
    });
    work.reset();
    io.stop();
    thread.join();
    members.reset();  // Last, because nothing waits for it: the lead is handed over.
  }

  static constexpr std::chrono::seconds kPatience{1};
  static constexpr std::chrono::milliseconds kBetweenTries{500};
  // After it has stepped down.
  static constexpr std::chrono::seconds kForOthers{5};
  // Less than the time in which a client gives a connection up.
  static constexpr std::chrono::seconds kListing{2};

  const ServerOptions options;
  const server::ServerTuning tuning;
  const std::string place;
  const bool shared;
  const server::AccountsPtr accounts = std::make_shared<server::Accounts>();
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  server::Front front;
  server::HttpFront http;
  Ears ears{*this};
  std::optional<server::Service> service;  // The loop's, while that runs.
  std::string address;
  std::string http_address;
  std::string told;
  std::unique_ptr<port::Members> members;  // Null unless the journal is shared. Set by start().
  std::thread thread;
  std::thread follower;

  base::LocalMutex mutex;
  base::LocalCondition changed;
  // Until the service has it. It stays where it is while the follower uses it.
  std::unique_ptr<server::Journal> journal;
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
  bool term_ended HOLDFAST_GUARDED_BY(mutex) = false;
  bool steps_down HOLDFAST_GUARDED_BY(mutex) = false;
  ServerLead lead HOLDFAST_GUARDED_BY(mutex);
  ServerMember self HOLDFAST_GUARDED_BY(mutex);  // Without an address until it leads or stands by.
  std::string journal_id HOLDFAST_GUARDED_BY(mutex);
};

Result<Server> server::ServerAccess::start(ServerOptions options, ServerTuning tuning) {
  auto journal = make_journal(options.journal);
  if (!journal) return journal.error();
  auto impl =
      std::make_unique<Server::Impl>(std::move(options), std::move(tuning), *std::move(journal));
  if (auto started = impl->start(); !started) return started.error();
  return Server(std::move(impl));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::Server(Server&& other) noexcept = default;
Server& Server::operator=(Server&& other) noexcept = default;
Server::~Server() = default;

Result<Server> Server::start(ServerOptions options) {
  return server::ServerAccess::start(std::move(options), {});
}

std::string Server::address() const { return impl_->address; }
std::string Server::http_address() const { return impl_->http_address; }
std::string Server::url() const {
  return (impl_->options.tls_cert.empty() ? "holdfast://" : "holdfasts://") + impl_->address;
}
std::string Server::place() const { return impl_->place; }
std::string Server::journal_id() const {
  const base::LocalLock lock(impl_->mutex);
  return impl_->journal_id;
}
ServerLead Server::lead() const {
  const base::LocalLock lock(impl_->mutex);
  return impl_->lead;
}
Result<void> Server::reload() { return impl_->reload(); }
void Server::stop() { impl_->stop(); }

}  // namespace holdfast
