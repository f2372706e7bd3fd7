#include "src/server/http/http_front.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include "src/port/boot_timer.h"
#include "src/server/access/failed_logins.h"
#include "src/server/front/listen_address.h"
#include "src/server/front/stream.h"
#include "src/server/http/credentials.h"
#include "src/server/http/http_codec.h"
#include "src/server/http/routes.h"

namespace holdfast::server {
namespace {

using asio::ip::tcp;
using port::SocketIo;

constexpr std::size_t kHttpScratch = 4 * 1'024;
constexpr std::chrono::milliseconds kHttpAcceptPause{100};
constexpr std::chrono::seconds kSweep{1};
// Bytes of the next requests, while one waits.
constexpr std::size_t kReadAhead = 16 * 1'024;

}  // namespace

namespace http_detail {

struct Peer {
  Peer(Stream its_stream, std::uint64_t its_number, std::string its_address, std::size_t most)
      : stream(std::move(its_stream)),
        number(its_number),
        address(std::move(its_address)),
        rate(most) {}

  Stream stream;
  const std::uint64_t number;
  const std::string address;
  Rate rate;
  HttpReader reader;
  std::string in;
  std::string out;
  std::size_t sent = 0;
  HttpRequest request;                       // The one under way.
  bool keep_alive = false;                   // After its answer.
  bool begun = false;                        // A part of a request is here.
  bool reading = false;                      // The socket is watched.
  bool busy = false;                         // From a whole request to the end of its answer.
  std::shared_ptr<HttpDeparture> departure;  // Set while the service works on it.
  base::BootInstant deadline = base::BootInstant::max();
  std::string authorization;  // That `account` was given for.
  AccountPtr account;
};
using PeerPtr = std::shared_ptr<Peer>;

}  // namespace http_detail

using http_detail::Peer;
using http_detail::PeerPtr;

struct HttpFront::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, HttpLimits wanted, Greeting greeting, std::vector<std::string> names,
       std::uint32_t shards)
      : io(loop),
        limits(wanted),
        waits(loop, wanted.connections / 2, wanted.connections_of_address / 2),
        ready(ReadySet::make(loop)),
        forwarder(loop, ready, wanted.forwarding),
        acceptor(loop),
        pause(loop),
        sweeper(loop) {
    scene.greeting = std::move(greeting);
    scene.shards.resize(shards);
    scene.waits = &waits;
    scene.forwarder = &forwarder;
    hosts = {"localhost", "127.0.0.1", "[::1]"};
    for (const std::string& each : names) hosts.insert(host_of(each));
  }

  void accept();
  void admit(tcp::socket socket);
  void begin(Stream stream, const std::string& address);
  bool has_room_for(const std::string& address);
  bool close_oldest_stranger(const std::string& address);
  void leave(const std::string& address);
  void close(const PeerPtr& peer);
  void close_all();
  void end_service(std::uint32_t shard);
  void sweep();

  void wait_read(const PeerPtr& peer);
  void read(const PeerPtr& peer);
  void step(const PeerPtr& peer);
  void judge(const PeerPtr& peer);
  void join(const PeerPtr& peer, Gate::Verdict verdict, const UserPtr& user);
  static void use_account(Peer& peer, AccountPtr account);
  void run(const PeerPtr& peer);
  void answer(const PeerPtr& peer, const HttpAnswer& answer);
  void write(const PeerPtr& peer);
  bool is_open(const PeerPtr& peer) const { return peers.contains(peer->number); }
  // After a reload a user logs in again, but a call of it that waits for its lock stays a user's.
  bool is_stranger(const Peer& peer) const {
    const bool in_queue = peer.departure != nullptr && peer.departure->then != nullptr;
    return door.users != nullptr && peer.account == nullptr && !in_queue;
  }
  std::chrono::milliseconds time_of(const Peer& peer, std::chrono::milliseconds usual) const {
    return is_stranger(peer) ? std::min(usual, limits.first_time) : usual;
  }

  asio::io_context& io;
  const HttpLimits limits;
  std::set<std::string> hosts;
  HttpScene scene;
  HttpWaits waits;
  FrontDoor door;
  FailedLogins failed_logins;
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  std::unique_ptr<Gate> gate;  // Once there are users or TLS.
  const std::shared_ptr<ReadySet> ready;
  HttpForwarder forwarder;
  tcp::acceptor acceptor;
  port::BootTimer pause;
  port::BootTimer sweeper;
  std::uint64_t next_number = 1;
  std::map<std::uint64_t, PeerPtr> peers;                   // The oldest first.
  std::unordered_map<std::string, std::size_t> of_address;  // With those in a handshake.
  std::size_t in_all = 0;
};

