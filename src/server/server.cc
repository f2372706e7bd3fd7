#include "holdfast/server.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
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
#include "src/server/access/server_tls.h"
#include "src/server/access/users.h"
#include "src/server/front/front.h"
#include "src/server/front/listen_address.h"
#include "src/server/http/http_front.h"
#include "src/server/journal/journal.h"
#include "src/server/run_on_loop.h"
#include "src/server/served_shard.h"
#include "src/server/service.h"
#include "src/server/sharing.h"
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

struct Server::Impl final : server::ShardOwner {
  Impl(ServerOptions wanted, server::ServerTuning its_tuning, std::uint32_t its_shards,
       std::unique_ptr<server::Journal> its_first)
      : options(std::move(wanted)),
        tuning(std::move(its_tuning)),
        place(its_first->place()),
        shared(its_first->is_shared()),
        front(io, tuning.front, greeting(), its_shards),
        http(io, tuning.http, greeting(), http_names(options), its_shards),
        shards(its_shards),
        first(std::move(its_first)) {
    front.warn_by([this](const std::string& what) { warn(what); });
    http.warn_by([this](const std::string& what) { warn(what); });
    if (shared) front.forward_to_leaders();
    if (shared) front.step_down_by([this] { return step_down(); });
    front.operate_by(
        {.list = [this](server::Front::Listed done) { list_members(std::move(done)); },
         .examine = [this](server::Front::Examined done) { examine_journal(std::move(done)); },
         .drain = options.on_drain});
  }
  ~Impl() { stop(); }

  std::uint32_t count() const { return static_cast<std::uint32_t>(shards.size()); }

  server::Greeting greeting() const {
    return {.version = HOLDFAST_VERSION,
            .journal = options.journal.substr(0, options.journal.find(':')),
            .place = place};
  }

  // --- Of one shard. Both ports hear of it.
  void serve(std::uint32_t shard, server::Service& service) override {
    front.serve(shard, service);
    http.serve(shard, service);
  }
  void stand_by(std::uint32_t shard, const std::string& leader) override {
    front.stand_by(shard, leader);
    http.stand_by(shard, leader);
  }
  void on_push(std::uint32_t shard, const server::ClientName& client,
               const port::Push& push) override {
    front.on_push(shard, client, push);
    http.on_push(client, push);
  }
  void on_effect(std::uint32_t shard, const machine::Effect& effect, machine::Instant at) override {
    front.on_effect(shard, effect, at);
    http.on_effect(effect);
  }
  void on_term_end(std::uint32_t shard, const Error& reason) override {
    front.on_stopped(shard);
    if (shared) return;
    front.close();
    http.close();
    end(reason);
  }
  void warn(const std::string& what) override {
    if (options.on_warning) options.on_warning(what);
  }
  void on_change(std::uint32_t) override {
    tell_role();
    const base::LocalLock lock(telling);  // The last one that is told is the newest.
    if (options.on_lead) options.on_lead(lead());
  }
  void note_journal(bool answers) {
    asio::post(io, [this, answers] {
      front.note_journal(answers);
      http.note_journal(answers);
    });
  }
  // The other shards are as good as before, so the server goes on with them.
  void on_failure(std::uint32_t shard, const Error& reason) override {
    if (shards.size() == 1) return end(reason);
    warn("shard " + std::to_string(shard) +
         ": this server does not try to lead it any more, until it is started again: " +
         reason.message());
  }

  void end(const Error& reason) const {
    if (options.on_stopped) options.on_stopped(reason);
  }

  // The users and the certificate, as the files have them now.
  Result<server::FrontDoor> read_door() {
    server::FrontDoor door;
    door.plaintext = options.plaintext;
    door.accounts = accounts;
    if (!options.users.empty()) {
      auto users = server::Users::read(options.users);
      if (!users) return users.error();
      door.users = *std::move(users);
      if (!door.users->warning().empty()) warn(door.users->warning());
    }
    if (options.tls_cert.empty() && options.tls_key.empty()) {
      if (options.tls_ca.empty()) return door;
      return Error(Errc::kInvalidArgument,
                   "--tls-ca '" + options.tls_ca +
                       "' is for a server with TLS: give it --tls-cert FILE and --tls-key FILE");
    }
    auto tls = server::make_server_tls(options.tls_cert, options.tls_key, options.tls_ca);
    if (!tls) return tls.error();
    door.tls = *std::move(tls);
    return door;
  }

