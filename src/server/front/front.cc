#include "src/server/front/front.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include "src/machine/effect.h"
#include "src/port/boot_timer.h"
#include "src/server/access/account.h"
#include "src/server/access/failed_logins.h"
#include "src/server/access/gate.h"
#include "src/server/front/call_runner.h"
#include "src/server/front/channels/channels.h"
#include "src/server/front/channels/subscriptions.h"
#include "src/server/front/channels/watched_prefixes.h"
#include "src/server/front/commands.h"
#include "src/server/front/connection.h"
#include "src/server/front/forwarder.h"
#include "src/server/front/libraries/library_locks.h"
#include "src/server/front/libraries/library_owner.h"
#include "src/server/front/listen_address.h"
#include "src/server/front/operator_calls.h"
#include "src/server/front/reply_writer.h"
#include "src/server/front/shard_table.h"

namespace holdfast::server {
namespace {

using asio::ip::tcp;

constexpr std::size_t kScratch = 64 * 1'024;
constexpr std::chrono::seconds kBetweenWarnings{10};
// After an accept that failed for want of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

struct Front::Impl final : ConnectionOwner, CommandContext, std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, FrontLimits wanted, Greeting greeting, std::uint32_t shards)
      : io(loop),
        limits_(wanted),
        greeting_(std::move(greeting)),
        parts(shards),
        ready(ReadySet::make(loop)),
        acceptor(loop),
        pause(loop),
        first_requests(loop),
        scratch_(kScratch, '\0'),
        forwarder(loop, ready, scratch_, wanted.forwarded) {}

  void run_in(std::uint32_t shard, Connection& connection, const Words& words);
  void run_sharded(Connection& connection, const Words& words);
  void attach_to(Connection& connection, std::string_view word);
  // False: nothing was done, because the request is not one that the leader could do.
  bool forward(std::uint32_t shard, Connection& connection, const Words& words);
  bool run_channels(Connection& connection, const Words& words);
  std::string leader_of_channel(const std::string& channel) const;
  void change_leader(std::uint32_t shard, const std::string& next);

  // --- Connections.
  void accept();
  void admit(tcp::socket socket);
  bool has_room_for(const std::string& address);
  void begin(Stream stream, std::string address);
  void shake_hands(tcp::socket socket, std::string address);
  void leave_strangers(const std::string& address);
  void close_oldest_stranger();
  void check_first_requests();
  void flush_all();
  void check_settled();
  void close_connections();
  void close_connections_of(std::uint32_t shard);
  void close_all();
  // To the shard's connections, and to those of lock libraries.
  void tell(std::uint32_t shard, const std::string& channel, std::string_view payload) override;
  void tell_watches(std::uint32_t shard, const machine::Effect& effect, machine::Instant at);

  void on_request(Connection& connection, const Words& words) override;
  void on_greeted(const Connection& connection) override;
  void on_closed(Connection& connection) override;
  void flush_later(ConnectionPtr connection) override;
  bool account(std::size_t before, std::size_t now) override {
    buffered = buffered - before + now;
    return now <= before || buffered <= limits_.buffered;
  }
  const FrontLimits& limits() const override { return limits_; }
  bool knows(const Connection& connection) const override {
    return door.users == nullptr || connection.account != nullptr;
  }
  std::string& scratch() override { return scratch_; }

