// etcd's own lock service, called as articles call it: unlocked by the wrong key, and with a lease
// that nobody keeps alive.
#include <stdexcept>
#include <string>

#include "tests/support/etcd_server.h"
#include "tests/support/loopback.h"

#include "lab/exhibits/mistake.h"
#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/scripts.h"

namespace holdfast::lab {
namespace {

using namespace std::chrono_literals;

std::string base64(const std::string& text) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto byte = at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
      bits = bits << 8 | byte;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += at + i > text.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
    }
  }
  return out;
}

// etcd's lock service by its JSON gateway.
class EtcdLocks {
 public:
  // "etcd://127.0.0.1:1234?..."
  explicit EtcdLocks(const std::string& url)
      : port_(static_cast<std::uint16_t>(std::stoul(url.substr(url.rfind(':') + 1)))) {}

  std::string grant(std::chrono::seconds ttl) {
    return field(post("/v3/lease/grant", R"({"TTL": )" + std::to_string(ttl.count()) + "}", 5s),
                 "ID");
  }
  // The key that it has made; empty: not in time.
  std::string lock(const std::string& name, const std::string& lease, milliseconds wait) {
    const std::string asked = R"({"name": ")" + base64(name) + R"(", "lease": )" + lease + "}";
    return field(post("/v3/lock/lock", asked, wait), "key");
  }
  // `key` as lock() has returned it.
  bool unlock(const std::string& key) {
    return post("/v3/lock/unlock", R"({"key": ")" + key + "\"}", 5s).find("200 OK") !=
           std::string::npos;
  }

 private:
  std::string post(const std::string& path, const std::string& body, milliseconds limit) const {
    return support::exchange_on_loopback(
        port_,
        "POST " + path + " HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body,
        limit);
  }
  static std::string field(const std::string& answer, const std::string& name) {
    const std::string begin = "\"" + name + "\":\"";
    const std::size_t at = answer.find(begin);
    if (at == std::string::npos) return {};
    const std::size_t from = at + begin.size();
    return answer.substr(from, answer.find('"', from) - from);
  }

  const std::uint16_t port_;
};

class OnEtcd : public Mistake {
 public:
  explicit OnEtcd(const SubjectSetup& setup) : Mistake(setup), etcd_(setup.urls.at(0)) {}

 protected:
  // The name's key is encoded as all keys are.
  static std::string key_of(const std::string& name) { return base64(name); }
  static milliseconds patience(const Ask& ask) { return std::max<milliseconds>(ask.wait, 2s); }

  EtcdLocks etcd_;
};

class UnlockByName : public OnEtcd {
 public:
  using OnEtcd::OnEtcd;

  // [region: unlock-by-name]
  bool take(const Ask& ask, Held&) override {
    const std::string lease = etcd_.grant(60s);
    return !etcd_.lock(ask.name, lease, patience(ask)).empty();
  }
  bool give_back(const Held& held) override { return etcd_.unlock(key_of(held.name)); }
  // [end]
};

class NoKeepalive : public OnEtcd {
 public:
  using OnEtcd::OnEtcd;

  // [region: no-keepalive]
  bool take(const Ask& ask, Held& held) override {
    const std::string lease = etcd_.grant(2s);
    held.value = etcd_.lock(ask.name, lease, patience(ask));
    held.deadline_ns = now_ns() + std::chrono::nanoseconds(1h).count();  // Until I unlock it.
    return !held.value.empty();
  }
  bool give_back(const Held& held) override { return etcd_.unlock(held.value); }
  // [end]
};

}  // namespace

SubjectKind unlock_by_name() {
  return mistake<UnlockByName>("unlock-by-name",
                               "unlocks the name, not the key that lock returned");
}
SubjectKind no_keepalive() {
  return mistake<NoKeepalive>("no-keepalive", "a lease that nobody keeps alive");
}

namespace scripts {

std::optional<std::string> no_etcd() { return support::EtcdCluster::unavailable(); }

void unlock_by_name(Play& play) {
  const support::EtcdCluster etcd;
  const std::vector<std::string> url{etcd.url("?session=5s")};
  Player& alice = play.player("alice", lab::unlock_by_name(), url);
  Player& bob = play.player("bob", lab::unlock_by_name(), url);
  alice.acquire(20s);
  sleep_for(60ms);
  alice.release();
  bob.acquire(20s, 3s);
  bob.release();
}

void no_keepalive(Play& play) {
  const support::EtcdCluster etcd;
  const std::vector<std::string> url{etcd.url("?session=5s")};
  Player& alice = play.player("alice", lab::no_keepalive(), url);
  Player& bob = play.player("bob", lab::no_keepalive(), url);
  alice.acquire(20s);
  bob.begin_acquire(20s, 12s);
  sleep_for(4500ms);  // The job.
  alice.write();
  alice.release();
  bob.finish();
  bob.write();
  bob.release();
}

}  // namespace scripts
}  // namespace holdfast::lab
