// The scene of docs/guide/fencing.md: a holder loses its lease without noticing and writes late.
// The resource refuses it. Ends with 0 only when it did.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "examples/stock.h"
#include "holdfast/holdfast.h"

namespace {

using namespace std::chrono_literals;

// [region: resource]
// The resource remembers the highest token it has seen, together with its data, and refuses less.
std::optional<int> write_stock(const demo::Stock& stock, int items, holdfast::Token token) {
  demo::Stock::Content content = stock.read();
  if (token < content.newest) return std::nullopt;  // an older holder woke up: refuse
  content.items = items;
  content.newest = token;
  stock.write(content);
  return items;
}
// [end]

int run(const demo::Stock& stock) {
  stock.fill(10);
  auto client = holdfast::Client::connect("memory:");
  if (!client) demo::give_up(client.error().message());
  auto mutex = client->mutex("stock");

  // Not renewed: like a process that is stopped, or swapped out, for longer than its lease.
  auto paused = mutex.acquire({.ttl = 200ms, .auto_renew = false});
  if (!paused) demo::give_up(paused.error().message());
  const int seen_by_paused = stock.read().items;

  auto next = mutex.acquire({.wait = 10s, .ttl = 5s});
  if (!next) demo::give_up(next.error().message());
  const bool next_wrote = write_stock(stock, stock.read().items - 1, next->token()).has_value();
  const bool late_wrote = write_stock(stock, seen_by_paused - 1, paused->token()).has_value();

  std::printf("the paused holder: %s; its late write: %s; items left: %d\n",
              paused->held() ? "held" : "lost", late_wrote ? "ACCEPTED" : "refused",
              stock.read().items);
  return next_wrote && !late_wrote && !paused->held() && stock.read().items == 9 ? 0 : 1;
}

}  // namespace

int main() {
  const auto path =
      std::filesystem::temp_directory_path() / ("holdfast-fencing-" + std::to_string(::getpid()));
  const int result = run(demo::Stock(path));
  std::filesystem::remove(path);
  return result;
}
