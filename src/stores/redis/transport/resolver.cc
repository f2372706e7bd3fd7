#include "src/stores/redis/transport/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/local_mutex.h"
#include "src/base/thread.h"

namespace holdfast::stores::redis {
namespace {

Endpoint endpoint_of(const void* address, std::size_t length) {
  Endpoint endpoint;
  std::memcpy(&endpoint.address, address, length);
  endpoint.length = static_cast<socklen_t>(length);
  return endpoint;
}

std::optional<Endpoint> without_lookup(const RedisAddress& address) {
  if (!address.socket_path.empty()) {
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    address.socket_path.copy(path.sun_path, sizeof path.sun_path - 1);
    return endpoint_of(&path, sizeof path);
  }
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    return endpoint_of(&v4, sizeof v4);
  }
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    return endpoint_of(&v6, sizeof v6);
  }
  return std::nullopt;
}

Result<Endpoints> ask_system(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Error{Errc::kUnavailable,
                 "cannot look up host '" + host +
                     "': " + (error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error))};
  }
  Endpoints endpoints;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    endpoints.push_back(endpoint_of(each->ai_addr, each->ai_addrlen));
  }
  ::freeaddrinfo(found);
  return endpoints;
}

}  // namespace

std::string Endpoint::display() const {
  if (address.ss_family == AF_UNIX) {
    return reinterpret_cast<const sockaddr_un*>(&address)->sun_path;
  }
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(v4->sin_port));
}

namespace {

bool same(const Endpoint& one, const Endpoint& other) {
  return one.length == other.length && std::memcmp(&one.address, &other.address, one.length) == 0;
}

}  // namespace

void put_first(const Endpoint& endpoint, Endpoints& endpoints) {
  const auto place = std::find_if(endpoints.begin(), endpoints.end(),
                                  [&](const Endpoint& each) { return same(each, endpoint); });
  if (place != endpoints.end()) std::rotate(endpoints.begin(), place, place + 1);
}

// Shared with the helper thread, which may outlive the resolver because getaddrinfo() cannot be
// cancelled.
struct Resolver::State {
  using Waiter = std::function<void(Result<Location>)>;

  std::string host;
  std::uint16_t port = 0;
  Lookup lookup;

  mutable base::LocalMutex mutex;
  Endpoints last_good HOLDFAST_GUARDED_BY(mutex);
  Endpoint preferred HOLDFAST_GUARDED_BY(mutex);
  bool busy HOLDFAST_GUARDED_BY(mutex) = false;
  std::vector<Waiter> waiters HOLDFAST_GUARDED_BY(mutex);

  void run() {
    Result<Endpoints> answer = lookup(host, port);
    if (answer && answer->empty()) {
      answer = Error{Errc::kUnavailable, "host '" + host + "' has no address"};
    }
    std::vector<Waiter> told;
    {
      base::LocalLock lock(mutex);
      if (answer) put_first(preferred, *answer);
      if (answer)
        last_good = *answer;
      else if (!last_good.empty())
        answer = last_good;
      busy = false;
      told.swap(waiters);
    }
    Result<Location> found = Error(Errc::kUnavailable, "");
    if (answer)
      found = Location{*answer};
    else
      found = answer.error();
    for (const Waiter& waiter : told) waiter(found);
  }
};

Resolver::Resolver(const RedisAddress& address, Lookup lookup) : state_(std::make_shared<State>()) {
  state_->host = address.host;
  state_->port = address.port;
  state_->lookup = lookup ? std::move(lookup) : Lookup(ask_system);
  if (const auto known = without_lookup(address)) {
    base::LocalLock lock(state_->mutex);
    state_->last_good.push_back(*known);
    state_->lookup = nullptr;
  }
}

Resolver::~Resolver() = default;

Location Resolver::cached() const {
  base::LocalLock lock(state_->mutex);
  return {state_->last_good};
}

std::string Resolver::late() const {
  return "looking up host '" + state_->host + "' takes too long: fix the name service";
}

void Resolver::prefer(const Endpoint& endpoint) {
  base::LocalLock lock(state_->mutex);
  state_->preferred = endpoint;
  put_first(endpoint, state_->last_good);
}

void Resolver::refresh(std::function<void(Result<Location>)> done) {
  if (!state_->lookup) return done(cached());
  {
    base::LocalLock lock(state_->mutex);
    state_->waiters.push_back(std::move(done));
    if (std::exchange(state_->busy, true)) return;
  }
  try {
    base::start_thread("holdfast-dns", [state = state_] { state->run(); }).detach();
  } catch (const std::system_error& error) {
    std::vector<State::Waiter> told;
    {
      base::LocalLock lock(state_->mutex);
      state_->busy = false;
      told.swap(state_->waiters);
    }
    const Error failure{Errc::kUnavailable,
                        "cannot look up host '" + state_->host + "': " + error.what()};
    for (const State::Waiter& waiter : told) waiter(failure);
  }
}

}  // namespace holdfast::stores::redis
