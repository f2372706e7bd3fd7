// The demo: eight processes take items off one stock file by read-modify-write. First without a
// lock, then through Holdfast, then through Holdfast while one of them is killed holding the lock.
//
// Ends with 0 only when what is promised came true: nothing lost, tokens only grow, and the others
// go on after the lease of the killed one and not before.
//
//   holdfast-demo                          on a SQLite store of its own
//   holdfast-demo --store URL --kill PID   one sale on that store; the process PID, which leads its
//                                          servers, is killed in the middle ('make demo-server')
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "examples/stock.h"
#include "holdfast/holdfast.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace demo {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
namespace fs = std::filesystem;

constexpr int kWorkers = 8;
constexpr int kItems = 1000;
constexpr int kShare = kItems / kWorkers;
constexpr int kVictim = 3;
// The victim is killed in the middle of its share.
constexpr int kVictimShare = kShare / 2;
constexpr milliseconds kLease{2000};
// How late a wake-up after the end of a lease may be on a busy machine.
constexpr milliseconds kPatience{3000};
// A store of several servers is not away for longer than this.
constexpr milliseconds kLongestOutage{120'000};

// kStubborn: the store may be away for a while.
enum class Way { kNoLock, kLocked, kDoomed, kStubborn };

// CLOCK_BOOTTIME, the clock of Lease::deadline_boottime().
nanoseconds boottime() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

// One deduction, as its worker wrote it down while it held the lock.
struct Entry {
  int worker = 0;
  holdfast::Token token;
  nanoseconds granted_at{};
};

class Ledger {
 public:
  explicit Ledger(std::string path) : path_(std::move(path)) {}

  void add(const Entry& entry) const {
    std::ostringstream line;
    line << entry.worker << ' ' << entry.token.to_string() << ' ' << entry.granted_at.count()
         << '\n';
    const std::string text = line.str();
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const bool complete =
        file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) ::close(file);
    if (!complete) give_up("cannot write " + path_);
  }

  std::vector<Entry> entries() const {
    std::vector<Entry> found;
    std::ifstream file(path_);
    int worker = 0;
    std::string token;
    nanoseconds::rep at = 0;
    while (file >> worker >> token >> at) {
      found.push_back(
          {worker, holdfast::Token::parse(token).value_or(holdfast::Token{}), nanoseconds(at)});
    }
    return found;
  }

 private:
  std::string path_;
};

// ---- A worker process ----------------------------------------------------------------------

void work_without_lock(const Stock& stock, int share) {
  for (int i = 0; i < share; ++i) stock.take_one(std::nullopt);
}

// Tells the main process that it holds the lock, and until when at least, and waits to be killed.
[[noreturn]] void hold_until_killed(const holdfast::Lease& lease) {
  std::printf("%lld\n", static_cast<long long>(lease.deadline_boottime().count()));
  std::fflush(stdout);
  while (true) ::pause();
}

void work_locked(const fs::path& folder, const std::string& url, int index, Way way) {
  const Stock stock(folder / "stock");
  const Ledger ledger(folder / "ledger");
  auto client = holdfast::Client::connect(url);
  if (!client) give_up("connect: " + client.error().message());
  auto mutex = client->mutex("stock");

  const int share = way == Way::kDoomed ? kVictimShare : kShare;
  for (int i = 0; i < share; ++i) {
    auto lease = mutex.acquire({.wait = std::chrono::seconds(15), .ttl = kLease});
    if (!lease) give_up("acquire: " + lease.error().message());
    const nanoseconds granted_at = boottime();
    if (!stock.take_one(lease->token())) give_up("the stock refused the token of a holder");
    ledger.add({index, lease->token(), granted_at});
    if (auto released = lease->release(); !released) {
      give_up("release: " + released.error().message());
    }
  }
  if (way == Way::kDoomed) {
    auto lease = mutex.acquire({.wait = std::chrono::seconds(15), .ttl = kLease});
    if (!lease) give_up("acquire: " + lease.error().message());
    hold_until_killed(*lease);
  }
}

// Asks again while the store is away. The stock refuses the token of a lease that ended meanwhile,
// once it has seen a later one.
void work_stubbornly(const fs::path& folder, const std::string& url, int index) {
  const Stock stock(folder / "stock");
  const Ledger ledger(folder / "ledger");
  auto client = holdfast::Client::connect(url);
  if (!client) give_up("connect: " + client.error().message());
  auto mutex = client->mutex("stock");
  nanoseconds give_up_at = boottime() + kLongestOutage;
  for (int taken = 0; taken < kShare;) {
    auto lease = mutex.acquire({.wait = std::chrono::seconds(60), .ttl = kLease});
    if (!lease) {
      if (boottime() > give_up_at) give_up("acquire: " + lease.error().message());
      std::this_thread::sleep_for(milliseconds(50));
      continue;
    }
    const nanoseconds granted_at = boottime();
    give_up_at = granted_at + kLongestOutage;
    if (lease->held() && stock.take_one(lease->token())) {
      ledger.add({index, lease->token(), granted_at});
      ++taken;
    }
    static_cast<void>(lease->release());
  }
}