  // --- Commands.
  Result<void> subscribe(Connection& connection, const std::string& channel) override;
  void unsubscribe(Connection& connection, const std::string& channel) override;
  bool hears(const std::string& client, const std::string& watched_prefix) const override {
    const auto all = subscriptions.of(std::string(kWatchChannel) + watched_prefix);
    return std::any_of(all.begin(), all.end(), [own = channel_of(client)](const Connection* each) {
      return each->channels.contains(own);
    });
  }
  std::optional<Error> refuse_channel(const Connection& connection, const std::string& channel);
  bool has_users() const override { return door.users != nullptr; }
  void log_in(Connection& connection, const std::string& user, const std::string& password,
              std::function<void(const Result<void>&)> done) override;
  Result<void> join(Connection& connection, const UserPtr& user);
  void leave_account(const AccountPtr& account);
  std::size_t connections() const override { return open.size(); }
  const Greeting& greeting() const override { return greeting_; }
  std::optional<machine::Token> last_token(const std::string& lock) const override {
    return parts.of_lock(lock).last_tokens.of(lock);
  }
  std::string journal_id(const Connection& connection) const override {
    const Service* const service = parts.service_of(connection);
    return service != nullptr ? service->journal_id() : "";
  }
  std::string term(const Connection& connection) const override {
    const Service* const service = parts.service_of(connection);
    return service != nullptr ? service->term() : "";
  }
  Service::State state(const Connection& connection) const override {
    return parts.state(connection);
  }
  std::size_t copies() const override { return parts.copies(); }
  std::uint32_t shards() const override { return parts.size(); }
  std::vector<std::uint32_t> led_shards() const override { return parts.led(); }
  std::string leader() const override { return parts.size() == 1 ? parts[0].leader : ""; }
  std::string shard_leaders() const override { return parts.leaders(own_address); }
  Result<void> step_down() override {
    if (hand_over) return hand_over();
    return Error(Errc::kUnsupported,
                 "this server's journal is not shared, so no other one can lead");
  }
  void list_members(Listed done) override { for_operators.list(std::move(done)); }
  void examine_journal(Examined done) override { for_operators.examine(std::move(done)); }
  bool drain(const std::string& who) override {
    const auto& stop = for_operators.drain;
    if (stop) warn("is asked to stop by " + who);
    if (stop) stop();
    return stop != nullptr;
  }

  asio::io_context& io;
  const FrontLimits limits_;
  const Greeting greeting_;
  ShardTable parts;
  std::string own_address;           // As clients are told it.
  bool draining = false;             // Operators hear the end on their connections.
  std::function<void()> on_settled;  // While it waits for other servers' answers.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  std::function<Result<void>()> hand_over;  // Where another server can lead.
  ForOperators for_operators;
  bool told_of_accept = false;
  base::BootInstant next_limit_warning{};
  FailedLogins failed_logins;

  const std::shared_ptr<ReadySet> ready;
  tcp::acceptor acceptor;
  port::BootTimer pause;
  port::BootTimer first_requests;
  std::string scratch_;
  bool forwards = false;  // There may be a leader to forward to.
  Forwarder forwarder;
  std::uint64_t next_number = 1;
  std::unordered_map<std::uint64_t, ConnectionPtr> open;
  // Connections that may not have sent a whole request, the oldest first.
  std::deque<std::pair<base::BootInstant, std::weak_ptr<Connection>>> fresh;
  bool watches_fresh = false;
  std::vector<ConnectionPtr> to_flush;
  std::size_t buffered = 0;
  FrontDoor door;
  std::unique_ptr<Gate> gate;  // Once there are users or TLS.
  // Sockets in a handshake and connections that are not greeted, by address.
  std::unordered_map<std::string, std::size_t> strangers;
  std::size_t strangers_in_all = 0;
  Subscriptions subscriptions;
  WatchedPrefixes watched;
  std::size_t value_channels = 0;  // Channels of single locks.
};

void Front::Impl::accept() {
  if (!acceptor.is_open()) return;
  acceptor.async_accept([self = shared_from_this()](std::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      if (!std::exchange(self->told_of_accept, true)) {
        self->warn("cannot accept a connection: " + error.message() + lack_of_files(error));
      }
      return self->pause.arm(kAcceptPause, [self] { self->accept(); });
    }
    if (!self->acceptor.is_open()) return;  // Accepted just before the end.
    self->told_of_accept = false;
    self->admit(std::move(socket));
    self->accept();
  });
}

void Front::Impl::admit(tcp::socket socket) {
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  const tcp::endpoint peer = socket.remote_endpoint(ignored);
  std::string address = place_of(peer.address());
  if (!has_room_for(address)) {
    // In the middle of a handshake it would be no text.
    if (door.tls != nullptr) return;
    std::string bytes;
    append_error(bytes, "ERR max number of clients reached");
    socket.send(asio::buffer(bytes), 0, ignored);
    return;
  }
  socket.set_option(tcp::no_delay(true), ignored);
  if (door.tls != nullptr) return shake_hands(std::move(socket), std::move(address));
  begin({ready, socket.release(), nullptr}, std::move(address));
}