  Result<void> reload() {
    if (!thread.joinable()) return Error(Errc::kClosed, "the server was stopped");
    auto door = read_door();
    if (!door) return door.error();
    server::run_on_loop(io, [&] {
      http.guard(*door);
      front.guard(*std::move(door));
    });
    return {};
  }

  Result<void> start() {
    if (auto good = server::check_advertised(options.advertise); !good) return good;
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
    http_told = server::http_address_for_others(http_address, address, options.advertise);
    if (shared && !http_address.empty() && http_told.empty()) {
      warn("the other servers cannot ask this one's HTTP port, which listens on loopback only");
    }
    front.tell_address(told);
    http.tell_address(told);
    if (shared) join_members();
    make_shards();
    if (shared) start_loop();
    if (auto started = start_shards(); !started) return started;
    if (!shared) start_loop();
    tell_role();
    if (shared) sharer = base::start_thread("hf-sharing", [this] { share(); });
    return {};
  }

  void start_loop() {
    thread = base::start_thread("holdfast-serve", [this] { io.run(); });
  }

  void make_shards() {
    server::ServedShardOptions one{.journal = options.journal,
                                   .shard = {0, count()},
                                   .address = told,
                                   .shared = shared,
                                   .service = tuning.service};
    one.service.clients_stopped = options.clients_stopped;
    for (auto& each : shards) {
      each = std::make_unique<server::ServedShard>(io, *this, one);
      ++one.shard.number;
    }
  }

  // Several shards of a shared journal stand by until the plan says which ones to lead.
  Result<void> start_shards() {
    for (std::uint32_t shard = 0; shard < shards.size(); ++shard) {
      auto journal = std::move(first);
      if (shards.size() > 1) journal.reset();
      if (shards.size() > 1 && !shared) {
        auto made = server::make_journal(options.journal, {shard, count()});
        if (!made) return made.error();
        journal = *std::move(made);
      }
      if (auto started = shards[shard]->start(std::move(journal)); !started) return started;
    }
    return {};
  }

  // A server that is not on the list serves locks as well as any other.
  void join_members() {
    auto made = server::make_members(options.journal, count());
    if (made) {
      members = *std::move(made);
    } else {
      warn("is not on the list of 'holdfast server members': " + made.error().message());
    }
  }

  void tell_role() {
    const base::LocalLock lock(mutex);
    const ServerLead now = lead();
    if (!self.address.empty() && self.leads == now.leads) return;
    self = {told, HOLDFAST_VERSION, now.leads, base::wall_now(), now.leading, http_told};
    if (members) members->announce(self, yields);
  }

  // Whether the others should not count on this server.
  void tell_yields(bool now) {
    const base::LocalLock lock(mutex);
    if (std::exchange(yields, now) != now && members) members->announce(self, yields);
  }

  // On the loop. With several shards the plan hands them over.
  Result<void> step_down() {
    if (shards.size() == 1) {
      shards.front()->step_down();
      return {};
    }
    const base::LocalLock lock(mutex);
    if (lead().leading == 0) return Error(Errc::kUnsupported, "this server leads no shard");
    if (others == 0) {
      return Error(Errc::kUnsupported,
                   "no other server could lead the shards: see 'holdfast server members'");
    }
    steps_down = true;
    changed.notify_all();
    return {};
  }

  // On the loop.
  void list_members(server::Front::Listed done) {
    ServerMember own;
    {
      const base::LocalLock lock(mutex);
      own = self;
    }
    own.shards = lead().leading;
    if (!shared) return done(std::vector{own});
    if (!members) return done(Error(Errc::kUnavailable, "this server has no list of the others"));
    members->list(base::BootClock::now() + kListing,
                  [this, own, done = std::move(done)](Result<port::MembersList> found) {
                    asio::post(io, [own, done, found = std::move(found)]() mutable {
                      done(with_own(std::move(found), own));
                    });
                  });
  }

