#include "src/server/access/gate.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/thread.h"
#include "src/port/alarms.h"
#include "src/server/access/password.h"
#include "src/server/front/libraries/sha1.h"

namespace holdfast::server {
namespace {

using base::BootClock;
using base::BootInstant;

// An address without a wrong password for so long starts anew.
constexpr std::chrono::seconds kForgiven{60};
// So many addresses' failures are remembered.
constexpr std::size_t kMostAddresses = 4'096;

}  // namespace

namespace gate_detail {

struct Attempt {
  std::string address;
  Gate::Judged judged;
};

// One password to be hashed, for all who give it meanwhile.
struct Job {
  std::string name;  // The user's.
  std::string digest;
  std::string password;
  std::string address;  // The first who gave it came from there.
  UserPtr user;         // Null: there is no such user.
  std::vector<Attempt> waiting{};
};
using JobPtr = std::shared_ptr<Job>;

}  // namespace gate_detail

using gate_detail::Attempt;
using gate_detail::Job;
using gate_detail::JobPtr;

namespace {

// Closes what nobody took.
class OwnSocket {
 public:
  explicit OwnSocket(int fd) : fd_(fd) {}
  OwnSocket(OwnSocket&& other) noexcept : fd_(other.release()) {}
  OwnSocket& operator=(OwnSocket&&) = delete;
  ~OwnSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

struct Gate::Impl : std::enable_shared_from_this<Impl> {
  struct Handshake;

  Impl(asio::io_context& its_loop, GateLimits its_limits)
      : loop(its_loop), limits(its_limits), delays(its_loop) {}

  void judge(const std::string& user, const std::string& password, const std::string& address,
             Judged judged);
  void next_job();
  void finish(const JobPtr& job, bool right);
  void answer_late(const std::string& address, Judged judged);
  std::string digest_of(const std::string& user, const std::string& password) const {
    return sha1_hex(secret + std::to_string(user.size()) + ':' + user + password);
  }
  void stop();

  asio::io_context& loop;
  const GateLimits limits;

  // --- The loop's.
  UsersPtr users;
  // Drawn anew with the users, so what was right under the old ones is not known any more.
  std::string secret;
  std::set<std::string> proven;             // Digests of passwords that were right.
  std::map<std::string, JobPtr> by_digest;  // Jobs that wait, and the one under way.
  std::deque<JobPtr> jobs;
  bool hashing = false;
  struct Failures {
    unsigned count = 0;
    BootInstant last{};
  };
  std::unordered_map<std::string, Failures> failures;  // By address.
  port::Alarms delays;

  // --- The thread's.
  asio::io_context own{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{own.get_executor()};
  port::Alarms patience{own};
  std::thread thread;
};

void Gate::Impl::judge(const std::string& name, const std::string& password,
                       const std::string& address, Judged judged) {
  const std::string digest = digest_of(name, password);
  const UserPtr user = users->find(name);
  if (user != nullptr && proven.contains(digest)) {
    return asio::post(loop, [user, judged = std::move(judged)] { judged(Verdict::kRight, user); });
  }
  if (const auto same = by_digest.find(digest); same != by_digest.end()) {
    same->second->waiting.push_back({address, std::move(judged)});
    return;
  }
  const auto of_address = std::count_if(
      jobs.begin(), jobs.end(), [&](const JobPtr& each) { return each->address == address; });
  if (jobs.size() >= limits.waiting ||
      static_cast<std::size_t>(of_address) >= limits.waiting_of_address) {
    return asio::post(loop, [judged = std::move(judged)] { judged(Verdict::kBusy, nullptr); });
  }
  auto job = std::make_shared<Job>(Job{name, digest, password, address, user});
  job->waiting.push_back({address, std::move(judged)});
  by_digest.emplace(digest, job);
  jobs.push_back(std::move(job));
  next_job();
}

// One at a time, so that handshakes have their turn in between.
void Gate::Impl::next_job() {
  if (hashing || jobs.empty()) return;
  hashing = true;
  asio::post(own, [this, job = jobs.front(), decoy = std::vector{users->decoy()}] {
    const auto& hashes = job->user == nullptr ? decoy : job->user->passwords;
    const bool same = std::any_of(hashes.begin(), hashes.end(), [&](const std::string& hash) {
      return matches(job->password, hash);
    });
    const bool right = same && job->user != nullptr;
    asio::post(loop, [self = shared_from_this(), job, right] { self->finish(job, right); });
  });
  jobs.pop_front();
}

void Gate::Impl::finish(const JobPtr& job, bool right) {
  hashing = false;
  next_job();
  // It was the users' of before, if a use() came meanwhile.
  const auto place = by_digest.find(job->digest);
  const bool current = place != by_digest.end() && place->second == job;
  if (current) {
    by_digest.erase(place);
    if (right) proven.insert(job->digest);
  }
  for (Attempt& each : job->waiting) {
    if (!current) {
      each.judged(Verdict::kBusy, nullptr);
    } else if (right) {
      each.judged(Verdict::kRight, job->user);
    } else {
      answer_late(each.address, std::move(each.judged));
    }
  }
}

void Gate::Impl::answer_late(const std::string& address, Judged judged) {
  const BootInstant now = BootClock::now();
  if (failures.size() >= kMostAddresses) {
    std::erase_if(failures, [&](const auto& each) { return each.second.last + kForgiven < now; });
    if (failures.size() >= kMostAddresses) {
      failures.erase(std::min_element(failures.begin(), failures.end(), [](auto& one, auto& other) {
        return one.second.last < other.second.last;
      }));
    }
  }
  Failures& seen = failures[address];
  if (seen.last + kForgiven < now) seen.count = 0;
  seen.last = now;
  std::chrono::milliseconds delay = limits.first_delay;
  for (unsigned i = 0; i < seen.count && delay < limits.longest_delay; ++i) delay *= 2;
  ++seen.count;
  delays.at(now + std::min(delay, limits.longest_delay),
            [judged = std::move(judged)] { judged(Verdict::kWrong, nullptr); });
}

// On the gate's thread. It keeps itself alive by its handlers.
struct Gate::Impl::Handshake : std::enable_shared_from_this<Handshake> {
  Handshake(Impl& its_gate, OwnSocket fd, std::unique_ptr<port::TlsSession> its_session,
            Shaken its_shaken)
      : gate(its_gate),
        session(std::move(its_session)),
        shaken(std::move(its_shaken)),
        socket(gate.own, fd.release()) {}