bool Front::Impl::has_room_for(const std::string& address) {
  const bool full = open.size() >= limits_.connections;
  // The oldest stranger makes room, unless that is one in a handshake.
  if (gate != nullptr && strangers_in_all >= limits_.strangers) close_oldest_stranger();
  std::size_t& of_address = strangers[address];
  const bool strange = gate != nullptr && (strangers_in_all >= limits_.strangers ||
                                           of_address >= limits_.strangers_of_address);
  if (full || strange) {
    if (of_address == 0) strangers.erase(address);
    const auto now = base::BootClock::now();
    if (now >= next_limit_warning) {
      next_limit_warning = now + kBetweenWarnings;
      warn("refused a connection of " + address + ": there are " +
           std::to_string(full ? open.size() : strangers_in_all) +
           (full ? " already, and no more are served" : " already that have not logged in"));
    }
    return false;
  }
  ++of_address;
  ++strangers_in_all;
  return true;
}

void Front::Impl::close_oldest_stranger() {
  while (!fresh.empty()) {
    const auto connection = fresh.front().second.lock();
    fresh.pop_front();
    if (connection == nullptr || connection->closed() || connection->greeted) continue;
    return connection->close();
  }
}

void Front::Impl::leave_strangers(const std::string& address) {
  const auto found = strangers.find(address);
  --strangers_in_all;
  if (--found->second == 0) strangers.erase(found);
}

void Front::Impl::begin(Stream stream, std::string address) {
  const auto connection =
      std::make_shared<Connection>(std::move(stream), *this, next_number++, std::move(address));
  open.emplace(connection->number, connection);
  fresh.emplace_back(connection->since + limits_.first_time, connection);
  if (!watches_fresh) check_first_requests();
  connection->start();
}

// On the gate's thread. Until then nothing else of the front knows the socket.
void Front::Impl::shake_hands(tcp::socket socket, std::string address) {
  auto session = door.tls->session(socket.native_handle());
  if (session == nullptr) return leave_strangers(address);
  const int fd = socket.release();
  gate->shake_hands(
      fd, std::move(session),
      [self = shared_from_this(), address](int done, std::unique_ptr<port::TlsSession> tls) {
        if (done < 0) return self->leave_strangers(address);
        Stream stream(self->ready, done, std::move(tls));
        if (!self->acceptor.is_open()) return self->leave_strangers(address);
        self->begin(std::move(stream), address);
      });
}

void Front::Impl::check_first_requests() {
  const auto now = base::BootClock::now();
  while (!fresh.empty()) {
    const auto connection = fresh.front().second.lock();
    const bool settled = connection == nullptr || connection->closed() || connection->greeted;
    if (!settled && fresh.front().first > now) break;
    fresh.pop_front();
    if (!settled) connection->close();
  }
  watches_fresh = !fresh.empty();
  if (!watches_fresh) return;
  first_requests.arm_at(fresh.front().first,
                        [self = shared_from_this()] { self->check_first_requests(); });
}

void Front::Impl::flush_later(ConnectionPtr connection) {
  to_flush.push_back(std::move(connection));
  if (to_flush.size() > 1) return;
  asio::post(io, [self = shared_from_this()] { self->flush_all(); });
}

void Front::Impl::flush_all() {
  std::vector<ConnectionPtr> now;
  now.swap(to_flush);
  for (const ConnectionPtr& each : now) each->flush();
  check_settled();
}

void Front::Impl::check_settled() {
  if (!on_settled || std::any_of(open.begin(), open.end(), [](const auto& each) {
        return each.second->waits_for_others();
      })) {
    return;
  }
  std::exchange(on_settled, nullptr)();
}

void Front::Impl::on_greeted(const Connection& connection) { leave_strangers(connection.address); }

void Front::Impl::on_closed(Connection& connection) {
  if (!connection.greeted) leave_strangers(connection.address);
  leave_account(std::exchange(connection.account, nullptr));
  while (!connection.channels.empty()) unsubscribe(connection, *connection.channels.begin());
  Forwarder::leave(connection);
  open.erase(connection.number);
  check_settled();
}

void Front::Impl::close_all() {
  std::error_code ignored;
  acceptor.close(ignored);
  pause.stop();
  first_requests.stop();
  close_connections();
  forwarder.stop();
  gate.reset();
}

void Front::Impl::close_connections() {
  while (!open.empty()) {
    const ConnectionPtr connection = open.begin()->second;
    connection->flush();
    connection->close();
  }
}

// A lock library counts its leases from answers, and its connection may use any shard.
void Front::Impl::close_connections_of(std::uint32_t shard) {
  if (parts.size() == 1) return close_connections();
  std::vector<ConnectionPtr> ending;
  for (const auto& [number, each] : open) {
    if (each->attached ? each->shard == shard : !draining) ending.push_back(each);
  }
  for (const ConnectionPtr& each : ending) {
    each->flush();
    each->close();
  }
}