  // On the loop. A folder has nothing to tell beyond the server's own status.
  void examine_journal(server::Front::Examined done) {
    if (!shared) return done(std::vector<Finding>());
    if (!members) return done(Error(Errc::kUnavailable, "this server cannot ask its journal"));
    members->examine(base::BootClock::now() + kExamining,
                     [this, done = std::move(done)](Result<std::vector<Finding>> found) {
                       asio::post(io, [done, found = std::move(found)] { done(found); });
                     });
  }

  // The one that answers is there, whether it is on the list yet or not.
  static Result<std::vector<ServerMember>> with_own(Result<port::MembersList> found,
                                                    const ServerMember& own) {
    if (!found) return found.error();
    std::vector<ServerMember> servers = std::move(found->servers);
    const bool listed = std::any_of(servers.begin(), servers.end(), [&](const ServerMember& each) {
      return each.address == own.address;
    });
    if (!listed && !own.address.empty()) servers.push_back(own);
    return servers;
  }

  // The thread that knows who leads, and has several shards led by somebody, and by each server
  // about as many.
  void share() {
    server::Sharing sharing(told, tuning.sharing);
    for (;;) {
      if (take_step_down()) sharing.step_down(base::BootClock::now());
      tell_yields(sharing.yields());
      const auto view = look();
      note_journal(view.has_value());
      if (view) follow_plan(sharing.plan(*view, base::BootClock::now()), *view);
      const base::LocalLock lock(mutex);
      others = view ? static_cast<std::size_t>(
                          std::count_if(view->servers.begin(), view->servers.end(),
                                        [&](const std::string& each) { return each != told; }))
                    : 0;
      if (!stopping && !steps_down) changed.wait_for(mutex, tuning.sharing.between_looks);
      if (stopping) return;
    }
  }

  bool take_step_down() {
    const base::LocalLock lock(mutex);
    return std::exchange(steps_down, false);
  }

  void follow_plan(const server::Sharing::Plan& plan, const server::SharedShards& view) {
    for (std::uint32_t shard = 0; shard < shards.size(); ++shard) {
      server::ServedShard& one = *shards[shard];
      // A key of this address that is not this process' is one of its last life.
      const std::string& leader = view.leaders[shard];
      const bool news =
          !view.servers.empty() && one.note_leader(leader == told ? std::string() : leader);
      // One shard has no plan: its journal elects the leader.
      if (shards.size() == 1) {
        if (news) on_change(shard);
        continue;
      }
      if (plan.take[shard]) one.try_to_lead();
      if (plan.give[shard]) one.hand_over();
    }
  }

  // nullopt: the journal does not answer. A server that may not read the list tries to lead every
  // shard, and the journal decides.
  std::optional<server::SharedShards> look() {
    server::SharedShards view{{}, std::vector<std::string>(shards.size())};
    if (!members) return view;
    const auto told_by = std::make_shared<std::promise<Result<port::MembersList>>>();
    auto answer = told_by->get_future();
    members->list(base::BootClock::now() + kListing, [told_by](Result<port::MembersList> found) {
      told_by->set_value(std::move(found));
    });
    const auto seen = answer.get();
    if (!seen && seen.error().code() == Errc::kPermissionDenied) return view;
    if (!seen) return std::nullopt;
    const auto& yielding = seen->yielding;
    for (const ServerMember& each : seen->servers) {
      const bool takes = each.address == told || std::find(yielding.begin(), yielding.end(),
                                                           each.address) == yielding.end();
      if (takes) view.servers.push_back(each.address);
    }
    view.leaders = seen->leaders;
    note_http_places(seen->servers);
    return view;
  }

  // An entry in another format has none.
  void note_http_places(const std::vector<ServerMember>& servers) {
    std::map<std::string, std::string> places;
    for (const ServerMember& each : servers) {
      if (each.address != told && !each.http.empty()) places.emplace(each.address, each.http);
    }
    if (places == http_places) return;
    http_places = places;
    asio::post(io, [this, places = std::move(places)] { http.note_places(places); });
  }