  void start() {
    patience =
        gate.patience.at(BootClock::now() + gate.limits.handshake, [self = shared_from_this()] {
          self->patience.reset();
          self->give_up();
        });
    go_on();
  }

  void go_on() {
    const port::SocketIo io = session->shake_hands();
    if (io.next == port::SocketIo::Next::kDone) return end(OwnSocket(socket.release()));
    if (io.next == port::SocketIo::Next::kEnded) return give_up();
    const bool reads = io.next == port::SocketIo::Next::kWantRead;
    socket.async_wait(reads ? asio::posix::stream_descriptor::wait_read
                            : asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this()](std::error_code error) {
                        if (self->ended) return;
                        error ? self->give_up() : self->go_on();
                      });
  }

  void give_up() {
    if (ended) return;
    session.reset();
    std::error_code ignored;
    socket.close(ignored);
    end(OwnSocket(-1));
  }

  void end(OwnSocket fd) {
    ended = true;
    if (patience) gate.patience.cancel(*std::exchange(patience, std::nullopt));
    asio::post(gate.loop,
               [fd = std::move(fd), own = std::move(session),
                shaken = std::move(shaken)]() mutable { shaken(fd.release(), std::move(own)); });
  }

  Impl& gate;
  std::unique_ptr<port::TlsSession> session;
  Shaken shaken;
  asio::posix::stream_descriptor socket;
  std::optional<port::Alarms::Alarm> patience;
  bool ended = false;
};

void Gate::Impl::stop() {
  static_cast<void>(delays.stop());
  own.stop();
  if (thread.joinable()) thread.join();
  static_cast<void>(patience.stop());
}

Gate::Gate(asio::io_context& loop, GateLimits limits)
    : impl_(std::make_shared<Impl>(loop, limits)) {
  impl_->thread = base::start_thread("hf-gate", [impl = impl_.get()] { impl->own.run(); });
}

Gate::~Gate() { impl_->stop(); }

void Gate::use(UsersPtr users) {
  impl_->users = std::move(users);
  const auto drawn = base::random_128();
  impl_->secret = base::to_hex(drawn.high, drawn.low);
  impl_->proven.clear();
  impl_->by_digest.clear();
}

void Gate::judge(const std::string& user, const std::string& password, const std::string& address,
                 Judged judged) {
  impl_->judge(user, password, address, std::move(judged));
}

void Gate::shake_hands(int socket, std::unique_ptr<port::TlsSession> session, Shaken shaken) {
  asio::post(impl_->own, [impl = impl_.get(), own_socket = OwnSocket(socket),
                          own = std::move(session), shaken = std::move(shaken)]() mutable {
    std::make_shared<Impl::Handshake>(*impl, std::move(own_socket), std::move(own),
                                      std::move(shaken))
        ->start();
  });
}

}  // namespace holdfast::server
