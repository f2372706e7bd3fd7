// Blocking queries that wake waiters.
//
// A query lasts while a waker needs it; a waker that is gone is noticed within a second. All
// waiters for the same change share one query.
// If there are more queries than Consul's limit on connections allows, they take turns (http.h). A
// waiter without a turn is not woken and relies on its heartbeat.
//
// Guarantee: a waker is woken once at most, on the loop, not inline: soon after the index has
// changed, or when a query failed, then after a pause that grows up to five seconds.
// Thread-safety: the loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/contend/backend.h"
#include "src/port/boot_timer.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  // The state of the watched keys in an answer.
  struct Seen {
    bool same = false;                           // Unchanged: the query continues.
    std::optional<machine::Token> handed_off{};  // Waker::handed_off is called.
  };
  using Judge = std::function<Seen(const HttpReply&)>;

  Watches(asio::io_context& io, HttpLoop& http) : io_(io), http_(http), timer_(io) {}

  // `target` has a '?'; `index` is that of the reading. Without a judge any other index is a
  // change.
  void add(std::string target, std::uint64_t index, const contend::WakerPtr& waker,
           Judge judge = nullptr);
  // Soon, but never inline.
  void wake(const contend::WakerPtr& waker);
  void wake_after(const contend::WakerPtr& waker, std::chrono::milliseconds time);
  void stop();
  void abandon() noexcept { timer_.abandon(); }

 private:
  struct Watch {
    std::string target;
    std::uint64_t index = 0;
    std::vector<std::weak_ptr<contend::Waker>> wakers;
    std::uint64_t query = 0;  // 0 if none runs.
    std::chrono::steady_clock::time_point wake_at{};
    Judge judge{};
  };

  void ask(std::uint64_t number);
  void on_answer(std::uint64_t number, const Result<HttpReply>& reply);
  void end(std::uint64_t number);
  static bool is_wanted(const Watch& watch);
  static void wake_all(const Watch& watch, const std::optional<machine::Token>& handed_off = {});
  void tick();

  asio::io_context& io_;
  HttpLoop& http_;
  port::BootTimer timer_;
  bool ticking_ = false;
  bool stopped_ = false;
  std::uint64_t last_ = 0;
  int failures_ = 0;
  std::map<std::uint64_t, Watch> watches_;
};

}  // namespace holdfast::stores::consul
