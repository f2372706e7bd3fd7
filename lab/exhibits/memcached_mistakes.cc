// A lock on memcached that a plain `add` has taken, and an eviction.
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/loopback.h"
#include "tests/support/memcached_server.h"

#include "lab/exhibits/mistake.h"
#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/scripts.h"

namespace holdfast::lab {
namespace {

using namespace std::chrono_literals;

class PlainAdd : public Mistake {
 public:
  explicit PlainAdd(const SubjectSetup& setup)
      : Mistake(setup), port_(port_of(setup.urls.at(0))) {}

  // [region: memcached-evicts]
  bool take(const Ask& ask, Held& held) override {
    const std::string size = std::to_string(held.value.size());
    return says("add " + ask.name + " 0 60 " + size + "\r\n" + held.value, "STORED");
  }
  bool give_back(const Held& held) override {
    if (!says("get " + held.name, held.value)) return false;
    return says("delete " + held.name, "DELETED");
  }
  // [end]

 private:
  static std::uint16_t port_of(const std::string& url) {
    return static_cast<std::uint16_t>(std::stoul(url.substr(url.rfind(':') + 1)));
  }
  // Whether the answer has that text.
  bool says(const std::string& command, const std::string& text) const {
    const std::string answer =
        support::exchange_on_loopback(port_, command + "\r\nquit\r\n", 5s);
    return answer.find(text) != std::string::npos && answer.find("NOT_") == std::string::npos;
  }

  const std::uint16_t port_;
};

// The items that other programs store in the same cache.
void fill(const support::MemcachedServer& server) {
  // The server evicts among items of about the same size: one page of each size is full then.
  std::string items;
  for (const int size : {24, 40, 160, 200, 250}) {
    const std::string page(static_cast<std::size_t>(size), 'x');
    const std::string rest = " 0 0 " + std::to_string(size) + " noreply\r\n" + page + "\r\n";
    for (int i = 0; i < 12'000; ++i) {
      items += "set page" + std::to_string(size) + "/" + std::to_string(i) + rest;
    }
  }
  server.command(items + "version");
  if (server.stat("evictions") == 0) throw std::runtime_error("memcached has evicted nothing");
}

}  // namespace

SubjectKind plain_add() { return mistake<PlainAdd>("plain-add", "an item that add has made"); }

namespace scripts {

std::optional<std::string> no_memcached() { return support::MemcachedServer::unavailable(); }

void memcached_evicts(Play& play) {
  const support::MemcachedServer server({"-m", "2"});
  Player& alice = play.player("alice", plain_add(), {server.url()});
  Player& bob = play.player("bob", plain_add(), {server.url()});
  alice.acquire(3s);
  sleep_for(60ms);
  play.memory_loss(FaultKind::kRestartEmpty, "memcached", [&] { fill(server); });
  bob.acquire(5s);
  sleep_for(1300ms);  // Alice's next renewal, if she has one, is over by then.
  if (alice.held()) alice.write();
  bob.write();
  bob.release();
  alice.release();
}

}  // namespace scripts
}  // namespace holdfast::lab
