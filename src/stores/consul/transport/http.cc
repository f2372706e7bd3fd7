#include "src/stores/consul/transport/http.h"

#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <curl/curl.h>

#include "holdfast/detail/percent.h"
#include "src/base/abandon.h"
#include "src/port/boot_timer.h"
#include "src/stores/consul/transport/refusals.h"
#include "src/stores/consul/transport/transfer.h"

namespace holdfast::stores::consul {
namespace {

// Consul takes 200 connections from one address, which other clients of this host share.
constexpr std::size_t kMostAtOnce = 32;
constexpr std::size_t kMostWaiting = 48;
constexpr std::size_t kMostKept = 64;  // Handles, and idle connections.

Error closed() { return {Errc::kClosed, "the client was closed"}; }
Error cannot_start() { return {Errc::kUnavailable, "libcurl cannot be started: out of memory"}; }

}  // namespace

Agents::Agents(const ConsulAddress& address) : address_(address) {
  const std::string scheme = address_.tls ? "https://" : "http://";
  for (const port::Endpoint& host : address_.hosts) {
    const std::string& name = address_.tls_paths.name;
    // libcurl checks the certificate against the URL's host, and connects where it is told.
    bases_.push_back(scheme + (name.empty() ? host : port::Endpoint{name, host.port}).text());
    connect_to_.push_back(name.empty() ? "" : "::" + host.text());
  }
}

void Agents::leave(std::size_t agent) {
  if (agent == current_) current_ = (agent + 1) % bases_.size();
}

std::string Agents::url(std::size_t agent, const std::string& target) const {
  std::string url = bases_[agent] + target;
  if (!address_.datacenter.empty()) {
    url += target.find('?') == std::string::npos ? "?dc=" : "&dc=";
    url += address_.datacenter;
  }
  return url;
}

std::string encode_path(std::string_view text) {
  return detail::percent_encode(
      text, [](char c) { return detail::is_alphanumeric(c) || detail::is_one_of(c, "-._~/"); });
}

struct HttpLoop::Impl : std::enable_shared_from_this<HttpLoop::Impl> {
  struct Job {
    std::uint64_t number = 0;
    base::BootInstant until{};  // Its turn included; a blocking query's limit begins with its turn.
    HttpRequest request;
    HttpDone done;
    std::unique_ptr<Transfer> transfer;  // nullptr: waits for its turn.
  };
  // A socket of libcurl's, and what it is watched for.
  struct Socket {
    explicit Socket(asio::io_context& io, int number) : descriptor(io, number) {}
    asio::posix::stream_descriptor descriptor;
    int wanted = 0;
    bool reading = false;
    bool writing = false;
  };

  Impl(asio::io_context& io_context, std::shared_ptr<Agents> shared_agents)
      : io(io_context), agents(std::move(shared_agents)), timer(io_context) {}

  bool open();
  void pump();
  void begin(Job& job);
  void wake(int socket, int events);
  void collect();
  void answer(std::uint64_t number, Result<HttpReply> result);
  void watch(int number, const std::shared_ptr<Socket>& socket);
  void forget(int number);
  void finish(Job& job);

  static int on_socket(CURL*, curl_socket_t number, int what, void* self, void*);
  static int on_timer(CURLM*, long milliseconds, void* self);
  static int on_close(void* self, curl_socket_t number);

  asio::io_context& io;
  const std::shared_ptr<Agents> agents;
  port::BootTimer timer;
  CURLM* multi = nullptr;
  bool stopped = false;
  bool stopping = false;  // The waiting requests are being ended.
  std::uint64_t last = 0;
  std::map<std::uint64_t, Job> jobs;
  std::map<const Transfer*, std::uint64_t> running;
  std::deque<std::uint64_t> turn;          // Ordinary ones that wait for their turn.
  std::deque<std::uint64_t> waiting_turn;  // Blocking queries that do.
  std::size_t at_once = 0;
  std::size_t waiting = 0;
  std::map<int, std::shared_ptr<Socket>> sockets;
  std::vector<std::unique_ptr<Transfer>> spent;
  Refusals refusals;
};

bool HttpLoop::Impl::open() {
  if (multi != nullptr) return true;
  if (!start_curl()) return false;
  multi = curl_multi_init();
  if (multi == nullptr) return false;
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Impl::on_socket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Impl::on_timer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(kMostKept));
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  return true;
}

int HttpLoop::Impl::on_socket(CURL*, curl_socket_t number, int what, void* self, void*) {
  auto& impl = *static_cast<Impl*>(self);
  if (what == CURL_POLL_REMOVE) {
    impl.forget(number);
    return 0;
  }
  auto& socket = impl.sockets[number];
  if (socket == nullptr) socket = std::make_shared<Socket>(impl.io, number);
  socket->wanted = what;
  impl.watch(number, socket);
  return 0;
}

// Asio lets go of the number; libcurl closes it.
void HttpLoop::Impl::forget(int number) {
  const auto found = sockets.find(number);
  if (found == sockets.end()) return;
  found->second->wanted = 0;
  found->second->descriptor.release();
  sockets.erase(found);
}

void HttpLoop::Impl::watch(int number, const std::shared_ptr<Socket>& socket) {
  const auto wait = [this, number, &socket](auto direction, bool Socket::*busy, int poll,
                                            int event) {
    if ((socket->wanted & poll) == 0 || (*socket).*busy) return;
    (*socket).*busy = true;
    socket->descriptor.async_wait(
        direction, [self = shared_from_this(), number, socket, busy, poll, event](auto error) {
          (*socket).*busy = false;
          if (error || self->stopped || (socket->wanted & poll) == 0) return;
          self->wake(number, event);
          if (socket->wanted != 0) self->watch(number, socket);
        });
  };
  wait(asio::posix::stream_descriptor::wait_read, &Socket::reading, CURL_POLL_IN, CURL_CSELECT_IN);
  wait(asio::posix::stream_descriptor::wait_write, &Socket::writing, CURL_POLL_OUT,
       CURL_CSELECT_OUT);
}

