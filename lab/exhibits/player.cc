#include "lab/exhibits/player.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include "lab/exhibits/sql_guard.h"
#include "lab/workload/actor.h"

namespace holdfast::lab {
namespace {

enum class What : std::uint8_t { kAcquire, kRelease, kHeld, kWrite, kStopAt, kGoOn };

using Text = std::array<char, 200>;

Text text_of(std::string_view words) {
  Text text{};
  std::memcpy(text.data(), words.data(), std::min(words.size(), text.size() - 1));
  return text;
}

template <typename Message>
bool send_to(int socket, const Message& message) {
  return ::send(socket, &message, sizeof message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof message);
}

template <typename Message>
bool receive_from(int socket, Message& message) {
  ssize_t got = 0;
  do {
    got = ::recv(socket, &message, sizeof message, 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof message);
}

template <typename T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

}  // namespace

struct Player::Order {
  What what = What::kGoOn;
  std::uint32_t lock = 0;
  milliseconds ttl{};
  milliseconds wait{};
  Text text{};
};

struct Player::Answer {
  bool at_point = false;
  bool failed = false;
  Outcome outcome = Outcome::kNone;
  Text text{};
};

namespace {

// The process's own side.
template <typename Order, typename Answer>
class Life {
 public:
  Life(const Role& role, int socket)
      : socket_(socket),
        recorder_(taken(Recorder::create(role.folder, role.process, 4096))),
        resource_(taken(Resource::open(role.resource))),
        subject_(role.kind.make(
            {role.urls, role.name, role.process, [this](std::string_view point) { pass(point); }})),
        stage_{*subject_, recorder_, resource_, role.process, role.locks},
        actor_(stage_, 0),
        mode_(role.mode) {
    if (!role.sql_guard.empty()) guard_.emplace(role.sql_guard);
  }

  void run() {
    Order order;
    while (receive_from(socket_, order)) {
      if (order.what == What::kStopAt) {
        stop_at_ = order.text.data();
      } else if (!send_to(socket_, Answer{.outcome = act(order)})) {
        return;
      }
    }
  }

 private:
  Outcome act(const Order& order) {
    if (order.what == What::kAcquire) {
      hold_ = actor_.acquire({order.lock, mode_, order.ttl, order.wait});
      return actor_.last();
    }
    if (hold_ == nullptr) return Outcome::kNone;
    switch (order.what) {
      case What::kHeld: return hold_->held() ? Outcome::kHeld : Outcome::kLost;
      case What::kWrite: return write() ? Outcome::kAccepted : Outcome::kRefused;
      case What::kRelease: {
        const Outcome outcome = hold_->release();
        hold_.reset();
        return outcome;
      }
      default: return Outcome::kNone;
    }
  }

  bool write() {
    if (!guard_) return hold_->write();
    Event event = hold_->base();
    event.kind = Kind::kWrite;
    event.phase = Phase::kInvoke;
    event.call = recorder_.next_call();
    recorder_.record(event);
    const WriteAnswer answer = guard_->write(event.token);
    event.phase = Phase::kReturn;
    event.outcome = answer.accepted ? Outcome::kAccepted : Outcome::kRefused;
    event.seen = answer.seen;
    event.sequence = answer.sequence;
    recorder_.record(event);
    return answer.accepted;
  }

  void pass(std::string_view point) {
    if (point != stop_at_) return;
    stop_at_.clear();
    Order order;
    if (!send_to(socket_, Answer{.at_point = true, .text = text_of(point)})) ::_exit(0);
    while (receive_from(socket_, order)) {
      if (order.what == What::kGoOn) return;
      if (order.what == What::kStopAt) stop_at_ = order.text.data();
    }
    ::_exit(0);
  }

  const int socket_;
  std::string stop_at_;
  Recorder recorder_;
  Resource resource_;
  std::unique_ptr<Subject> subject_;
  Stage stage_;
  Actor actor_;
  const Mode mode_;
  std::optional<SqlGuard> guard_;
  std::unique_ptr<ActorHold> hold_;
};

}  // namespace

Player::Player(Role role, Recorder& stage) : role_(std::move(role)), stage_(stage) {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) {
    throw std::runtime_error("socketpair: " + std::string(std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    ::close(both[0]);
    live(both[1]);
  }
  ::close(both[1]);
  socket_ = both[0];
  if (pid_ < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
}

Player::~Player() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(socket_);
}

void Player::live(int socket) {
  try {
    Life<Order, Answer>(role_, socket).run();
  } catch (const std::exception& problem) {
    send_to(socket, Answer{.failed = true, .text = text_of(problem.what())});
  }
  ::_exit(0);
}

void Player::send(const Order& order) {
  if (!send_to(socket_, order)) throw std::runtime_error(role_.name + " is gone");
}

Player::Answer Player::await() {
  pollfd readable{socket_, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&readable, 1, static_cast<int>(kPatience.count()));
  } while (ready < 0 && errno == EINTR);
  Answer answer;
  if (ready <= 0 || !receive_from(socket_, answer)) {
    throw std::runtime_error(role_.name + (ready == 0 ? " gives no answer" : " is gone"));
  }
  if (answer.failed) throw std::runtime_error(role_.name + ": " + answer.text.data());
  return answer;
}

void Player::begin_acquire(milliseconds ttl, milliseconds wait, std::uint32_t lock) {
  ended_.reset();
  send({What::kAcquire, lock, ttl, wait, {}});
}

void Player::begin_release() {
  ended_.reset();
  send({.what = What::kRelease});
}

Outcome Player::finish() {
  if (!ended_ && await_point()) throw std::runtime_error(role_.name + " stands at a point");
  return *ended_;
}

Outcome Player::acquire(milliseconds ttl, milliseconds wait, std::uint32_t lock) {
  begin_acquire(ttl, wait, lock);
  return finish();
}

Outcome Player::release() {
  begin_release();
  return finish();
}

bool Player::held() {
  ended_.reset();
  send({.what = What::kHeld});
  return finish() == Outcome::kHeld;
}

bool Player::write() {
  ended_.reset();
  send({.what = What::kWrite});
  return finish() == Outcome::kAccepted;
}

void Player::stop_at(std::string_view point) {
  if (role_.has_points) send({.what = What::kStopAt, .text = text_of(point)});
}

bool Player::reaches() { return role_.has_points && await_point(); }

bool Player::await_point() {
  if (ended_) return false;
  const Answer answer = await();
  if (answer.at_point) return true;
  ended_ = answer.outcome;
  return false;
}

void Player::go_on() {
  if (role_.has_points && !ended_) send({.what = What::kGoOn});
}

void Player::kill9() {
  Event death;
  death.kind = Kind::kDeath;
  death.process = role_.process;
  death.at_ns = now_ns();
  stage_.record_as_stamped(death);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Player::record_pause(Phase phase) {
  Event event;
  event.kind = Kind::kFault;
  event.fault = FaultKind::kPause;
  event.phase = phase;
  event.target = role_.target;
  stage_.record(event);
}

void Player::pause() {
  record_pause(Phase::kInvoke);
  ::kill(pid_, SIGSTOP);
  int status = 0;
  while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
}

void Player::resume() {
  ::kill(pid_, SIGCONT);
  record_pause(Phase::kReturn);
}

}  // namespace holdfast::lab
