// Pairs of the lock service over many plain connections, which one thread drives: each takes and
// gives back a lock of its own, again and again, one request at a time.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/figures.h"
#include "bench/redis_rig.h"
#include "tests/support/loopback.h"

namespace holdfast::bench {

inline constexpr std::chrono::milliseconds kRound{1'000};
inline constexpr std::string_view kOwner =
    R"({"owner":"host/12345/0123456789ab","host":"host","pid":12345,"program":"server_bench",)"
    R"("since_unix_ms":1700000000000})";

// The words of a pair: a number grows with each pair of a connection.
class Traffic {
 public:
  virtual ~Traffic() = default;
  virtual std::string greeting() const { return {}; }
  virtual std::string acquire(int connection, std::uint64_t pair) const = 0;
  virtual std::string release(int connection, std::uint64_t pair) const = 0;
  virtual bool granted(std::string_view reply) const = 0;
  virtual bool released(std::string_view reply) const = 0;
};

inline std::string digits(std::uint64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

class ServiceTraffic final : public Traffic {
 public:
  std::string greeting() const override { return request({"HF1", "attach", "0"}); }
  std::string acquire(int connection, std::uint64_t pair) const override {
    return request({"HF1", "acquire", "1", key(connection), client(connection),
                    id(connection, pair), digits(pair, 16), "30000000", kOwner,
                    "Pe 1 1 1 5000000 0 -"});
  }
  std::string release(int connection, std::uint64_t pair) const override {
    return request({"HF1", "end", "1", key(connection), client(connection), id(connection, pair),
                    digits(pair, 16), "release"});
  }
  bool granted(std::string_view reply) const override {
    return reply.find("\r\nheld ") != reply.npos;
  }
  bool released(std::string_view reply) const override {
    return reply.find("released") != reply.npos;
  }

 private:
  static std::string key(int connection) {
    return "hf1:{bench/" + std::to_string(connection) + "}";
  }
  static std::string client(int connection) {
    return digits(static_cast<std::uint64_t>(connection), 15);
  }
  static std::string id(int connection, std::uint64_t pair) {
    return digits(static_cast<std::uint64_t>(connection) + 1, 16) + digits(pair, 16);
  }
};

// Whether the bytes are a whole reply: a line, or a line and a text of the length that it tells.
inline bool whole(std::string_view reply) {
  const std::size_t line = reply.find("\r\n");
  if (line == reply.npos) return false;
  if (reply[0] != '$') return true;
  return reply.size() >= line + 4 + static_cast<std::size_t>(std::atol(reply.data() + 1));
}

// N connections of one server, driven by one thread.
class Drivers {
 public:
  Drivers(std::uint16_t port, int connections, const Traffic& traffic)
      : traffic_(traffic), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (int i = 0; i < connections && good_; ++i) {
      Driver& driver = drivers_.emplace_back();
      driver.fd = support::connect_to_loopback(port);
      epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(i)}};
      good_ = driver.fd >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, driver.fd, &event) == 0;
    }
    const std::string hello = traffic.greeting();
    for (Driver& each : drivers_) {
      if (hello.empty() || !good_) continue;
      send(each, hello);
      char bytes[256];
      while (good_ && ::read(each.fd, bytes, sizeof bytes) <= 0) good_ = errno == EAGAIN;
    }
  }
  ~Drivers() {
    for (const Driver& each : drivers_) ::close(each.fd);
    ::close(epoll_);
  }
  Drivers(const Drivers&) = delete;
  Drivers& operator=(const Drivers&) = delete;

  // Pairs per second; 0: something failed.
  double run() {
    pairs_ = 0;
    stopping_ = false;
    busy_ = drivers_.size();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < drivers_.size(); ++i) begin_pair(i);
    std::vector<epoll_event> events(drivers_.size());
    while (good_ && busy_ > 0) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 5'000);
      good_ = count > 0;
      for (int i = 0; i < count && good_; ++i) {
        on_readable(events[static_cast<std::size_t>(i)].data.u32);
      }
      stopping_ = Clock::now() - begin >= kRound;
    }
    return good_ ? static_cast<double>(pairs_) / seconds_since(begin) : 0;
  }

 private:
  struct Driver {
    int fd = -1;
    std::uint64_t pair = 0;
    bool holds = false;
    std::string reply;
  };

  // A socket that is not connected yet, or full, is rare: wait for it.
  void send(const Driver& driver, const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size() && good_) {
      const ssize_t done = ::write(driver.fd, bytes.data() + sent, bytes.size() - sent);
      if (done > 0) sent += static_cast<std::size_t>(done);
      if (done < 0) good_ = errno == EAGAIN || errno == ENOTCONN;
    }
  }
  void begin_pair(std::size_t index) {
    Driver& driver = drivers_[index];
    driver.holds = false;
    send(driver, traffic_.acquire(static_cast<int>(index), ++driver.pair));
  }
  void on_readable(std::size_t index) {
    Driver& driver = drivers_[index];
    char bytes[4096];
    const ssize_t got = ::read(driver.fd, bytes, sizeof bytes);
    if (got <= 0) {
      good_ = got < 0 && errno == EAGAIN;
      return;
    }
    driver.reply.append(bytes, static_cast<std::size_t>(got));
    if (!whole(driver.reply)) return;
    const bool fine =
        driver.holds ? traffic_.released(driver.reply) : traffic_.granted(driver.reply);
    if (!fine) {
      std::fprintf(stderr, "unexpected: %s\n", driver.reply.c_str());
      good_ = false;
      return;
    }
    driver.reply.clear();
    if (!std::exchange(driver.holds, !driver.holds)) {
      return send(driver, traffic_.release(static_cast<int>(index), driver.pair));
    }
    ++pairs_;
    stopping_ ? static_cast<void>(--busy_) : begin_pair(index);
  }

  const Traffic& traffic_;
  const int epoll_;
  std::vector<Driver> drivers_;
  bool good_ = true;
  bool stopping_ = false;
  std::size_t busy_ = 0;
  std::uint64_t pairs_ = 0;
};

}  // namespace holdfast::bench