  // With several shards: of all together.
  ServerLead lead() const {
    if (shards.size() == 1) {
      ServerLead one = shards.front()->lead();
      one.leading = one.leads ? 1 : 0;
      return one;
    }
    ServerLead all{.leads = false, .shards = count()};
    for (std::uint32_t shard = 0; shard < shards.size(); ++shard) {
      const ServerLead one = shards[shard]->lead();
      if (!one.leads) continue;
      all.leads = true;
      ++all.leading;
      all.found.new_journal = all.found.new_journal || one.found.new_journal;
      all.found.locks += one.found.locks;
      if (!one.found.restored.empty()) {
        all.found.restored += (all.found.restored.empty() ? "shard " : "; shard ") +
                              std::to_string(shard) + ": " + one.found.restored;
      }
      all.found.quiet = std::max(all.found.quiet, one.found.quiet);
    }
    return all;
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      const base::LocalLock lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    if (sharer.joinable()) sharer.join();
    std::unique_ptr<port::Members> left;
    server::run_on_loop(io, [&] {
      front.drain();
      const base::LocalLock lock(mutex);
      if (shards.size() > 1) left = std::move(members);
    });
    left.reset();  // So that no other server leaves a shard to this one.
    for (const auto& each : shards) each->stop();
    settle();
    server::run_on_loop(io, [this] {
      front.close();
      http.close();
    });
    work.reset();
    io.stop();
    thread.join();
    members.reset();  // With one shard last, because nothing waits for it: the lead is handed over.
  }

  // Until other servers have answered what this one has forwarded.
  void settle() {
    const auto settled = std::make_shared<std::promise<void>>();
    server::run_on_loop(io, [&] { front.settle([settled] { settled->set_value(); }); });
    settled->get_future().wait_for(tuning.front.forwarded);
  }

  // Less than the time in which a client gives a connection up.
  static constexpr std::chrono::seconds kListing{2};
  static constexpr std::chrono::seconds kExamining{3};

  const ServerOptions options;
  const server::ServerTuning tuning;
  const std::string place;
  const bool shared;
  const server::AccountsPtr accounts = std::make_shared<server::Accounts>();
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  server::Front front;
  server::HttpFront http;
  std::vector<std::unique_ptr<server::ServedShard>> shards;
  std::unique_ptr<server::Journal> first;  // The only shard's, until that has it.
  std::string address;
  std::string http_address;
  std::string told;
  std::string http_told;                   // As `told`, of the HTTP port.
  std::unique_ptr<port::Members> members;  // Null unless the journal is shared. Set by start().
  std::thread thread;
  std::thread sharer;                              // Where the journal is shared.
  std::map<std::string, std::string> http_places;  // That thread's own.

  base::LocalMutex telling;  // Held before `mutex`, if both are.
  base::LocalMutex mutex;
  base::LocalCondition changed;
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
  ServerMember self HOLDFAST_GUARDED_BY(mutex);  // Without an address until it leads or stands by.
  // These are for several shards: an operator's wish, what became of it, and how many other servers
  // take shards.
  bool steps_down HOLDFAST_GUARDED_BY(mutex) = false;
  bool yields HOLDFAST_GUARDED_BY(mutex) = false;
  std::size_t others HOLDFAST_GUARDED_BY(mutex) = 0;
};

Result<Server> server::ServerAccess::start(ServerOptions options, ServerTuning tuning) {
  const auto shards = fix_shards(options.journal, options.shards);
  if (!shards) return shards.error();
  auto journal = make_journal(options.journal);
  if (!journal) return journal.error();
  tuning.front.rate = tuning.http.rate = options.connection_rate;
  auto impl = std::make_unique<Server::Impl>(std::move(options), std::move(tuning), *shards,
                                             *std::move(journal));
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
  return impl_->shards.size() == 1 ? impl_->shards.front()->journal_id() : std::string();
}
ServerLead Server::lead() const { return impl_->lead(); }
Result<void> Server::reload() { return impl_->reload(); }
void Server::stop() { impl_->stop(); }

}  // namespace holdfast