void HttpFront::Impl::accept() {
  if (!acceptor.is_open()) return;
  acceptor.async_accept([self = shared_from_this()](std::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return self->pause.arm(kHttpAcceptPause, [self] { self->accept(); });
    if (!self->acceptor.is_open()) return;  // Accepted just before the end.
    self->admit(std::move(socket));
    self->accept();
  });
}

void HttpFront::Impl::admit(tcp::socket socket) {
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  const std::string address = place_of(socket.remote_endpoint(ignored).address());
  if (!has_room_for(address)) return;
  ++of_address[address];
  ++in_all;
  if (door.tls == nullptr) return begin({ready, socket.release(), nullptr}, address);
  auto session = door.tls->session(socket.native_handle());
  if (session == nullptr) return leave(address);
  const int fd = socket.release();
  gate->shake_hands(
      fd, std::move(session),
      [self = shared_from_this(), address](int done, std::unique_ptr<port::TlsSession> tls) {
        if (done < 0) return self->leave(address);
        Stream stream(self->ready, done, std::move(tls));
        if (!self->acceptor.is_open()) return self->leave(address);
        self->begin(std::move(stream), address);
      });
}

// Where there are users, whoever has not logged in makes room, the oldest first: strangers who keep
// connections open keep no user out.
bool HttpFront::Impl::has_room_for(const std::string& address) {
  const auto found = of_address.find(address);
  const std::size_t its = found == of_address.end() ? 0 : found->second;
  if (its >= limits.connections_of_address) return close_oldest_stranger(address);
  return in_all < limits.connections || close_oldest_stranger({});
}

// False: nobody can make room. An empty address stands for any.
bool HttpFront::Impl::close_oldest_stranger(const std::string& address) {
  const auto oldest = std::find_if(peers.begin(), peers.end(), [&](const auto& each) {
    return is_stranger(*each.second) && (address.empty() || each.second->address == address);
  });
  if (oldest == peers.end()) return false;
  close(PeerPtr(oldest->second));
  return true;
}

void HttpFront::Impl::leave(const std::string& address) {
  const auto found = of_address.find(address);
  --in_all;
  if (--found->second == 0) of_address.erase(found);
}

void HttpFront::Impl::begin(Stream stream, const std::string& address) {
  const auto peer = std::make_shared<Peer>(std::move(stream), next_number++, address, limits.rate);
  peer->deadline = base::BootClock::now() + time_of(*peer, limits.request_time);
  peers.emplace(peer->number, peer);
  wait_read(peer);
}

void HttpFront::Impl::close(const PeerPtr& peer) {
  if (peers.erase(peer->number) == 0) return;
  if (const auto gone = std::exchange(peer->departure, nullptr); gone && gone->then) gone->then();
  use_account(*peer, nullptr);
  peer->stream.close();
  leave(peer->address);
}

void HttpFront::Impl::close_all() {
  std::error_code ignored;
  acceptor.close(ignored);
  pause.stop();
  sweeper.stop();
  waits.drop_all();
  forwarder.stop();
  while (!peers.empty()) close(PeerPtr(peers.begin()->second));
  gate.reset();
}

// Requests under way are not answered any more. Tickets stay for the server that leads.
void HttpFront::Impl::end_service(std::uint32_t shard) {
  Service* const ended = std::exchange(scene.shards[shard].service, nullptr);
  if (ended == nullptr) return;
  waits.drop(*ended);
  const bool alone = scene.shards.size() == 1;
  std::vector<PeerPtr> concerned;
  for (const auto& [number, peer] : peers) {
    const bool works = peer->departure != nullptr;
    if (alone || (works && peer->departure->shard.value_or(shard) == shard)) {
      concerned.push_back(peer);
    }
  }
  for (const PeerPtr& each : concerned) close(each);
}

void HttpFront::Impl::sweep() {
  const auto now = base::BootClock::now();
  std::vector<PeerPtr> late;
  for (const auto& [number, peer] : peers) {
    if (peer->deadline <= now) late.push_back(peer);
  }
  for (const PeerPtr& each : late) close(each);
  sweeper.arm(kSweep, [self = shared_from_this()] { self->sweep(); });
}

// Also while a call waits for its lock: its caller may go away.
void HttpFront::Impl::wait_read(const PeerPtr& peer) {
  if (peer->in.size() >= kReadAhead || std::exchange(peer->reading, true)) return;
  peer->stream.when_readable([self = shared_from_this(), peer](std::error_code error) {
    peer->reading = false;
    if (!self->is_open(peer)) return;
    if (error) return self->close(peer);
    self->read(peer);
  });
}

