#include "tests/faults/actor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "holdfast/log_event.h"
#include "tests/faults/guarded_file.h"
#include "tests/faults/line.h"

namespace holdfast::faults {

using std::chrono::milliseconds;
using std::chrono_literals::operator""s;

void say(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(STDOUT_FILENO, whole.data(), whole.size()) < 0) std::_Exit(1);
}

namespace {

std::string at() { return " at=" + std::to_string(host_boot_ns()); }

const char* name_of(LeaseState state) {
  switch (state) {
    case LeaseState::kHeld: return "kHeld";
    case LeaseState::kInDoubt: return "kInDoubt";
    case LeaseState::kLost: return "kLost";
    case LeaseState::kReleased: return "kReleased";
  }
  return "?";
}

// The deadline on the host's boot time.
std::int64_t host_deadline(const Lease& lease) {
  timespec own{};
  ::clock_gettime(CLOCK_BOOTTIME, &own);
  const std::int64_t own_ns = std::int64_t{own.tv_sec} * 1'000'000'000 + own.tv_nsec;
  return lease.deadline_boottime().count() - own_ns + host_boot_ns();
}

}  // namespace

std::string describe(const Error& error) {
  return " code=" + std::string(errc_name(error.code())) + " text=" + error.message();
}

std::string outcome(const Result<void>& result) {
  return result ? " ok" + at() : " failed" + at() + describe(result.error());
}

std::string describe(const Lease& lease) {
  return " token=" + lease.token().to_string() +
         " deadline=" + std::to_string(host_deadline(lease));
}

Result<void> connect(Actor& actor, const std::string& url) {
  actor.url = url;
  ClientOptions options;
  options.log_event = [](const LogEvent& event) {
    if (event.severity != LogSeverity::kInfo) say("! log text=" + event.text);
  };
  auto client = Client::connect(url, options);
  if (!client) return client.error();
  actor.client = *std::move(client);
  return {};
}

