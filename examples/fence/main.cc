// example-fence memory | sqlite PATH | postgres CONNECTION | mysql SOCKET | redis PORT | http
//
// A holder that comes back late is refused by the resource. Ends with 0 only when it was.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "examples/fence/scene.h"
#include "holdfast/fence/fence.h"
#include "holdfast/holdfast.h"

namespace demo {

using namespace std::chrono_literals;

void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

int play_scene(const GuardedWrite& write, const std::function<int()>& read) {
  auto client = holdfast::Client::connect("memory:");
  if (!client) fail(client.error().message());
  auto mutex = client->mutex("stock");

  // Not renewed: like a process that is stopped, or swapped out, for longer than its lease.
  auto paused = mutex.acquire({.ttl = 300ms, .auto_renew = false});
  if (!paused) fail(paused.error().message());
  auto next = mutex.acquire({.wait = 60s, .ttl = 60s});
  if (!next) fail(next.error().message());

  const auto written = write(9, *next);
  const auto late = write(10, *paused);
  if (!written) fail(written.error().message());
  std::printf("the late write: %s\n", late ? "ACCEPTED" : late.error().message().c_str());
  const bool refused = !late && late.error().code() == holdfast::Errc::kLost;
  return refused && read() == 9 ? 0 : 1;
}

namespace {

using holdfast::Lease;
using holdfast::Result;

holdfast::fence::MemoryRecord record;
int stock = 10;

// [region: memory]
Result<void> write_stock(int items, const Lease& lease) {
  return record.write("stock", lease.token(), lease.mode(), [&] { stock = items; });
}
// [end]

}  // namespace

int play_memory() {
  return play_scene(write_stock, [] { return stock; });
}

}  // namespace demo

int main(int argc, char** argv) {
  const std::string fence = argc > 1 ? argv[1] : "";
  const std::string where = argc > 2 ? argv[2] : "";
  if (fence == "memory") return demo::play_memory();
  if (fence == "http") return demo::play_http();
#ifdef EXAMPLE_SQLITE
  if (fence == "sqlite") return demo::play_sqlite(where);
#endif
#ifdef EXAMPLE_POSTGRES
  if (fence == "postgres") return demo::play_postgres(where);
#endif
#ifdef EXAMPLE_MYSQL
  if (fence == "mysql") return demo::play_mysql(where);
#endif
#ifdef EXAMPLE_REDIS
  if (fence == "redis") return demo::play_redis(where);
#endif
  demo::fail("not in this build: " + fence);
}