void Front::Impl::log_in(Connection& connection, const std::string& user,
                         const std::string& password,
                         std::function<void(const Result<void>&)> done) {
  connection.pause();
  gate->judge(user, password, connection.address,
              [self = shared_from_this(), own = connection.shared_from_this(), user, password,
               done = std::move(done)](Gate::Verdict verdict, const UserPtr& known) {
                if (verdict == Gate::Verdict::kWrong) {
                  const auto told = self->failed_logins.note(self->door.users, user, own->address);
                  if (told) self->warn(*told);
                }
                if (own->closed()) return;
                if (verdict == Gate::Verdict::kRight) {
                  const auto joined = self->join(*own, known);
                  if (joined && self->forwards) {
                    own->login = std::make_shared<KnownLogin>(user, password);
                  }
                  done(joined);
                } else if (verdict == Gate::Verdict::kWrong) {
                  done(Error(Errc::kPermissionDenied,
                             "this server does not accept this user and password"));
                } else {
                  done(Error(Errc::kUnavailable, "too many log in at once: come again"));
                }
                own->resume();
              });
}

Result<void> Front::Impl::join(Connection& connection, const UserPtr& user) {
  const AccountPtr account = door.accounts->of(user);
  if (account == nullptr) {
    return Error(Errc::kUnavailable, "the users have changed meanwhile: come again");
  }
  if (connection.account == account) return {};
  if (auto refused = account->refuse_connection()) return *std::move(refused);
  ++account->connections;
  leave_account(std::exchange(connection.account, account));
  return {};
}

// It stays: what its user has asked for counts on.
void Front::Impl::leave_account(const AccountPtr& account) {
  if (account != nullptr) --account->connections;
}

// nullopt: its user may listen to it.
std::optional<Error> Front::Impl::refuse_channel(const Connection& connection,
                                                 const std::string& channel) {
  if (auto good = check_channel(channel); !good) return good.error();
  if (const auto lock = lock_of_channel(channel)) {
    return refuse(connection.account, Right::kObserve, *lock);
  }
  if (channel.starts_with(kWatchChannel)) {
    return refuse_all(connection.account, channel.substr(kWatchChannel.size()));
  }
  // The name of a client is its own secret. Still, no other user may listen to it.
  for (const Connection* each : subscriptions.of(channel)) {
    if (each->account != connection.account) {
      return Error(Errc::kPermissionDenied, "another user's client listens on this channel");
    }
  }
  return std::nullopt;
}

Result<void> Front::Impl::subscribe(Connection& connection, const std::string& channel) {
  if (auto denied = refuse_channel(connection, channel)) return *std::move(denied);
  if (!connection.attached) {
    const auto lock = lock_of_channel(channel);
    if (!lock && parts.size() > 1) return Error(Errc::kInvalidArgument, "attach to a shard first");
    const auto elsewhere = lock ? parts.refuse(parts.shard_of(*lock)) : std::nullopt;
    if (elsewhere) return *elsewhere;
  }
  if (connection.channels.size() >= limits_.channels) {
    return Error(Errc::kInvalidArgument, "this connection has as many channels as are allowed");
  }
  if (!connection.channels.insert(channel).second) return {};
  subscriptions.join(channel, connection);
  if (channel.starts_with(kWatchChannel)) {
    watched.add(channel.substr(kWatchChannel.size()));
  } else if (!channel.starts_with(kClientChannel)) {
    ++value_channels;
  }
  return {};
}

void Front::Impl::unsubscribe(Connection& connection, const std::string& channel) {
  const std::string name = channel;  // It may be the set's own.
  if (connection.channels.erase(name) == 0) return;
  const bool last = subscriptions.leave(name, connection);
  if (name.starts_with(kWatchChannel)) {
    watched.remove(name.substr(kWatchChannel.size()));
  } else if (!name.starts_with(kClientChannel)) {
    --value_channels;
  } else if (Service* const service = parts.service_of(connection); last && service != nullptr) {
    service->forget_client(name.substr(kClientChannel.size()));
  }
}

void Front::Impl::tell(std::uint32_t shard, const std::string& channel, std::string_view payload) {
  for (Connection* each : subscriptions.of(channel)) {
    if (each->attached && each->shard != shard) continue;
    each->push_message(channel, payload);
  }
}

