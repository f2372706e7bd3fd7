#include "tests/faults/redis_harness.h"
#include "tests/support/no_descriptors.h"

namespace holdfast::faults {
namespace {

Client connected(const std::string& url, const Peer::Options& options,
                 const std::shared_ptr<Journal>& journal) {
  ClientOptions all;
  all.request_timeout = options.request_timeout;
  all.log = [journal](const std::string& line) { journal->add(line); };
  auto client = Client::connect(url, all);
  if (!client) throw std::runtime_error("cannot connect: " + client.error().message());
  return *std::move(client);
}

}  // namespace

void Journal::add(const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_ += line + "\n";
  changed_.notify_all();
}

bool Journal::wait_for(const std::string& text, milliseconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return lines_.find(text) != std::string::npos; });
}

std::string Journal::all() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

Peer::Peer(const std::string& url, const Options& options)
    : client_(connected(url, options, journal_)) {}

Lease Peer::hold(const std::string& name, milliseconds ttl) {
  auto lease = client_.mutex(name).acquire({.wait = 10s, .ttl = ttl});
  if (!lease) throw std::runtime_error("cannot hold: " + lease.error().message());
  return *std::move(lease);
}

std::optional<Lease> Peer::try_hold(const std::string& name, milliseconds ttl) {
  auto lease = client_.mutex(name).try_acquire({.ttl = ttl});
  if (!lease) throw std::runtime_error("cannot try: " + lease.error().message());
  return *std::move(lease);
}

Error Peer::refusal(const std::string& name, milliseconds ttl) {
  auto lease = client_.mutex(name).acquire({.wait = 0ms, .ttl = ttl});
  if (lease) throw std::runtime_error("the lock '" + name + "' was granted");
  return lease.error();
}

LockInfo Peer::look(const std::string& name) {
  const auto info = client_.inspect(name);
  if (!info) throw std::runtime_error("cannot look: " + info.error().message());
  return info->value_or(LockInfo{});
}

Waiter::Waiter(Peer& peer, const std::string& name, AcquireOptions options) {
  options.cancel = stop_.get_token();
  options.on_queued = [this](std::uint32_t) { queued_.set_value(); };
  answer_ =
      std::async(std::launch::async, [this, mutex = peer.client().mutex(name), options]() mutable {
        auto lease = mutex.acquire(options);
        at_ = host_boot_ns();
        return lease;
      });
}

Waiter::~Waiter() {
  stop_.request_stop();
  if (answer_.valid()) answer_.wait();
}

void Waiter::await_queued() {
  if (is_queued_.wait_for(10s) != std::future_status::ready) {
    throw std::runtime_error("nobody came to wait");
  }
}

bool Waiter::done_within(milliseconds limit) {
  return answer_.wait_for(limit) == std::future_status::ready;
}

Result<Lease> Waiter::take(milliseconds limit) {
  if (!done_within(limit)) throw std::runtime_error("a wait did not end");
  return answer_.get();
}

Lease Waiter::grant(milliseconds limit) {
  auto lease = take(limit);
  if (!lease) throw std::runtime_error("a wait failed: " + lease.error().message());
  return *std::move(lease);
}

LossWatch::LossWatch(const Lease& lease)
    : callback_(lease.lost(), [this] { told_.set_value(host_boot_ns()); }) {}

std::int64_t LossWatch::await(milliseconds limit) {
  return at_.wait_for(limit) == std::future_status::ready ? at_.get() : 0;
}

std::string key_of(const std::string& name) { return "hf1:{" + name + "}"; }

bool await_subscribers(RedisServer& server, std::size_t count) {
  return server.eventually([&](RedisServer& asked) {
    return asked.must({"PUBSUB", "CHANNELS", "hf1:@*"}).elements.size() == count;
  });
}

void expect_connecting_fails_without_descriptors(const std::string& url) {
  EXPECT_TRUE(Client::connect(url));
  for (int spare = 0; spare < 40; spare += 3) {
    const support::NoDescriptors none(spare);
    const auto client = Client::connect(url);
    if (client) continue;
    EXPECT_EQ(client.error().code(), Errc::kUnavailable) << client.error().message();
  }
}

}  // namespace holdfast::faults
