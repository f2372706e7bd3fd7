// Shared by the live tests of the wire: a loop that runs, answers that can be waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/resolver.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"

namespace holdfast::stores::redis::testing {

using namespace std::chrono_literals;
using base::BootClock;
using support::FaultProxy;
using support::RedisServer;

constexpr auto kSoon = 20s;  // Far above anything that is asserted.

class TestLoop {
 public:
  TestLoop() : thread_([this] { io.run(); }) {}
  ~TestLoop() {
    work_.reset();
    thread_.join();
  }

  asio::io_context io{1};
  std::thread::id id() const { return thread_.get_id(); }

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io);
  std::thread thread_;
};

// A value that another thread gives, once.
template <typename T>
class Awaited {
 public:
  void give(T value) {
    const std::lock_guard lock(state_->mutex);
    if (state_->value) throw std::logic_error("completed twice");
    state_->value = std::move(value);
    state_->changed.notify_all();
  }
  // Throws when it takes longer than any test should.
  T wait() {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_for(lock, kSoon, [&] { return state_->value.has_value(); })) {
      throw std::runtime_error("waited in vain");
    }
    return *state_->value;
  }
  bool given() const {
    const std::lock_guard lock(state_->mutex);
    return state_->value.has_value();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline RemotePtr remote_of(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  if (!url) throw std::runtime_error(url.error().message());
  auto address = parse_redis_url(*url);
  if (!address) throw std::runtime_error(address.error().message());
  auto remote = Remote::make(*std::move(address));
  if (!remote) throw std::runtime_error(remote.error().message());
  return *remote;
}

// A host of several addresses, one for each port of 127.0.0.1, known under a name.
inline RemotePtr remote_of_ports(const std::vector<std::uint16_t>& ports) {
  RedisAddress address;
  address.host = "redis.invalid";
  auto remote = std::make_shared<Remote>();
  remote->primary = std::make_shared<Resolver>(
      address, [ports](const std::string&, std::uint16_t) -> Result<Endpoints> {
        Endpoints endpoints;
        for (const std::uint16_t port : ports) {
          RedisAddress each;
          each.port = port;
          endpoints.push_back(Resolver(each).cached().endpoints.at(0));
        }
        return endpoints;
      });
  remote->address = std::move(address);
  return remote;
}

inline std::string wire_of(const std::vector<std::string_view>& args) {
  std::string wire;
  append_command(wire, args);
  return wire;
}

inline Awaited<Result<Reply>> send(Pipeline& pipe, const std::vector<std::string_view>& args,
                                   BootClock::duration time = 10s, bool reads_only = false) {
  Awaited<Result<Reply>> answer;
  pipe.send({wire_of(args), reads_only}, BootClock::now() + time,
            [answer](Result<Reply> reply) mutable { answer.give(std::move(reply)); });
  return answer;
}

inline Result<Reply> ask(Pipeline& pipe, const std::vector<std::string_view>& args,
                         BootClock::duration time = 10s) {
  return send(pipe, args, time).wait();
}

// An answer for EXPECT_EQ: its text or number, or the error's code and message.
inline std::string said(const Result<Reply>& reply) {
  if (!reply) {
    return std::string(errc_name(reply.error().code())) + ": " + reply.error().message();
  }
  return reply->kind == Reply::Kind::kInteger ? std::to_string(reply->integer) : reply->text;
}

template <typename T>
std::string code_of(const Result<T>& result) {
  return result ? "a value" : std::string(errc_name(result.error().code()));
}

// Polls for what has no event; for atomics and counts.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kSoon;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace holdfast::stores::redis::testing
