// Many callers write one row by its version. In the mistake, failed callers retry at once. With
// Holdfast they pause first, and then queue for the row's lock.
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "holdfast/optimistic.h"

#include "lab/exhibits/scripts.h"
#include "lab/exhibits/sqlite.h"

namespace holdfast::lab::scripts {
namespace {

using namespace std::chrono_literals;
using optimistic::Reading;

constexpr int kCallers = 16;
constexpr int kCalls = 4;
constexpr milliseconds kThought = 2ms;  // From the read to the write.

class Stock {
 public:
  explicit Stock(const std::string& path) : database_(path) {}

  // Makes one attempt to sell an article; returns the number of written rows.
  int sell(Reading reading) {
    if (reading == Reading::kForUpdate) database_.change("BEGIN IMMEDIATE");
    const std::string version = *database_.ask("SELECT version FROM stock");
    sleep_for(kThought);
    const int written = database_.change(
        "UPDATE stock SET amount = amount - 1, version = version + 1"
        " WHERE id = 1 AND version = CAST(?1 AS INTEGER)",
        {version});
    if (reading == Reading::kForUpdate) database_.change("COMMIT");
    return written;
  }

 private:
  Sqlite database_;
};

// [region: retry-storm]
void sell_at_once(const optimistic::Attempt& attempt) {
  while (*attempt(Reading::kPlain) == 0) {
  }
}
// [end]

void sell_with_patience(const optimistic::Attempt& attempt, Mutex& row) {
  const auto sold = optimistic::retry({.tries = 2}, attempt, row, {.wait = 60s});
  if (!sold) throw std::runtime_error(sold.error().message());
}

}  // namespace

Tally optimistic_retry_storm(Play& play) {
  const std::string path = play.file("stock.db");
  Sqlite table(path);
  table.change("CREATE TABLE stock (id INTEGER PRIMARY KEY, amount, version INTEGER)");
  table.change("INSERT INTO stock VALUES (1, 1000, 1)");
  const auto client = Client::connect(play.house().redis().url());
  if (!client) throw std::runtime_error(client.error().message());
  std::atomic<std::size_t> requests = 0, failed = 0;
  std::vector<std::future<void>> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(std::async(std::launch::async, [&] {
      Stock stock(path);
      Mutex row = client->mutex("stock/1");
      const optimistic::Attempt attempt = [&](Reading reading) -> Result<std::size_t> {
        const int written = stock.sell(reading);
        ++requests;
        if (written == 0) ++failed;
        return static_cast<std::size_t>(written);
      };
      for (int call = 0; call < kCalls; ++call) {
        play.beside() ? sell_with_patience(attempt, row) : sell_at_once(attempt);
      }
    }));
  }
  for (std::future<void>& caller : callers) caller.get();
  const std::string left = *table.ask("SELECT amount FROM stock");
  if (left != std::to_string(1000 - kCallers * kCalls)) {
    throw std::runtime_error("the stock is " + left + ": a sale was lost");
  }
  return {.failed = failed, .requests = requests};
}

}  // namespace holdfast::lab::scripts
