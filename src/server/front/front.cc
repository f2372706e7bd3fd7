#include "src/server/front/front.h"

#include <deque>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include "holdfast/detail/number.h"
#include "src/machine/effect.h"
#include "src/port/boot_timer.h"
#include "src/server/front/call_runner.h"
#include "src/server/front/commands.h"
#include "src/server/front/connection.h"
#include "src/server/front/last_tokens.h"
#include "src/server/front/library_locks.h"
#include "src/server/front/reply_writer.h"
#include "src/server/front/subscriptions.h"

namespace holdfast::server {
namespace {

using asio::ip::tcp;

constexpr std::size_t kScratch = 64 * 1'024;
// After an accept that failed for want of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::string_view kPrefix = "hf1:";
constexpr std::string_view kClientChannel = "hf1:@";

Error bad_address(const std::string& text, const std::string& why) {
  return {Errc::kInvalidArgument, "the address '" + text + "' " + why};
}

std::string lack_of_files(const std::error_code& error) {
  if (error != std::errc::too_many_files_open &&
      error != std::errc::too_many_files_open_in_system) {
    return {};
  }
  return error == std::errc::too_many_files_open
             ? ". New clients wait. Raise the limit of open files: LimitNOFILE= in a systemd unit, "
               "or 'ulimit -Hn' in the shell that starts the server; a client needs four"
             : ". New clients wait. Raise the kernel's limit, fs.file-max";
}

// "host:port", "[v6]:port".
Result<tcp::endpoint> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return bad_address(text, "has no port: write 127.0.0.1:7420");
  const auto port = detail::parse_number<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (!port) return bad_address(text, "has no valid port after the last ':'");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  std::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return bad_address(text, "does not begin with an IP address");
  if (!address.is_loopback()) {
    return bad_address(text, "is not of this host alone: this version has no users and no TLS, so "
                             "it listens on loopback only (127.0.0.1 or [::1])");
  }
  return tcp::endpoint(address, *port);
}

}  // namespace

struct Front::Impl final : ConnectionOwner, CommandContext, std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, FrontLimits wanted, Greeting greeting,
       std::function<void(const Error&)> stopped)
      : io(loop),
        limits_(wanted),
        greeting_(std::move(greeting)),
        on_stopped(std::move(stopped)),
        acceptor(loop),
        pause(loop),
        first_requests(loop),
        scratch_(kScratch, '\0') {}

  // --- Connections.
  void accept();
  void admit(tcp::socket socket);
  void check_first_requests();
  void flush_all();
  void close_connections();
  void close_all();
  void tell(const std::string& channel, std::string_view payload);

  void on_request(Connection& connection, const Words& words) override;
  void on_closed(Connection& connection) override;
  void flush_later(ConnectionPtr connection) override;
  bool account(std::size_t before, std::size_t now) override {
    buffered = buffered - before + now;
    return now <= before || buffered <= limits_.buffered;
  }
  const FrontLimits& limits() const override { return limits_; }
  std::string& scratch() override { return scratch_; }

  // --- Commands.
  bool is_channel(std::string_view channel) const override {
    return channel.starts_with(kPrefix) || channel.starts_with(kRedissonChannel);
  }
  bool subscribe(Connection& connection, const std::string& channel) override;
  void unsubscribe(Connection& connection, const std::string& channel) override;
  std::size_t connections() const override { return open.size(); }
  const Greeting& greeting() const override { return greeting_; }
  std::optional<machine::Token> last_token(const std::string& lock) const override {
    return last_tokens.of(lock);
  }
  std::string journal_id() const override { return service ? service->journal_id() : ""; }
  std::string term() const override { return service ? service->term() : ""; }
  Service::State state() const override { return service ? service->state() : Service::State{}; }
  std::string leader() const override { return leader_; }
  bool leads() const override { return service != nullptr; }

  asio::io_context& io;
  const FrontLimits limits_;
  const Greeting greeting_;
  const std::function<void(const Error&)> on_stopped;
  Service* service = nullptr;
  std::string leader_;  // While another server leads.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  bool told_of_accept = false;
  bool told_of_limit = false;

  tcp::acceptor acceptor;
  port::BootTimer pause;
  port::BootTimer first_requests;
  std::string scratch_;
  std::uint64_t next_number = 1;
  std::unordered_map<std::uint64_t, ConnectionPtr> open;
  // Connections that may not have sent a whole request, the oldest first.
  std::deque<std::pair<base::BootInstant, std::weak_ptr<Connection>>> fresh;
  bool watches_fresh = false;
  std::vector<ConnectionPtr> to_flush;
  std::size_t buffered = 0;
  Subscriptions subscriptions;
  LastTokens last_tokens;
  UnlockAnswers unlock_answers;
  std::size_t value_channels = 0;
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
    self->told_of_accept = false;
    self->admit(std::move(socket));
    self->accept();
  });
}