void Front::Impl::tell_watches(std::uint32_t shard, const machine::Effect& effect,
                               machine::Instant at) {
  const std::vector<std::string> prefixes = watched.of(effect.name);
  if (prefixes.empty()) return;
  std::optional<std::string> events[2];  // By whether the listener may see the owner.
  for (const std::string& prefix : prefixes) {
    const std::string channel = std::string(kWatchChannel) + prefix;
    for (Connection* each : subscriptions.of(channel)) {
      if (each->attached && each->shard != shard) continue;
      auto& event = events[may_see_owner(each->account, effect.owner) ? 1 : 0];
      if (!event) event = event_text(effect, at, shown_owner(each->account, effect.owner));
      if (!event) return;
      each->push_message(channel, "event " + std::to_string(prefix.size()) + ' ' + *event);
    }
  }
}

void Front::Impl::on_request(Connection& connection, const Words& words) {
  connection.answer_by = base::BootInstant::max();
  // Its answer may have to wait for another server's.
  if (!connection.links.empty()) {
    connection.answer_by = base::BootClock::now() + library_lease(words);
  }
  if (!knows(connection)) {
    run_command(*this, connection, words);
  } else if (run_operator_call(*this, connection, words) || run_channels(connection, words)) {
    return;
  } else if (parts.size() > 1) {
    run_sharded(connection, words);
  } else {
    run_in(0, connection, words);
  }
}

void Front::Impl::run_in(std::uint32_t shard, Connection& connection, const Words& words) {
  ShardTable::Part& part = parts[shard];
  if (part.service == nullptr) {
    if (!forward(shard, connection, words)) run_command(*this, connection, words);
  } else if (words.front() == "HF1") {
    run_call(*part.service, *this, connection, words);
  } else if (!run_library_command(*part.service, part.unlock_answers, connection, words)) {
    run_command(*this, connection, words);
  }
}

void Front::Impl::run_sharded(Connection& connection, const Words& words) {
  if (words.size() == 4 && words[0] == "HF1" && words[1] == "attach") {
    return attach_to(connection, words[3]);
  }
  const auto shard = parts.shard_of_request(connection, words);
  std::string bytes;
  if (!shard) {
    append_error(bytes, failure_text(shard.error()));
  } else if (!*shard) {
    if (leads() || !forward(0, connection, words)) run_command(*this, connection, words);
    return;
  } else if (const auto elsewhere = parts.refuse(**shard)) {
    if (forward(**shard, connection, words)) return;
    append_error(bytes, "STANDBY " + elsewhere->message());
  } else {
    return run_in(**shard, connection, words);
  }
  connection.reply(bytes);
}

bool Front::Impl::forward(std::uint32_t shard, Connection& connection, const Words& words) {
  if (connection.forwarded || connection.attached || !forwards) return false;
  const std::string& leader = parts[shard].leader;
  if (leader.empty() || leader == own_address) return false;
  const bool waits = words.front().size() == 4 && command_word(words.front()) == "WAIT";
  if (!waits && !library_target(words).is_known) return false;
  forwarder.forward(connection, leader, words, library_lease(words));
  return true;
}

// Empty: this server itself, as far as it can.
std::string Front::Impl::leader_of_channel(const std::string& channel) const {
  const auto lock = lock_of_channel(channel);
  if (!lock) return {};
  const ShardTable::Part& part = parts.of_lock(*lock);
  return part.service != nullptr || part.leader == own_address ? std::string() : part.leader;
}

// False: these channels are all here, or it is another command.
bool Front::Impl::run_channels(Connection& connection, const Words& words) {
  if (!forwards || connection.forwarded || connection.attached) return false;
  // Every request comes by here.
  if (words.front().size() != 9 && words.front().size() != 11) return false;
  return forwarder.run_channels(
      connection, words, [this](const std::string& channel) { return leader_of_channel(channel); },
      [&](const Words& here) { run_command(*this, connection, here); });
}

// A lock library counts its leases from answers, so none of an earlier term may reach it.
void Front::Impl::change_leader(std::uint32_t shard, const std::string& next) {
  // This server ends, so it does not ask any more who leads. The leader may still answer.
  if (draining && next.empty()) return;
  const std::string former = std::exchange(parts[shard].leader, next);
  if (former.empty() || former == next) return;
  std::vector<ConnectionPtr> ending;
  for (const auto& [number, each] : open) {
    if (each->links.contains(former)) ending.push_back(each);
  }
  for (const ConnectionPtr& each : ending) {
    each->flush();
    each->close();
  }
}