namespace {

// acquire NAME TTL_MS [WAIT_MS]
void acquire(Actor& actor, const Words& words) {
  actor.on_loss.reset();
  actor.lease.reset();
  AcquireOptions options;
  options.ttl = milliseconds(std::stoll(words.at(2)));
  if (words.size() > 3) options.wait = milliseconds(std::stoll(words[3]));
  options.on_queued = [](std::uint32_t ahead) {
    say("! queued ahead=" + std::to_string(ahead) + at());
  };
  const std::string invoked = " invoked=" + std::to_string(host_boot_ns());
  auto lease = actor.client->mutex(words.at(1)).acquire(options);
  if (!lease) return say("= failed" + invoked + at() + describe(lease.error()));
  actor.lease = *std::move(lease);
  say("= granted" + invoked + at() + describe(*actor.lease));
  actor.on_loss = std::make_unique<Actor::LossCallback>(actor.lease->lost(), [&actor] {
    const std::optional<Error> loss = actor.lease->loss();
    say("! lost" + at() + (loss ? describe(*loss) : std::string(" code=none")));
  });
}

void state(Actor& actor, const Words&) {
  const std::string invoked = " invoked=" + std::to_string(host_boot_ns());
  const char* const state = name_of(actor.lease->state());
  const bool held = actor.lease->held();
  say("= state held=" + std::string(held ? "yes" : "no") + " state=" + state + invoked + at() +
      " remaining=" + std::to_string(actor.lease->remaining().count()) + describe(*actor.lease));
}

void renew(Actor& actor, const Words&) {
  const auto renewed = actor.lease->renew();
  say("=" + outcome(renewed));
}

void release(Actor& actor, const Words&) {
  const std::string invoked = "invoked=" + std::to_string(host_boot_ns());
  const auto released = actor.lease->release();
  const auto again = actor.lease->release();
  say((released ? "= ok " : "= failed ") + invoked + at() +
      " again=" + (again ? "ok" : std::string(errc_name(again.error().code()))) +
      (released ? "" : describe(released.error())));
}

// churn NAME ROUNDS: takes it and gives it back that often; answers with the last token.
void churn(Actor& actor, const Words& words) {
  std::string token;
  for (int round = 0; round < std::stoi(words.at(2)); ++round) {
    auto lease = actor.client->mutex(words.at(1)).acquire({.ttl = 10s});
    if (!lease) return say("= failed" + at() + describe(lease.error()));
    token = lease->token().to_string();
    if (const auto released = lease->release(); !released) {
      return say("= failed" + at() + describe(released.error()));
    }
  }
  say("= churned token=" + token);
}

// write FILE VALUE: to a resource that checks the token, without asking whether the lock is held.
void write(Actor& actor, const Words& words) {
  const auto refused =
      GuardedFile(words.at(1)).write(actor.lease->token().to_string(), std::stoll(words.at(2)));
  say(refused ? "= refused highest=" + refused->highest : "= written");
}

void look(Actor& actor, const Words& words) {
  const auto info = actor.client->inspect(words.at(1));
  if (!info) return say("= failed" + at() + describe(info.error()));
  if (!*info) return say("= nothing");
  const bool held = !(*info)->holders.empty();
  say("= info holders=" + std::to_string((*info)->holders.size()) +
      " waiters=" + std::to_string((*info)->waiters.size()) +
      " token=" + (held ? (*info)->holders.front().token.to_string() : "") +
      " left=" + std::to_string(held ? (*info)->holders.front().time_left.count() : 0));
}

// break NAME TOKEN
void break_lock(Actor& actor, const Words& words) {
  const auto token = Token::parse(words.at(2));
  say("=" + outcome(actor.client->break_lock(words.at(1), token.value_or(Token{}), "a test")));
}

// jump NANOSECONDS: of the wall clock of all who share the file; then the lease's state at once.
void jump(Actor& actor, const Words& words) {
  if (actor.clock_offset == nullptr) {
    const int fd = ::open(std::getenv("HOLDFAST_TEST_CLOCK_FILE"), O_RDWR | O_CLOEXEC);
    void* page = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    actor.clock_offset = static_cast<std::int64_t*>(page);
  }
  const std::time_t before = std::time(nullptr);
  __atomic_store_n(actor.clock_offset, std::stoll(words.at(1)), __ATOMIC_SEQ_CST);
  const char* const first = name_of(actor.lease->state());
  const std::int64_t moved = std::time(nullptr) - before;
  say("= jumped state=" + std::string(first) + " seconds=" + std::to_string(moved));
}

// count FILE LOG NAME TTL_MS ROUNDS END: a read-modify-write under the lock, each step in the log;
// ROUNDS times at least, and until the file END is there.
// Showing the token at the read keeps a late write of a paused holder out; that it was late, and
// not a second holder, is checked here.
void count(Actor& actor, const Words& words) {
  const GuardedFile file(words.at(1));
  const int log = ::open(words.at(2).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const auto note = [log](const std::string& line) {
    if (::write(log, (line + "\n").data(), line.size() + 1) < 0) std::abort();
  };
  int done = 0;
  const int rounds = std::stoi(words.at(5));
  for (int round = 0; round < rounds || ::access(words.at(6).c_str(), F_OK) != 0; ++round) {
    AcquireOptions options;
    options.ttl = milliseconds(std::stoll(words.at(4)));
    auto lease = actor.client->mutex(words.at(3)).acquire(options);
    if (!lease) return say("= failed" + describe(lease.error()));
    const std::string token = lease->token().to_string();
    note("! enter token=" + token + at());
    const auto before = file.read(token);
    const std::string next = std::to_string(before ? before->value + 1 : -1);
    if (before) note("! intend token=" + token + " value=" + next);
    say("! inside");
    // Long enough for others to come in between, or for a kill.
    const timespec work{0, 200'000};
    ::nanosleep(&work, nullptr);
    const auto refused = before ? file.write(token, before->value + 1) : Guarded{};
    const bool still_held = lease->held();
    if (!before || refused) {
      note(std::string("! ") + (still_held ? "violated" : "late") + " token=" + token + at());
    } else {
      note("! done token=" + token + " value=" + next);
      ++done;
    }
    const std::int64_t left = std::min(host_boot_ns(), host_deadline(*lease));
    note("! leave token=" + token + " at=" + std::to_string(left));
    static_cast<void>(lease->release());
  }
  say("= counted done=" + std::to_string(done));
}

// become UID: for good.
void become(Actor&, const Words& words) {
  const auto id = static_cast<uid_t>(std::stoul(words.at(1)));
  const bool done = ::setresgid(id, id, id) == 0 && ::setresuid(id, id, id) == 0;
  say(done ? "= ok" : "= failed");
}

void close_client(Actor& actor, const Words&) {
  const auto closed = actor.client->close();
  say("=" + outcome(closed));
}

struct Command {
  std::string_view name;
  void (*run)(Actor&, const Words&);
};

constexpr Command kCommands[] = {
    {"connect",
     [](Actor& actor, const Words& words) { say("=" + outcome(connect(actor, words.at(1)))); }},
    {"close", close_client},
    {"acquire", acquire},
    {"state", state},
    {"renew", renew},
    {"release", release},
    {"churn", churn},
    {"write", write},
    {"look", look},
    {"break", break_lock},
    {"jump", jump},
    {"count", count},
    {"become", become},
    {"fork-look", fork_and_look},
    {"fork-keep", fork_and_keep},
    {"fork-end", end_kept},
    {"fork-storm", fork_in_a_storm},
    {"exec-list", list_inherited},
    {"ping", [](Actor&, const Words&) { say("= pong" + at()); }},
};

int run() {
  Actor actor;
  say("= hello" + at());
  for (std::string input; std::getline(std::cin, input);) {
    std::istringstream in(input);
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.empty() || words[0] == "quit") break;
    bool known = false;
    for (const Command& command : kCommands) {
      if (command.name != words[0]) continue;
      known = true;
      command.run(actor, words);
    }
    if (!known) say("= unknown text=" + input);
  }
  actor.on_loss.reset();
  return 0;
}

}  // namespace
}  // namespace holdfast::faults

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--list-descriptors") {
    return holdfast::faults::print_descriptors();
  }
  // Bounded whatever becomes of the test.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(60);
  return holdfast::faults::run();
}
