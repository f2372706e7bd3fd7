#include "tests/support/fault_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tests/support/proxy_link.h"

namespace holdfast::support {
namespace {

timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto count = std::max<std::int64_t>(0, duration.count());
  timespec time{};
  time.tv_sec = static_cast<time_t>(count / 1'000'000'000);
  time.tv_nsec = static_cast<long>(count % 1'000'000'000);
  return time;
}

}  // namespace

FaultProxy::FaultProxy(const ProxyOptions& options)
    : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      links_(std::make_unique<ProxyLinks>(options)) {
  listen(true);
  if (wake_ < 0 || listener_ < 0) throw std::runtime_error("the proxy cannot listen");
  thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
  ask([this] { stopped_ = true; });
  thread_.join();
  listen(false);
  ::close(wake_);
}

void FaultProxy::listen(bool wanted) {
  if (wanted == (listener_ >= 0)) return;
  if (wanted) {
    listener_ = listen_on_loopback(port_.number());
  } else {
    ::close(listener_);
    listener_ = -1;
  }
}

void FaultProxy::ask(const std::function<void()>& task) {
  std::unique_lock lock(mutex_);
  tasks_.push_back(&task);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  changed_.wait(lock,
                [&] { return std::find(tasks_.begin(), tasks_.end(), &task) == tasks_.end(); });
}

void FaultProxy::do_tasks() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(wake_, &count, sizeof count);
  while (!tasks_.empty()) {
    (*tasks_.front())();
    tasks_.pop_front();
  }
}

void FaultProxy::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    const std::size_t first = polled.size();
    for (const pollfd& each : links_->wanted()) polled.push_back(each);
    timespec time{};
    const auto due = links_->next_due();
    if (due) time = to_timespec(*due - std::chrono::steady_clock::now());
    lock.unlock();
    ::ppoll(polled.data(), polled.size(), due ? &time : nullptr, nullptr);
    lock.lock();
    // Faults that were added during the poll apply to these bytes, too.
    links_->handle(polled, first);
    if (listener_ >= 0 && polled[1].revents != 0) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      const int on = 1;
      if (client >= 0) {
        ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        links_->accept(client);
      }
    }
    if (!tasks_.empty()) {
      do_tasks();
      links_->handle({}, 0);
    }
    changed_.notify_all();
  }
}

int FaultProxy::add(const Fault& fault) {
  int number = 0;
  ask([&] { number = links_->add(fault); });
  return number;
}

void FaultProxy::remove(int fault) {
  ask([&] { links_->remove(fault); });
}

void FaultProxy::remove_all() {
  ask([&] { links_->remove_all(); });
}

void FaultProxy::refuse(bool refused) {
  ask([&] { listen(!refused); });
}

void FaultProxy::retarget(std::uint16_t server_port) {
  ask([&] { links_->retarget(server_port); });
}

void FaultProxy::close_all(const std::string& text) {
  ask([&] { links_->end_all(text, /*with_reset=*/false); });
}

void FaultProxy::reset_all(const std::string& text) {
  ask([&] { links_->end_all(text, /*with_reset=*/true); });
}

bool FaultProxy::replay(const std::string& text, const std::string& preamble) {
  bool found = false;
  ask([&] { found = links_->replay(text, preamble); });
  return found;
}

ProxyStats FaultProxy::stats() const {
  const std::unique_lock lock(mutex_);
  return links_->stats();
}

bool FaultProxy::wait_for(const Condition& condition, std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return condition(links_->stats()); });
}

bool FaultProxy::wait_for_hits(int fault, std::uint64_t hits,
                               std::chrono::milliseconds limit) const {
  return wait_for(
      [&](const ProxyStats& stats) {
        const auto found = stats.hits.find(fault);
        return found != stats.hits.end() && found->second >= hits;
      },
      limit);
}

}  // namespace holdfast::support