void Front::Impl::attach_to(Connection& connection, std::string_view word) {
  const auto shard = parts.shard_to_attach(connection, word);
  std::string bytes;
  if (!shard) {
    append_error(bytes, failure_text(shard.error()));
  } else if (const auto elsewhere = parts.refuse(*shard)) {
    append_error(bytes, "STANDBY " + elsewhere->message());
  } else {
    return attach(*this, connection, *shard);
  }
  connection.reply(bytes);
}

Front::Front(asio::io_context& io, FrontLimits limits, Greeting greeting, std::uint32_t shards)
    : impl_(std::make_shared<Impl>(io, limits, std::move(greeting), shards)) {}

Front::~Front() { impl_->close_all(); }

void Front::warn_by(std::function<void(const std::string&)> warn) { impl_->warn = std::move(warn); }

void Front::forward_to_leaders() { impl_->forwards = true; }

void Front::guard(FrontDoor door) {
  Impl& impl = *impl_;
  impl.door = std::move(door);
  if (impl.gate == nullptr && (impl.door.users != nullptr || impl.door.tls != nullptr)) {
    impl.gate = std::make_unique<Gate>(impl.io, impl.limits_.gate);
  }
  impl.forwarder.use(impl.door.tls, impl.gate.get());
  if (impl.door.users == nullptr) return;
  impl.gate->use(impl.door.users);
  std::vector<ConnectionPtr> changed;
  for (const auto& [number, connection] : impl.open) {
    if (connection->account == nullptr) continue;
    const User& before = *connection->account->user;
    const UserPtr now = impl.door.users->find(before.name);
    if (now == nullptr || *now != before) changed.push_back(connection);
  }
  for (const ConnectionPtr& each : changed) each->close();
  impl.door.accounts->use(impl.door.users);
}

void Front::step_down_by(std::function<Result<void>()> step_down) {
  impl_->hand_over = std::move(step_down);
}

void Front::operate_by(ForOperators calls) { impl_->for_operators = std::move(calls); }

void Front::serve(std::uint32_t shard, Service& service) {
  impl_->change_leader(shard, {});
  impl_->parts[shard].service = &service;
}

void Front::stand_by(std::uint32_t shard, const std::string& leader) {
  ShardTable::Part& part = impl_->parts[shard];
  impl_->change_leader(shard, leader);
  if (part.service == nullptr) return;
  impl_->close_connections_of(shard);
  part = {nullptr, leader};
}

void Front::note_journal(bool answers) { impl_->parts.journal_answers = answers; }

Result<void> Front::listen(const std::string& address) {
  auto opened = open_port(impl_->acceptor, address, impl_->door, "--listen");
  if (!opened) return opened;
  impl_->accept();
  return {};
}

std::string Front::address() const { return address_of(impl_->acceptor); }

void Front::tell_address(const std::string& address) { impl_->own_address = address; }

void Front::drain() {
  std::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->draining = true;
  // The shards of several end one by one, and serve until then.
  if (impl_->parts.size() > 1) return;
  for (const auto& [number, connection] : impl_->open) connection->stop_reading();
}

void Front::settle(std::function<void()> done) {
  for (const auto& [number, connection] : impl_->open) connection->stop_reading();
  impl_->on_settled = std::move(done);
  impl_->check_settled();
}

void Front::close() { impl_->close_all(); }

void Front::on_push(std::uint32_t shard, const ClientName& client, const port::Push& push) {
  impl_->tell(shard, channel_of(client), push_text(push));
}

void Front::on_effect(std::uint32_t shard, const machine::Effect& effect, machine::Instant at) {
  const bool ended = machine::ends_ticket(effect.kind) && effect.was_holder;
  if (ended) impl_->parts[shard].last_tokens.note(effect.name, effect.token);
  if (!impl_->watched.empty()) impl_->tell_watches(shard, effect, at);
  if (impl_->value_channels == 0) return;
  if (effect.kind != machine::EffectKind::kValueSet && !machine::ends_ticket(effect.kind)) return;
  const std::string channel = value_channel_of(effect.name);
  impl_->tell(shard, channel, "value " + channel);
  if (ended) impl_->tell(shard, redisson_channel_of(effect.name), "0");
}

void Front::on_stopped(std::uint32_t shard) { impl_->close_connections_of(shard); }

}  // namespace holdfast::server
