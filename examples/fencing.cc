// The scene of docs/guide/fencing.md: a holder loses its lease without noticing and writes late.
// The resource refuses it. Ends with 0 only when it did.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "examples/stock.h"
#include "holdfast/fence/file.h"
#include "holdfast/holdfast.h"

namespace {

using namespace std::chrono_literals;
using holdfast::Lease;
using holdfast::Result;

// [region: resource]
// The highest token that was shown is kept in a file beside the data. While the guard lives,
// nobody else is let in: the check and the write are one step.
Result<void> write_stock(const std::string& path, int items, const Lease& lease) {
  auto guard = holdfast::fence::FileGuard::enter(path + ".fence", "stock", lease.token());
  if (!guard) return guard.error();  // kLost: a newer holder has been here
  demo::Stock(path).write({.items = items, .newest = lease.token()});
  return {};
}
// [end]

int run(const std::string& path) {
  const demo::Stock stock(path);
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
  const bool next_wrote = write_stock(path, stock.read().items - 1, *next).has_value();
  const bool late_wrote = write_stock(path, seen_by_paused - 1, *paused).has_value();

  std::printf("the paused holder: %s; its late write: %s; items left: %d\n",
              paused->held() ? "held" : "lost", late_wrote ? "ACCEPTED" : "refused",
              stock.read().items);
  return next_wrote && !late_wrote && !paused->held() && stock.read().items == 9 ? 0 : 1;
}

}  // namespace

int main() {
  const auto path =
      std::filesystem::temp_directory_path() / ("holdfast-fencing-" + std::to_string(::getpid()));
  const int result = run(path);
  for (const char* end : {"", ".fence", ".fence.lock"})
    std::filesystem::remove(path.string() + end);
  return result;
}