void HttpFront::Impl::read(const PeerPtr& peer) {
  char scratch[kHttpScratch];
  const SocketIo got = peer->stream.read(scratch, sizeof scratch);
  if (got.next == SocketIo::Next::kEnded) return close(peer);
  if (got.next == SocketIo::Next::kDone) peer->in.append(scratch, got.bytes);
  if (got.next == SocketIo::Next::kWantWrite) {
    peer->reading = true;
    return peer->stream.when_writable([self = shared_from_this(), peer](std::error_code error) {
      peer->reading = false;
      if (!self->is_open(peer)) return;
      if (error) return self->close(peer);
      self->read(peer);
    });
  }
  if (!peer->busy) return step(peer);
  // Behind so many bytes nobody would see that the caller of a waiting call has gone.
  if (peer->in.size() >= kReadAhead) return close(peer);
  if (peer->departure && peer->departure->then) wait_read(peer);
}

void HttpFront::Impl::step(const PeerPtr& peer) {
  if (peer->busy) return;
  if (!peer->in.empty() && !std::exchange(peer->begun, true)) {
    peer->deadline = base::BootClock::now() + time_of(*peer, limits.request_time);
  }
  switch (peer->reader.take(peer->in)) {
    case HttpReader::Next::kMore: return wait_read(peer);
    case HttpReader::Next::kBad:
      peer->busy = true;
      peer->keep_alive = false;
      peer->request = {};
      return answer(peer,
                    http_error(peer->reader.refusal(), peer->reader.code(), peer->reader.why(),
                               "send HTTP/1.1 with one Host; a head has 8 KiB at most, and a "
                               "body 16 KiB"));
    case HttpReader::Next::kRequest: break;
  }
  peer->busy = true;
  peer->begun = false;
  peer->deadline = base::BootInstant::max();  // It is the server's turn.
  peer->request = peer->reader.request();
  peer->keep_alive = peer->request.keep_alive;
  if (const auto refused = refuse_origin(peer->request, hosts)) return answer(peer, *refused);
  if (!is_open_to_all(peer->request.target) && !peer->rate.take(base::BootClock::now())) {
    HttpAnswer later = http_error(
        429, "too_many", "a connection may ask " + std::to_string(limits.rate) + " times a second",
        "wait, then repeat it");
    later.headers.emplace_back("Retry-After", "1");
    return answer(peer, later);
  }
  judge(peer);
}

void HttpFront::Impl::judge(const PeerPtr& peer) {
  const HttpRequest& request = peer->request;
  if (door.users == nullptr || is_open_to_all(request.target)) return run(peer);
  if (peer->account != nullptr && peer->authorization == request.authorization) return run(peer);
  use_account(*peer, nullptr);
  const auto credentials = read_credentials(request.authorization);
  if (!credentials) return join(peer, Gate::Verdict::kWrong, nullptr);
  gate->judge(credentials->user, credentials->password, peer->address,
              [self = shared_from_this(), peer, name = credentials->user](Gate::Verdict verdict,
                                                                          const UserPtr& user) {
                if (verdict == Gate::Verdict::kWrong) {
                  const auto told = self->failed_logins.note(self->door.users, name, peer->address);
                  if (told) self->warn(*told);
                }
                if (self->is_open(peer)) self->join(peer, verdict, user);
              });
}

void HttpFront::Impl::join(const PeerPtr& peer, Gate::Verdict verdict, const UserPtr& user) {
  const AccountPtr account = user == nullptr ? nullptr : door.accounts->of(user);
  if (verdict == Gate::Verdict::kBusy) {
    HttpAnswer later = http_error(503, "busy_logins", "too many log in at once", "come again");
    later.headers.emplace_back("Retry-After", "1");
    return answer(peer, later);
  }
  if (account == nullptr) {
    // The same words for an unknown user, so that nobody learns which names there are.
    const bool given = !peer->request.authorization.empty();
    HttpAnswer denied =
        http_error(401, "log_in",
                   given ? "this server does not accept this user and password"
                         : "this server wants a user and a password",
                   given ? "correct them; they are given as HTTP's Basic authentication"
                         : "give them as HTTP's Basic authentication");
    denied.headers.emplace_back("WWW-Authenticate", "Basic realm=\"holdfast\", charset=\"UTF-8\"");
    return answer(peer, denied);
  }
  if (const auto refused = account->refuse_connection()) {
    return answer(peer, http_error(429, "too_many_connections", refused->message(),
                                   "use the connections that are open"));
  }
  use_account(*peer, account);
  peer->authorization = peer->request.authorization;
  run(peer);
}

void HttpFront::Impl::use_account(Peer& peer, AccountPtr account) {
  if (peer.account != nullptr) --peer.account->connections;
  peer.account = std::move(account);
  if (peer.account != nullptr) ++peer.account->connections;
}

void HttpFront::Impl::run(const PeerPtr& peer) {
  scene.connections = peers.size();
  const auto departure = std::make_shared<HttpDeparture>();
  peer->departure = departure;
  const std::string caller = forwarded_for(peer->request).value_or(peer->address);
  answer_request(scene, peer->request, {peer->account, caller, departure, peer->address},
                 [self = shared_from_this(), peer](const HttpAnswer& answer) {
                   if (self->is_open(peer)) self->answer(peer, answer);
                 });
  if (peer->departure == departure && departure->then) wait_read(peer);
}