void Front::Impl::admit(tcp::socket socket) {
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  if (open.size() >= limits_.connections) {
    if (!std::exchange(told_of_limit, true)) {
      warn("refused a connection: there are " + std::to_string(open.size()) +
           " already, and no more are served");
    }
    std::string bytes;
    append_error(bytes, "ERR max number of clients reached");
    socket.send(asio::buffer(bytes), 0, ignored);
    return;
  }
  socket.set_option(tcp::no_delay(true), ignored);
  const auto connection = std::make_shared<Connection>(std::move(socket), *this, next_number++);
  open.emplace(connection->number, connection);
  fresh.emplace_back(connection->since + limits_.first_time, connection);
  if (!watches_fresh) check_first_requests();
  connection->start();
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
}

void Front::Impl::on_closed(Connection& connection) {
  while (!connection.channels.empty()) unsubscribe(connection, *connection.channels.begin());
  open.erase(connection.number);
}

void Front::Impl::close_all() {
  std::error_code ignored;
  acceptor.close(ignored);
  pause.stop();
  first_requests.stop();
  close_connections();
}

void Front::Impl::close_connections() {
  while (!open.empty()) {
    const ConnectionPtr connection = open.begin()->second;
    connection->flush();
    connection->close();
  }
}

bool Front::Impl::subscribe(Connection& connection, const std::string& channel) {
  if (!is_channel(channel) || connection.channels.size() >= limits_.channels) return false;
  if (!connection.channels.insert(channel).second) return true;
  subscriptions.join(channel, connection);
  if (!channel.starts_with(kClientChannel)) ++value_channels;
  return true;
}

void Front::Impl::unsubscribe(Connection& connection, const std::string& channel) {
  const std::string name = channel;  // It may be the set's own.
  if (connection.channels.erase(name) == 0) return;
  const bool last = subscriptions.leave(name, connection);
  if (!name.starts_with(kClientChannel)) {
    --value_channels;
  } else if (last && service != nullptr) {
    service->forget_client(name.substr(kClientChannel.size()));
  }
}

void Front::Impl::tell(const std::string& channel, std::string_view payload) {
  for (Connection* each : subscriptions.of(channel)) {
    std::string bytes;
    append_push(bytes, each->protocol, 3);
    append_text(bytes, "message");
    append_text(bytes, channel);
    append_text(bytes, payload);
    each->push(bytes);
  }
}

void Front::Impl::on_request(Connection& connection, const Words& words) {
  if (service == nullptr) {
    run_command(*this, connection, words);
  } else if (words.front() == "HF1") {
    run_call(*service, *this, connection, words);
  } else if (!run_library_command(*service, unlock_answers, connection, words)) {
    run_command(*this, connection, words);
  }
}

Front::Front(asio::io_context& io, FrontLimits limits, Greeting greeting,
             std::function<void(const Error&)> on_stopped)
    : impl_(std::make_shared<Impl>(io, limits, std::move(greeting), std::move(on_stopped))) {}

Front::~Front() { impl_->close_all(); }

void Front::warn_by(std::function<void(const std::string&)> warn) { impl_->warn = std::move(warn); }

void Front::serve(Service& service) {
  impl_->service = &service;
  impl_->leader_.clear();
}

void Front::stand_by(const std::string& leader) {
  impl_->leader_ = leader;
  if (impl_->service == nullptr) return;
  impl_->close_connections();
  impl_->service = nullptr;
  impl_->last_tokens = {};
  impl_->unlock_answers = {};
}

Result<void> Front::listen(const std::string& address) {
  const auto endpoint = parse_address(address);
  if (!endpoint) return endpoint.error();
  std::error_code error;
  tcp::acceptor& acceptor = impl_->acceptor;
  acceptor.open(endpoint->protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(*endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    const bool denied = error == asio::error::access_denied;
    const std::string advice = error == asio::error::address_in_use
                                   ? ": another program uses the port; give another --listen"
                                   : "";
    std::error_code ignored;
    acceptor.close(ignored);
    return Error(denied ? Errc::kPermissionDenied : Errc::kUnavailable,
                 "cannot listen on " + address + ": " + error.message() + advice);
  }
  impl_->accept();
  return {};
}

std::string Front::address() const {
  std::error_code error;
  const tcp::endpoint at = impl_->acceptor.local_endpoint(error);
  const std::string host = at.address().to_string();
  const std::string port = std::to_string(at.port());
  return at.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

void Front::drain() {
  std::error_code ignored;
  impl_->acceptor.close(ignored);
  for (const auto& [number, connection] : impl_->open) connection->stop_reading();
}

void Front::close() { impl_->close_all(); }

void Front::on_push(const ClientName& client, const port::Push& push) {
  impl_->tell(channel_of(client), push_text(push));
}

void Front::on_effect(Position, const machine::Effect& effect, machine::Instant) {
  const bool ended = machine::ends_ticket(effect.kind) && effect.was_holder;
  if (ended) impl_->last_tokens.note(effect.name, effect.token);
  if (impl_->value_channels == 0) return;
  if (effect.kind != machine::EffectKind::kValueSet && !machine::ends_ticket(effect.kind)) return;
  const std::string channel = value_channel_of(effect.name);
  impl_->tell(channel, "value " + channel);
  if (ended) impl_->tell(redisson_channel_of(effect.name), "0");
}

void Front::on_stopped(const Error& reason) {
  impl_->close_connections();
  impl_->on_stopped(reason);
}

}  // namespace holdfast::server
