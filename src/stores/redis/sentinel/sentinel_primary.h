// The primary that Sentinels name.
//
//   State    refresh(), poll, +switch-master   answers                    none answers
//   idle     asks every Sentinel               -                          -
//   asking   asks once more afterwards         the highest epoch counts   the last answer serves
//
// Guarantee: never returns to a lower epoch. A higher epoch or another address begins a new
// generation. After a majority of the Sentinels has answered, the others get 200 ms, and those that
// were silent the last time get none.
// Not guaranteed: that a Sentinel knows the newest primary. So the servers prove their role, and a
// missed event costs at most kPoll.
//
// Thread-safety: safe; close() from any thread but the loop. `on_switch` is called on the loop.
// Ownership: the io_context outlives it, and runs until after close().
// Errors: as sentinel_answer() has them, one for each Sentinel in a message; kClosed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "src/port/boot_timer.h"
#include "src/stores/redis/sentinel/sentinel_answer.h"
#include "src/stores/redis/sentinel/sentinel_doctor.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/primary.h"
#include "src/stores/redis/transport/subscriber.h"

namespace holdfast::stores::redis {

class SentinelPrimary final : public Primary, public std::enable_shared_from_this<SentinelPrimary> {
 public:
  static constexpr std::chrono::seconds kPoll{2};
  using Told = std::function<void(const std::string& line)>;

  // Errors: those of TlsContext::make(), for the Sentinels.
  static Result<std::shared_ptr<SentinelPrimary>> make(asio::io_context& io, RedisAddress address,
                                                       Told on_switch);
  ~SentinelPrimary() override;

  bool proves_role() const noexcept override { return true; }
  Location cached() const override;
  void refresh(std::function<void(Result<Location>)> done) override;

  // For the doctor: asks one Sentinel.
  AskSentinel asker();

  void close();
  void abandon() noexcept;

 private:
  struct Sentinel;
  struct Round;

  SentinelPrimary(asio::io_context& io, RedisAddress address, Told on_switch);

  std::string late() const override;
  // `index` is the Sentinel's number in the URL.
  void ask(std::size_t index, const std::vector<std::string_view>& words,
           base::BootInstant deadline, port::Done<Reply> done);
  void ask_all();
  void ask_one(std::size_t index, const std::shared_ptr<Round>& round);
  void answered(std::size_t index, const std::shared_ptr<Round>& round,
                Result<SentinelAnswer> answer);
  void end_round(const std::shared_ptr<Round>& round);
  void adopt(const SentinelAnswer& answer);
  void found(const SentinelAnswer& answer, const Result<Location>& looked_up);
  void tell(const Result<Location>& result);
  Error why_none(const Round& round) const;
  void listen();
  void shut();

  asio::io_context& io_;
  const RedisAddress address_;
  const Told on_switch_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;

  mutable base::LocalMutex mutex_;
  Location location_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<std::function<void(Result<Location>)>> waiters_ HOLDFAST_GUARDED_BY(mutex_);
  bool closed_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool abandoned_ = false;

  // On the loop.
  std::optional<SentinelAnswer> current_;
  std::shared_ptr<Primary> lookup_;  // Finds the addresses of the current host.
  std::shared_ptr<Round> round_;
  bool once_more_ = false;
  bool shut_ = false;
  port::BootTimer grace_;
  port::BootTimer poll_;
};

}  // namespace holdfast::stores::redis
