#include "lab/rig/rig.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#ifdef HOLDFAST_HAVE_SQLITE
#include <sqlite3.h>
#endif

#ifdef HOLDFAST_LAB_HAVE_REDIS
#include "tests/support/redis_server.h"
#else
namespace holdfast::support {
class RedisServer {};
}  // namespace holdfast::support
#endif

namespace holdfast::lab {
namespace {

using support::FaultProxy;
using support::Framing;

[[maybe_unused, noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

}  // namespace

Rig::Rig(const Scenario& scenario, const std::string& folder)
    : scenario_(scenario), folder_(folder), store_(scenario.store.kind) {
  const StoreSpec& store = scenario.store;
  if (store.clock) clock_ = std::make_unique<support::ClockShift>();
  if (store.kind == "redis") {
    start_redis();
  } else if (store.kind == "sqlite") {
    start_sqlite();
  } else if (store.kind == "memory") {
    url_ = "memory:";
  } else {
    url_ = store.url;
    store_ = url_.substr(0, url_.find(':'));
  }
  const char* mark = url_.find('?') == std::string::npos ? "?" : "&";
  if (!store.options.empty() && !url_.empty()) url_ += mark + store.options;
}

Rig::~Rig() {
  if (!disk_.empty()) ::umount2(disk_.c_str(), MNT_DETACH);
}

void Rig::start_sqlite() {
  std::string place = folder_ + "/store";
  ::mkdir(place.c_str(), 0700);
  if (scenario_.store.disk_mb > 0) mount_disk();
  url_ = "sqlite://" + place + "/locks.db";
#ifdef HOLDFAST_HAVE_SQLITE
  version_ = sqlite3_libversion();
#endif
  // Every client reads the wall clock of its own.
  if (clock_) {
    environment_ = {"LD_PRELOAD=" + support::clock_shim_library(),
                    support::clock_shim_variable(clock_->path())};
  }
}

void Rig::mount_disk() {
  const std::string place = folder_ + "/store";
  const std::string size = "size=" + std::to_string(scenario_.store.disk_mb) + "m";
  if (::mount("holdfast-lab", place.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) != 0) {
    fail(std::string("disk_mb needs a file system of its own, which only root may mount: ") +
         std::strerror(errno));
  }
  disk_ = place;
}

void Rig::fill_disk() {
  const int fd = ::open((disk_ + "/ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (fd >= 0 && ::write(fd, block.data(), block.size()) > 0) {
  }
  if (fd >= 0) ::close(fd);
}

void Rig::free_disk() { ::unlink((disk_ + "/ballast").c_str()); }

FaultProxy* Rig::link(std::uint32_t slot) {
  return slot == 0 || slot > links_.size() ? nullptr : links_[slot - 1].get();
}

#ifdef HOLDFAST_LAB_HAVE_REDIS

using support::RedisServer;

void Rig::start_redis() {
  if (const auto why_not = RedisServer::unavailable()) fail("no Redis server here: " + *why_not);
  support::RedisOptions options;
  options.appendonly = scenario_.store.appendonly;
  if (clock_) options.clock_shift_file = clock_->path();
  server_ = std::make_unique<RedisServer>(options);
  for (const int part : server_->version()) {
    version_ += (version_.empty() ? "" : ".") + std::to_string(part);
  }
  if (scenario_.store.replica) {
    replica_ = std::make_unique<RedisServer>();
    replication_ = std::make_unique<FaultProxy>(
        support::ProxyOptions{.server_port = server_->port(), .framing = Framing::kRaw});
    replica_->must({"REPLICAOF", "127.0.0.1", std::to_string(replication_->port())});
    if (!replica_->eventually([](RedisServer& server) {
          return server.info("replication", "master_link_status") == "up";
        })) {
      fail("the replica does not find its primary");
    }
  }
  for (std::int64_t i = 0; scenario_.store.proxy && i < scenario_.clients.processes; ++i) {
    links_.push_back(std::make_unique<FaultProxy>(
        support::ProxyOptions{.server_port = server_->port(), .framing = Framing::kResp}));
  }
  url_ = redis_url(server_->port());
}

std::string Rig::redis_url(std::uint16_t port) const {
  RedisServer::UrlOptions options;
  options.port = port;
  return server_->url(options);
}

std::vector<std::string> Rig::urls(std::uint32_t slot) const {
  if (url_.empty()) return {};
  if (slot == 0 || slot > links_.size()) return {url_};
  const std::string& options = scenario_.store.options;
  return {redis_url(links_[slot - 1]->port()) + (options.empty() ? "" : "?" + options)};
}

void Rig::pause_server() { server_->pause(); }
void Rig::resume_server() { server_->resume(); }

void Rig::stop_server(bool with_memory) {
  if (!with_memory || scenario_.store.appendonly) {
    server_->kill9();
    return;
  }
  // Now it writes everything out when it is told to end.
  server_->config_set("save", "3600 1");
  server_->terminate();
}

void Rig::start_server(bool with_memory) {
  if (with_memory) {
    server_->start();
  } else {
    server_->restart(support::Memory::kLost);
  }
}

void Rig::cut_replication() {
  replication_->add(
      {.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
}

void Rig::fail_over() {
  server_->kill9();
  replica_->must({"REPLICAOF", "NO", "ONE"});
  for (const auto& link : links_) {
    link->retarget(replica_->port());
    link->reset_all();
  }
}

#else

void Rig::start_redis() { fail("this holdfast-lab was built without hiredis: no Redis servers"); }
std::string Rig::redis_url(std::uint16_t) const { return {}; }
std::vector<std::string> Rig::urls(std::uint32_t) const {
  return url_.empty() ? std::vector<std::string>{} : std::vector{url_};
}
void Rig::pause_server() {}
void Rig::resume_server() {}
void Rig::stop_server(bool) {}
void Rig::start_server(bool) {}
void Rig::cut_replication() {}
void Rig::fail_over() {}

#endif

}  // namespace holdfast::lab
