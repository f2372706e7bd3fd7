// The headers of the primitives and docs/guide/primitives.md quote this, one function for each.
// It runs as a test in memory and in a file, and ends with 0 only when all claims were true.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "holdfast/holdfast.h"

namespace {

using namespace std::chrono_literals;
using holdfast::Client;
using holdfast::Lease;
using holdfast::Mode;
using holdfast::Result;
using holdfast::Token;

void check(bool so, const char* what) {
  if (so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

// --- The work that the examples do; it looks at what it is given.

int done = 0;

void work_with(const Token& token) {
  check(token > Token{}, "there is a token");
  ++done;
}

bool is_stale(const Lease& reader) {
  check(reader.held() && reader.mode() == Mode::shared(), "a reader holds the lock for reading");
  return true;
}

void rewrite(const Lease& writer) {
  check(writer.held() && writer.mode() == Mode::exclusive(), "a writer holds it alone");
  ++done;
}

// Three portions of work are left, then none.
int portions = 0;
bool work_is_left() { return portions > 0; }
void do_a_portion(const Token& token) {
  --portions;
  work_with(token);
}

Result<std::string> charge(const std::string& request, const Token& token) {
  work_with(token);
  return "receipt of " + request;
}

Result<void> mutex(const Client& client) {
  // [region: mutex]
  holdfast::Mutex order = client.mutex("orders/42");
  auto lease = order.acquire({.wait = 5s, .ttl = 30s, .reason = "charge"});
  if (!lease) return lease.error();  // kTimedOut, kUnavailable ...: each names your next step
  work_with(lease->token());         // let the resource refuse an older token
  return lease->release();           // or let the destructor do it
  // [end]
}

Result<std::string> with_lock(const Client& client) {
  // [region: with_lock]
  holdfast::Mutex order = client.mutex("orders/42");
  auto charged = [](holdfast::Lease& lease) { return charge("order 42", lease.token()); };
  auto later = [](const holdfast::Error& why) { return "not charged: " + why.message(); };
  return holdfast::with_lock(order, {.wait = 5s, .ttl = 30s}, charged, later);
  // [end]
}

Result<void> shared_mutex(const Client& client) {
  // [region: shared_mutex]
  holdfast::SharedMutex prices = client.shared_mutex("prices");
  auto reader = prices.acquire_shared({.wait = 5s});
  if (!reader) return reader.error();
  if (!is_stale(*reader)) return reader->release();
  auto writer = prices.upgrade(*reader, {.wait = 5s});  // nobody has written since we read
  if (!writer) return writer.error();  // kWouldDeadlock: somebody else upgrades; start again
  rewrite(*writer);
  return prices.downgrade(*writer);  // from here on `reader` reads together with others
  // [end]
}

Result<void> semaphore(const Client& client) {
  // [region: semaphore]
  holdfast::Semaphore slots = client.semaphore("render", 8);  // for all processes together
  auto lease = slots.acquire(2, {.wait = 5s});                // two of the eight, as one lease
  if (!lease) return lease.error();
  auto count = slots.count();
  if (!count) return count.error();
  std::printf("%u of %u are free\n", count->available(), count->capacity);
  return lease->release();  // both; a crash gives them back at the end of the lease
  // [end]
}

Result<void> recursive_mutex(const Client& client) {
  // [region: recursive_mutex]
  holdfast::RecursiveMutex tree = client.recursive_mutex("tree");
  const holdfast::Owner me("import of May");  // an object that is passed along, never a thread
  auto outer = tree.acquire(me, {.wait = 5s});
  if (!outer) return outer.error();
  auto inner = tree.acquire(me);  // at once: the same owner, the same token
  if (!inner) return inner.error();
  work_with(inner->token());
  if (auto left = inner->release(); !left) return left;  // still held, by `outer`
  return outer->release();
  // [end]
}

Result<void> striped_mutex(const Client& client) {
  // [region: striped_mutex]
  holdfast::StripedMutex stock = client.striped_mutex("stock", 64);
  auto lease = stock.acquire("article 4711", {.wait = 5s});  // most other articles do not wait
  if (!lease) return lease.error();
  work_with(lease->token());
  return lease->release();
  // [end]
}

Result<void> multi_lock(const Client& client) {
  // [region: multi_lock]
  auto both = client.acquire_all({{"account/3"}, {"account/7"}}, {.wait = 5s});
  if (!both) return both.error();              // none of them is held
  work_with(both->token("account/3"));         // each has a token of its own
  if (auto loss = both->loss()) return *loss;  // one of them was lost: stop
  return both->release();                      // in one request where the store can
  // [end]
}

Result<void> latch(const Client& client) {
  // [region: latch]
  holdfast::Latch loaded = client.latch("import/may/loaded", 2);
  for (const char* part : {"customers", "orders"}) {  // as a rule in two processes
    std::printf("loaded: %s\n", part);
    if (auto left = loaded.count_down(); !left) return left.error();
  }
  return loaded.wait({.wait = 60s});  // returns when all have counted; kTimedOut: one did not
  // [end]
}

Result<void> barrier(const Client& client) {
  // [region: barrier]
  holdfast::Barrier step = client.barrier("import/may/step", 2);
  auto loader = step.join({.ttl = 10s});  // as a rule each in a process of its own
  auto indexer = step.join({.ttl = 10s});
  if (!loader || !indexer) return (loader ? indexer : loader).error();
  if (auto last = indexer->arrive_and_leave(); !last) return last.error();
  auto passed = loader->arrive_and_wait({.wait = 60s});  // returns when all have arrived
  if (!passed) return passed.error();  // kBroken: a participant is gone; kTimedOut: one is late
  std::printf("all parts are ready, generation %d\n", static_cast<int>(*passed));
  return loader->arrive_and_leave();
  // [end]
}

Result<void> election(const Client& client) {
  // [region: election]
  holdfast::Election scheduler = client.election("scheduler");
  auto leading = scheduler.campaign("10.0.0.7:8080", {.ttl = 15s});  // waits for its turn
  if (!leading) return leading.error();
  auto leader = scheduler.leader();  // for everybody: who leads, and what it proclaims
  if (!leader) return leader.error();
  if (*leader) std::printf("ask %s\n", (*leader)->value.c_str());
  while (leading->held() && work_is_left()) do_a_portion(leading->token());
  return leading->resign();
  // [end]
}

Result<void> once(const Client& client, const std::string& request) {
  // [region: once]
  holdfast::Once payment = client.once("payment/" + request, 24h);
  const auto pay = [&](Lease& lease) { return charge(request, lease.token()); };
  auto receipt = payment.run(pay, {.wait = 10s});  // `pay` runs for the first caller only
  if (!receipt) return receipt.error();
  std::printf("%s\n", receipt->c_str());  // the same text for all callers
  // [end]
  check(*receipt == "receipt of " + request, "everybody gets the outcome of the first");
  return {};
}

Result<void> job_lock(const Client& client) {
  // [region: job_lock]
  using std::chrono::minutes;
  const holdfast::JobTimes times{.at_least_for = minutes(10), .at_most_for = minutes(120)};
  holdfast::JobLock nightly = client.job_lock("nightly-report", times);
  auto job = nightly.try_acquire();
  if (!job) return job.error();
  if (!*job) return {};  // another machine runs it, or has just run it: skip
  while ((*job)->held() && work_is_left()) do_a_portion((*job)->token());
  return (*job)->release();  // and nobody else begins it for ten minutes
  // [end]
}

Result<void> owner(const Client& client) {
  // [region: owner]
  const holdfast::Owner me("order 42");
  auto stock = client.mutex("stock/7").acquire({.owner = me});
  if (!stock) return stock.error();
  auto account = client.mutex("account/3").acquire({.wait = 60s, .owner = me});
  if (!account && account.error().code() == holdfast::Errc::kWouldDeadlock) {
    std::printf("%s\n", account.error().message().c_str());  // who waits for whom
    return stock->release();                                 // the others go on; begin anew
  }
  // [end]
  if (!account) return account.error();
  check(account->held() && stock->held(), "who is not told holds both");
  return {};
}

// --- What must be so after an example.

void must(const Result<void>& result, const char* what) {
  if (!result) std::fprintf(stderr, "%s\n", result.error().message().c_str());
  check(result.has_value(), what);
}

void locks(const Client& client) {
  must(mutex(client), "mutex");
  check(client.mutex("orders/42").try_acquire().value().has_value(), "the mutex was given back");

  check(with_lock(client).value_or("") == "receipt of order 42", "with_lock");
  must(shared_mutex(client), "shared mutex");
  check(client.shared_mutex("prices").try_acquire().value().has_value(), "so was the reader's");

  must(semaphore(client), "semaphore");
  check(client.semaphore("render", 8).count().value().taken == 0, "so were both permits");

  must(recursive_mutex(client), "recursive mutex");
  check(client.mutex("tree").try_acquire().value().has_value(), "so was all that an owner took");

  must(striped_mutex(client), "striped mutex");
  auto stock = client.striped_mutex("stock", 64);
  const std::string stripe = stock.stripe_name(stock.stripe_of("article 4711"));
  const Lease held = client.mutex(stripe).try_acquire().value().value();
  check(!stock.try_acquire("article 4711").value(), "a stripe is the mutex of its name");
}

void several(const Client& client) {
  must(multi_lock(client), "several locks");
  const Lease seven = client.mutex("account/7").try_acquire().value().value();
  check(!client.try_acquire_all({{"account/3"}, {"account/7"}}).value(), "all of them, or none");
  check(client.mutex("account/3").try_acquire().value().has_value(), "three was not taken");
}

// Somebody else takes the two in the other order: one of them is told, and the other goes on.
void circle(const Client& client) {
  const holdfast::Owner other("refund 7");
  Lease account = client.mutex("account/3").acquire({.owner = other}).value();
  std::thread they([&] {
    while (!client.inspect("stock/7").value()) std::this_thread::sleep_for(1ms);
    auto stock = client.mutex("stock/7").acquire({.wait = 60s, .owner = other});
    const bool told = !stock && stock.error().code() == holdfast::Errc::kWouldDeadlock;
    check(stock || told, "it holds both, or is told");
    if (told) std::printf("%s\n", stock.error().message().c_str());
    must(account.release(), "the account");
  });
  must(owner(client), "an owner in a circle");
  they.join();
}

void values(const Client& client) {
  must(latch(client), "latch");
  check(client.latch("import/may/loaded", 2).try_wait().value(), "the latch stays open");

  must(barrier(client), "barrier");
  check(client.barrier("import/may/step", 2).count().value().joined == 0, "all have left");

  portions = 3;
  must(election(client), "election");
  check(portions == 0, "the leader did all of the work");
  check(!client.election("scheduler").leader().value(), "nobody leads after it resigned");

  done = 0;
  must(once(client, "77"), "the first caller");
  must(once(client, "77"), "the second caller");
  check(done == 1, "it was charged once");

  portions = 3;
  must(job_lock(client), "job lock");
  check(portions == 0, "the job ran");
  portions = 3;
  must(job_lock(client), "job lock, once more");
  check(portions == 3, "and is skipped so soon after");
}

void run_on(const std::string& url) {
  // A disk that is busy may stand still for seconds; that is not what this is about.
  auto client = Client::connect(url, {.request_timeout = 60s});
  if (!client) std::fprintf(stderr, "%s\n", client.error().message().c_str());
  check(client.has_value(), url.c_str());
  locks(*client);
  several(*client);
  circle(*client);
  values(*client);
  must(client->close(60s), "nothing is left");
  std::printf("all of it on %s\n\n", url.substr(0, url.find(':')).c_str());
}

}  // namespace

int main() {
  run_on("memory:");
  std::string folder = (std::filesystem::temp_directory_path() / "holdfast-XXXXXX").string();
  check(::mkdtemp(folder.data()) != nullptr, "a folder for the file");
  const std::string file = "sqlite://" + folder + "/locks.db";
  const auto client = Client::connect(file);
  const bool built_in = client || client.error().code() != holdfast::Errc::kUnsupported;
  if (built_in) run_on(file);
  std::filesystem::remove_all(folder);
  return 0;
}