int work(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) give_up("usage: --worker FOLDER URL INDEX WAY");
  const fs::path folder = arguments[0];
  const int index = std::atoi(arguments[2].c_str());
  const auto way = static_cast<Way>(std::atoi(arguments[3].c_str()));
  // Everybody starts at once: when the main process closes the pipe.
  char nothing = 0;
  while (::read(STDIN_FILENO, &nothing, 1) > 0) {
  }
  if (way == Way::kNoLock) {
    work_without_lock(Stock(folder / "stock"), kShare);
  } else if (way == Way::kStubborn) {
    work_stubbornly(folder, arguments[1], index);
  } else {
    work_locked(folder, arguments[1], index, way);
  }
  return 0;
}

// ---- The main process ----------------------------------------------------------------------

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) give_up("cannot make a pipe");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int end(int which) const { return ends_[which]; }
  void close_end(int which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

struct Setting {
  fs::path folder;
  std::string url;
};

pid_t start_worker(const Setting& setting, int index, Way way, const Pipe& start,
                   const Pipe& report) {
  std::vector<std::string> words = {"holdfast-demo",       "--worker",
                                    setting.folder,        setting.url,
                                    std::to_string(index), std::to_string(static_cast<int>(way))};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, start.end(0), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, report.end(1), STDOUT_FILENO);
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) != 0) {
    give_up("cannot start a worker");
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Reads the deadline that the victim reports once it holds the lock, and kills it.
nanoseconds kill_victim(const Pipe& report, pid_t victim) {
  std::string line;
  char byte = 0;
  while (::read(report.end(0), &byte, 1) == 1 && byte != '\n') line += byte;
  if (line.empty()) give_up("the worker that was to be killed ended before");
  ::kill(victim, SIGKILL);
  return nanoseconds(std::atoll(line.c_str()));
}

// Waits for the middle of the sale, and kills the server that leads.
void kill_server(const fs::path& ledger, pid_t server) {
  constexpr std::size_t kHalf = kItems / 2;
  const nanoseconds give_up_at = boottime() + kLongestOutage;
  while (Ledger(ledger).entries().size() < kHalf) {
    if (boottime() > give_up_at) give_up("half of the sale takes too long");
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (::kill(server, SIGKILL) != 0) give_up("cannot kill the process that was named");
}

struct Round {
  int left = 0;
  int wanted = 0;  // The stock that must be left when no deduction is lost.
  double seconds = 0;
  std::vector<Entry> entries;
  bool workers_fine = true;
  // Results of the round with a victim.
  pid_t victim = 0;
  nanoseconds killed_at{};
  nanoseconds lease_end{};  // The victim's own lower bound.
};

Round run_round(const Setting& setting, Way way, pid_t server = 0) {
  const Stock stock(setting.folder / "stock");
  stock.fill(kItems);
  fs::remove(setting.folder / "ledger");

  Round round;
  std::vector<pid_t> workers;
  Pipe start;
  Pipe report;
  for (int index = 1; index <= kWorkers; ++index) {
    const bool is_victim = way == Way::kDoomed && index == kVictim;
    const Way own = way == Way::kDoomed && !is_victim ? Way::kLocked : way;
    workers.push_back(start_worker(setting, index, own, start, report));
    if (is_victim) round.victim = workers.back();
  }
  const nanoseconds begin = boottime();
  report.close_end(1);
  start.close_end(0);
  start.close_end(1);
  if (way == Way::kDoomed) {
    round.lease_end = kill_victim(report, round.victim);
    round.killed_at = boottime();
  }
  if (server != 0) {
    kill_server(setting.folder / "ledger", server);
    round.killed_at = boottime();
  }
  for (const pid_t pid : workers) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    const bool as_planned = pid == round.victim ? WIFSIGNALED(status) : status == 0;
    round.workers_fine = round.workers_fine && as_planned;
  }
  round.seconds = std::chrono::duration<double>(boottime() - begin).count();
  round.left = stock.read().items;
  round.wanted = way == Way::kDoomed ? kShare - kVictimShare : 0;
  round.entries = Ledger(setting.folder / "ledger").entries();
  return round;
}

bool tokens_grow(const std::vector<Entry>& entries) {
  return std::adjacent_find(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
           return !(a.token < b.token);
         }) == entries.end();
}

void print_row(const char* what, const Round& round) {
  const std::string tokens =
      round.entries.empty()
          ? "none"
          : std::to_string(round.entries.size()) +
                (tokens_grow(round.entries) ? ", only growing" : ", NOT ONLY GROWING");
  std::printf("  %-34s %10d %10d %7.2f s   %s\n", what, round.left, round.left - round.wanted,
              round.seconds, tokens.c_str());
  std::fflush(stdout);
}