int HttpLoop::Impl::on_timer(CURLM*, long milliseconds, void* self) {
  auto& impl = *static_cast<Impl*>(self);
  if (milliseconds < 0) {
    impl.timer.stop();
    return 0;
  }
  impl.timer.arm(std::chrono::milliseconds(milliseconds), [weak = impl.weak_from_this()] {
    const auto alive = weak.lock();
    if (alive != nullptr && !alive->stopped) alive->wake(CURL_SOCKET_TIMEOUT, 0);
  });
  return 0;
}

void HttpLoop::Impl::wake(int socket, int events) {
  int still_running = 0;
  curl_multi_socket_action(multi, socket, events, &still_running);
  collect();
}

void HttpLoop::Impl::collect() {
  std::vector<std::pair<std::uint64_t, Result<HttpReply>>> ended;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* pointer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &pointer);
    auto* const transfer = reinterpret_cast<Transfer*>(pointer);
    const CURLcode code = message->data.result;
    const bool changes = transfer->request().method != HttpRequest::Method::kGet;
    ended.emplace_back(running.at(transfer),
                       refusals.weigh(base::BootClock::now(), changes, transfer->outcome(code)));
  }
  for (auto& [number, result] : ended) answer(number, std::move(result));
  if (!ended.empty()) pump();
}

// Takes it off libcurl.
void HttpLoop::Impl::finish(Job& job) {
  if (job.transfer == nullptr) return;
  curl_multi_remove_handle(multi, job.transfer->easy());
  running.erase(job.transfer.get());
  if (!job.request.urgent) --(job.request.waits ? waiting : at_once);
  if (spent.size() < kMostKept) spent.push_back(std::move(job.transfer));
  job.transfer.reset();
}

void HttpLoop::Impl::answer(std::uint64_t number, Result<HttpReply> result) {
  const auto found = jobs.find(number);
  if (found == jobs.end()) return;
  finish(found->second);
  const HttpDone done = std::move(found->second.done);
  jobs.erase(found);
  done(std::move(result));
}

void HttpLoop::Impl::begin(Job& job) {
  job.transfer = spent.empty() ? nullptr : std::move(spent.back());
  if (!spent.empty()) spent.pop_back();
  if (job.transfer == nullptr) job.transfer = std::make_unique<Transfer>(agents);
  if (!job.request.urgent) ++(job.request.waits ? waiting : at_once);
  if (!job.request.waits) {
    job.request.limit = left_until(job.until);
  }
  running[job.transfer.get()] = job.number;
  if (!job.transfer->prepare(job.request) ||
      curl_multi_add_handle(multi, job.transfer->easy()) != CURLM_OK) {
    asio::post(io, [self = shared_from_this(), number = job.number] {
      self->answer(number, cannot_start());
    });
  }
}

void HttpLoop::Impl::pump() {
  const auto take = [this](std::deque<std::uint64_t>& from, const std::size_t& now,
                           std::size_t most) {
    while (!from.empty() && now < most) {
      const auto job = jobs.find(from.front());
      from.pop_front();
      if (job != jobs.end()) begin(job->second);
    }
  };
  take(turn, at_once, kMostAtOnce);
  take(waiting_turn, waiting, kMostWaiting);
}

HttpLoop::HttpLoop(asio::io_context& io, std::shared_ptr<Agents> agents)
    : impl_(std::make_shared<Impl>(io, std::move(agents))) {}

HttpLoop::~HttpLoop() {
  if (impl_ != nullptr) stop();
}

std::uint64_t HttpLoop::send(HttpRequest request, HttpDone done) {
  const std::uint64_t number = ++impl_->last;
  if (impl_->stopped && !impl_->stopping) return number;
  if (!impl_->stopped && !impl_->open()) {
    asio::post(impl_->io, [done = std::move(done)] { done(cannot_start()); });
    return number;
  }
  const bool urgent = request.urgent;
  if (!urgent) (request.waits ? impl_->waiting_turn : impl_->turn).push_back(number);
  const auto until = base::BootClock::now() + request.limit;
  const auto [job, made] = impl_->jobs.emplace(
      number, Impl::Job{number, until, std::move(request), std::move(done), nullptr});
  if (impl_->stopping) return number;
  if (urgent) {
    impl_->begin(job->second);
  } else {
    impl_->pump();
  }
  return number;
}

void HttpLoop::drop(std::uint64_t number) {
  const auto found = impl_->jobs.find(number);
  if (found == impl_->jobs.end()) return;
  impl_->finish(found->second);
  impl_->jobs.erase(found);
  // Not here: it may start what the caller is about to drop, too.
  asio::post(impl_->io, [impl = impl_] {
    if (!impl->stopped) impl->pump();
  });
}

void HttpLoop::stop() {
  if (impl_->stopped) return;
  impl_->stopped = true;
  impl_->timer.stop();
  // Requests that they send when they are told end here, too: a posted answer would come when
  // they may have gone.
  impl_->stopping = true;
  while (!impl_->jobs.empty()) impl_->answer(impl_->jobs.begin()->first, closed());
  impl_->stopping = false;
  impl_->spent.clear();
  if (impl_->multi != nullptr) curl_multi_cleanup(std::exchange(impl_->multi, nullptr));
  impl_->sockets.clear();
}

void HttpLoop::abandon() noexcept {
  // Kept for ever: its destructors would speak to the parent's sockets and epoll instance.
  base::abandon(std::exchange(impl_, nullptr));
}

}  // namespace holdfast::stores::consul
