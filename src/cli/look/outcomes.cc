#include "src/cli/look/outcomes.h"

#include <cstddef>
#include <functional>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include "holdfast/asio.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kInFlight = 64;
constexpr auto kAskAgain = std::chrono::seconds(5);

bool may_be_finished(const LockInfo& lock) {
  return lock.holders.size() == 1 && lock.holders.front().mode == Mode::exclusive() &&
         lock.waiters.empty();
}

// A Once is kept by a lease that needs no client.
bool can_remember(const Client& client) {
  const Guarantees promised = client.guarantees();
  return promised.values && !promised.ends_with_client;
}

}  // namespace

std::optional<std::string> outcome_of(const Client& client, const LockInfo& lock) {
  if (!may_be_finished(lock) || !can_remember(client)) return std::nullopt;
  auto outcome = client.once(lock.name).outcome();
  return outcome ? *std::move(outcome) : std::nullopt;
}

void Outcomes::ask(const std::vector<LockInfo>& locks) {
  const auto now = std::chrono::steady_clock::now();
  std::map<Grant, Known> still;
  std::vector<Grant> asked;
  for (const LockInfo& lock : locks) {
    if (!may_be_finished(lock)) continue;
    const Grant grant(lock.name, lock.holders.front().token);
    const auto known = known_.find(grant);
    if (known == known_.end() ||
        (!known->second.outcome && now - known->second.asked >= kAskAgain)) {
      asked.push_back(grant);
      still[grant].asked = now;
    } else {
      still.insert(*known);
    }
  }
  known_ = std::move(still);
  asio::io_context io(1);
  std::size_t next = 0;
  const std::function<void()> ask_next = [&] {
    if (next == asked.size()) return;
    const Grant& grant = asked[next++];
    Known* const known = &known_[grant];
    const auto answered = [known, &ask_next](Result<std::optional<std::string>> outcome) {
      // An error: it is something else, and shown as what it is.
      if (outcome) known->outcome = *std::move(outcome);
      ask_next();
    };
    async_outcome(client_.once(grant.first), asio::bind_executor(io, answered));
  };
  for (std::size_t i = 0; i < kInFlight; ++i) ask_next();
  io.run();
}

std::vector<Finished> Outcomes::take_from(std::vector<LockInfo>& locks) {
  if (!can_remember(client_)) return {};
  ask(locks);
  std::vector<Finished> finished;
  std::vector<LockInfo> others;
  for (LockInfo& lock : locks) {
    std::optional<std::string> outcome;
    if (may_be_finished(lock)) {
      outcome = known_[{lock.name, lock.holders.front().token}].outcome;
    }
    if (outcome) {
      finished.push_back({std::move(lock), *std::move(outcome)});
    } else {
      others.push_back(std::move(lock));
    }
  }
  locks = std::move(others);
  return finished;
}

}  // namespace holdfast::cli