void HttpFront::Impl::answer(const PeerPtr& peer, const HttpAnswer& answer) {
  peer->departure.reset();
  ++scene.answered[std::min(answer.status / 100, 5U)];
  peer->out = to_bytes(answer, peer->keep_alive, peer->request.method == "HEAD");
  peer->sent = 0;
  peer->deadline = base::BootClock::now() + time_of(*peer, limits.request_time);
  write(peer);
}

void HttpFront::Impl::write(const PeerPtr& peer) {
  while (peer->sent < peer->out.size()) {
    const SocketIo done = peer->stream.write(std::string_view(peer->out).substr(peer->sent));
    if (done.next == SocketIo::Next::kEnded) return close(peer);
    if (done.next == SocketIo::Next::kDone) {
      peer->sent += done.bytes;
      continue;
    }
    const auto again = [self = shared_from_this(), peer](std::error_code error) {
      if (!self->is_open(peer)) return;
      if (error) return self->close(peer);
      self->write(peer);
    };
    if (done.next == SocketIo::Next::kWantRead) return peer->stream.when_readable(again);
    return peer->stream.when_writable(again);
  }
  peer->out.clear();
  peer->busy = false;
  if (!peer->keep_alive) return close(peer);
  peer->deadline = base::BootClock::now() + time_of(*peer, limits.idle_time);
  // Others' turn first: this one may have sent many requests at once.
  asio::post(io, [self = shared_from_this(), peer] {
    if (self->is_open(peer)) self->step(peer);
  });
}

HttpFront::HttpFront(asio::io_context& io, HttpLimits limits, Greeting greeting,
                     std::vector<std::string> hosts, std::uint32_t shards)
    : impl_(std::make_shared<Impl>(io, limits, std::move(greeting), std::move(hosts), shards)) {}

HttpFront::~HttpFront() { impl_->close_all(); }

void HttpFront::serve(std::uint32_t shard, Service& service) {
  impl_->scene.shards[shard] = {&service, {}};
  impl_->forwarder.end(shard);
  impl_->scene.locks.extended += service.found().extended;
}

void HttpFront::stand_by(std::uint32_t shard, const std::string& leader) {
  impl_->end_service(shard);
  if (std::exchange(impl_->scene.shards[shard].leader, leader) != leader) {
    impl_->forwarder.end(shard);
  }
}

void HttpFront::note_places(std::map<std::string, std::string> places) {
  impl_->forwarder.note_places(std::move(places));
}

void HttpFront::note_journal(bool answers) { impl_->scene.journal_answered = answers; }

void HttpFront::guard(FrontDoor door) {
  Impl& impl = *impl_;
  impl.door = std::move(door);
  if (impl.gate == nullptr && (impl.door.users != nullptr || impl.door.tls != nullptr)) {
    impl.gate = std::make_unique<Gate>(impl.io, impl.limits.gate);
  }
  impl.forwarder.use(impl.door.tls, impl.gate.get());
  if (impl.door.users == nullptr) return;
  impl.gate->use(impl.door.users);
  std::vector<PeerPtr> changed;  // Their calls under way have rights of before.
  for (const auto& [number, peer] : impl.peers) {
    peer->authorization.clear();
    if (peer->account == nullptr) continue;
    const UserPtr now = impl.door.users->find(peer->account->user->name);
    if (now == nullptr || *now != *peer->account->user) changed.push_back(peer);
  }
  for (const PeerPtr& each : changed) impl.close(each);
  for (const auto& [number, peer] : impl.peers) impl.use_account(*peer, nullptr);
  impl.door.accounts->use(impl.door.users);
}

void HttpFront::warn_by(std::function<void(const std::string&)> warn) {
  impl_->warn = std::move(warn);
}

void HttpFront::on_push(const ClientName& client, const port::Push& push) {
  impl_->waits.on_push(client, push);
}

void HttpFront::on_effect(const machine::Effect& effect) { impl_->scene.locks.add(effect); }

Result<void> HttpFront::listen(const std::string& address) {
  auto opened = open_port(impl_->acceptor, address, impl_->door, "--http");
  if (!opened) return opened;
  impl_->hosts.insert(host_of(this->address()));
  impl_->accept();
  impl_->sweep();
  return {};
}

std::string HttpFront::address() const { return address_of(impl_->acceptor); }

void HttpFront::tell_address(const std::string& main_address) {
  impl_->scene.address = main_address;
  // Other servers may call it so.
  impl_->hosts.insert(host_of(main_address));
}

void HttpFront::close() { impl_->close_all(); }

}  // namespace holdfast::server
