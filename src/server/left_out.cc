// A build without SQLite or a JSON library has no lock service, and says so.
#include "holdfast/server.h"
#include "holdfast/server_tools.h"

namespace holdfast {

struct Server::Impl {};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::Server(Server&& other) noexcept = default;
Server& Server::operator=(Server&& other) noexcept = default;
Server::~Server() = default;

namespace {

Error left_out() {
  return {Errc::kUnsupported,
          "the lock service was left out when Holdfast was built: it needs SQLite, Asio, "
          "nlohmann-json, Boost.Beast and crypt(3) (libsqlite3-dev, libasio-dev, "
          "nlohmann-json3-dev, libboost-dev, libcrypt-dev)"};
}

}  // namespace

Result<Server> Server::start(ServerOptions) { return left_out(); }
Result<std::string> hash_password(const std::string&) { return left_out(); }
Result<JournalReport> verify_journal(const std::string&) { return left_out(); }
Result<JournalReport> back_up_journal(const std::string&, const std::string&) { return left_out(); }
Result<JournalReport> restore_journal(const std::string&, const std::string&) { return left_out(); }

std::string Server::address() const { return {}; }
std::string Server::http_address() const { return {}; }
std::string Server::url() const { return {}; }
std::string Server::place() const { return {}; }
std::string Server::journal_id() const { return {}; }
ServerLead Server::lead() const { return {}; }
Result<void> Server::reload() { return left_out(); }
void Server::stop() {}

}  // namespace holdfast
