// A program that is a lock server itself; run as a test. docs/stores/holdfast.md quotes it.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "holdfast/client.h"
#include "holdfast/server.h"

namespace {

using holdfast::Client;
using holdfast::Result;
using holdfast::Server;
using holdfast::ServerOptions;
using namespace std::chrono_literals;

Result<void> serve(const std::string& folder) {
  // [region: serve]
  ServerOptions options;
  options.listen = "127.0.0.1:0";        // the system chooses the port
  options.journal = "sqlite:" + folder;  // grants and tokens outlive a kill of this program
  auto server = Server::start(std::move(options));
  if (!server) return server.error();

  auto client = Client::connect(server->url());  // this program, or any other of the host
  if (!client) return client.error();
  auto lease = client->mutex("orders/42").acquire({.wait = 5s, .ttl = 30s});
  if (!lease) return lease.error();
  // [end]
  std::printf("%s holds at %s\n", lease->token().to_string().c_str(), server->url().c_str());
  if (auto done = lease->release(); !done) return done;
  server->stop();
  return {};
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "holdfast-server-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const auto served = serve(folder + "/journal");
  std::filesystem::remove_all(folder);
  if (served) return 0;
  std::fprintf(stderr, "%s\n", served.error().message().c_str());
  return 1;
}