// Counts broken promises.
class Verdict {
 public:
  void expect(bool holds, const char* promise) {
    if (holds) return;
    ok_ = false;
    std::printf("BROKEN: %s\n", promise);
  }
  bool ok() const { return ok_; }

 private:
  bool ok_ = true;
};

void judge(const Round& round, Verdict& verdict) {
  verdict.expect(round.workers_fine, "every worker does its share");
  verdict.expect(round.left == round.wanted, "no deduction is lost");
  verdict.expect(static_cast<int>(round.entries.size()) == kItems - round.wanted,
                 "every deduction has a grant");
  verdict.expect(tokens_grow(round.entries), "tokens only grow");
}

void judge_kill(const Round& round, Verdict& verdict) {
  const auto next =
      std::find_if(round.entries.begin(), round.entries.end(),
                   [&round](const Entry& entry) { return entry.granted_at > round.killed_at; });
  if (next == round.entries.end()) {
    verdict.expect(false, "the others go on after the kill");
    return;
  }
  const double gap = std::chrono::duration<double>(next->granted_at - round.killed_at).count();
  std::printf(
      "\nWorker %d (pid %d) was killed with SIGKILL while it held the lock (lease: %.0f s); the %d "
      "items\nthat it had still to take are left. The next worker got the lock %.2f s after the "
      "kill, "
      "with a\nlarger token.\n",
      kVictim, round.victim, std::chrono::duration<double>(kLease).count(), round.wanted, gap);
  verdict.expect(next->granted_at >= round.lease_end, "nobody holds before the lease is over");
  verdict.expect(next->granted_at - round.killed_at <= kLease + kPatience,
                 "the others go on soon after the lease");
}

int run_demo(const Setting& setting) {
  std::printf(
      "%d processes take %d items each off one stock file of %d: read, subtract, write.\n\n",
      kWorkers, kShare, kItems);
  std::printf("  %-34s %10s %10s %9s   %s\n", "", "items left", "lost", "time", "tokens");
  Verdict verdict;

  Round bare = run_round(setting, Way::kNoLock);
  // Chance decides what is lost without a lock: almost always hundreds, once in a while nothing.
  for (int again = 0; again < 3 && bare.left == 0; ++again) {
    bare = run_round(setting, Way::kNoLock);
  }
  print_row("without a lock", bare);
  verdict.expect(bare.workers_fine, "every worker does its share");

  const Round locked = run_round(setting, Way::kLocked);
  print_row("through Holdfast", locked);
  const Round killed = run_round(setting, Way::kDoomed);
  print_row("through Holdfast, one killed", killed);

  judge(locked, verdict);
  judge(killed, verdict);
  judge_kill(killed, verdict);
  if (verdict.ok()) std::printf("All as promised.\n");
  return verdict.ok() ? 0 : 1;
}

// One sale on several servers, of which the one that leads is killed.
int run_server_demo(const Setting& setting, pid_t server) {
  std::printf("%d processes take %d items each off one stock file of %d, through %s.\n\n", kWorkers,
              kShare, kItems, setting.url.c_str());
  std::printf("  %-34s %10s %10s %9s   %s\n", "", "items left", "lost", "time", "tokens");
  const Round round = run_round(setting, Way::kStubborn, server);
  print_row("the leading server is killed", round);
  Verdict verdict;
  judge(round, verdict);
  nanoseconds gap{};
  for (std::size_t i = 1; i < round.entries.size(); ++i) {
    gap = std::max(gap, round.entries[i].granted_at - round.entries[i - 1].granted_at);
  }
  std::printf(
      "\nThe leading server (pid %d) was killed with SIGKILL in the middle of the sale. Another\n"
      "one took over. Nobody got the lock for %.2f s.\n",
      server, std::chrono::duration<double>(gap).count());
  verdict.expect(!round.entries.empty() && round.entries.back().granted_at > round.killed_at,
                 "the sale goes on after the kill");
  if (verdict.ok()) std::printf("All as promised.\n");
  return verdict.ok() ? 0 : 1;
}

// `url` empty: a store of its own.
int main_process(const std::string& url, pid_t server) {
  std::string pattern = (fs::temp_directory_path() / "holdfast-demo-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) give_up("cannot make a folder " + pattern);
  const Setting setting{pattern, url.empty() ? "sqlite://" + pattern + "/locks.db" : url};
  const int result = url.empty() ? run_demo(setting) : run_server_demo(setting, server);
  std::error_code ignored;
  fs::remove_all(setting.folder, ignored);
  return result;
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "--worker") {
    return demo::work({arguments.begin() + 1, arguments.end()});
  }
  if (arguments.size() == 4 && arguments[0] == "--store" && arguments[2] == "--kill") {
    const pid_t server = std::atoi(arguments[3].c_str());
    if (server > 1) return demo::main_process(arguments[1], server);
  }
  if (!arguments.empty()) {
    std::fprintf(stderr, "usage: holdfast-demo [--store URL --kill PID]\n");
    return 2;
  }
  return demo::main_process({}, 0);
}
