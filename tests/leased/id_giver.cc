// A process that gives ids of one namespace until SIGTERM ends it in order. Tests kill it, stop it,
// shift its clock and start others beside it.
//
//   id_giver KIND URL NAME FILE LEASE_MS
//
// KIND: "workers" leases worker numbers for so long, and "segments" takes ranges of numbers.
// FILE gets the ids in the order in which they were given, 8 bytes each.
// stdout gets a line "took worker N" for each worker number, and one for each reason to give no id.
//
// Exit: 0 after SIGTERM, 1 after an error that does not pass by itself.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>

#include "holdfast/ids/leased_workers.h"
#include "holdfast/ids/segments.h"

namespace {

using holdfast::Errc;
using holdfast::Error;
using holdfast::ids::IdSource;
using holdfast::ids::LeasedIds;
using holdfast::ids::LeasedWorkers;
using holdfast::ids::Segments;
using std::chrono::milliseconds;

// A run of ids without a pause fills whole milliseconds, so two processes with one number meet.
// Leases are renewed and bounds are raised in the pauses.
constexpr std::size_t kRun = 16;
constexpr milliseconds kPause{5};

// Waits for SIGTERM, which is blocked, and no longer than that. From then on it is always true.
bool told_to_stop(milliseconds within) {
  static bool told = false;
  if (told) return true;
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  const timespec time{.tv_sec = 0, .tv_nsec = within.count() * 1'000'000};
  told = ::sigtimedwait(&term, nullptr, &time) == SIGTERM;
  return told;
}

void say(const std::string& line) {
  static std::string last;
  if (line != last) std::cout << line << std::endl;  // Flushed: somebody waits for it.
  last = line;
}

// A busy machine is too slow for one try, a lease ends on it, and the numbers of killed processes
// are held for a while.
bool may_pass(const Error& error) {
  switch (error.code()) {
    case Errc::kUnavailable:
    case Errc::kOutcomeUnknown:
    case Errc::kQueueFull:
    case Errc::kLost: say(error.message()); return true;
    default: return false;
  }
}

// Ends the process after an error that does not pass. An error: it was told to stop.
template <typename Attempt>
auto persist(Attempt attempt) {
  for (;;) {
    auto result = attempt();
    if (result) return result;
    if (!may_pass(result.error())) {
      say("gives up: " + result.error().message());
      std::exit(1);
    }
    if (told_to_stop(kPause)) return result;
  }
}

class Giver {
 public:
  explicit Giver(const char* path)
      : file_(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

  void give(IdSource& ids, const LeasedIds* leased) {
    do {
      give_run(ids);
      if (leased != nullptr) note_worker(leased->worker());
    } while (!told_to_stop(kPause));
  }

 private:
  // One write for all: a kill leaves whole ids in the file.
  void give_run(IdSource& ids) {
    std::array<std::uint64_t, kRun> run;
    std::size_t count = 0;
    std::optional<Error> why;
    while (!why && count < run.size()) {
      const auto id = ids.next();
      if (id) run[count++] = id->number();
      if (!id) why = id.error();
    }
    const std::size_t size = count * sizeof run[0];
    if (::write(file_, run.data(), size) != static_cast<ssize_t>(size)) {
      say("gives up: its file cannot be written");
      std::exit(1);
    }
    if (why && !may_pass(*why)) {
      say("gives up: " + why->message());
      std::exit(1);
    }
  }

  void note_worker(std::uint64_t worker) {
    if (worker != worker_) say("took worker " + std::to_string(worker));
    worker_ = worker;
  }

  const int file_;
  std::optional<std::uint64_t> worker_;
};

void give_of_workers(const std::string& url, const std::string& name, milliseconds lease,
                     Giver& giver) {
  const auto workers = persist([&] { return LeasedWorkers::open(url, name, {.ttl = lease}); });
  if (!workers) return;
  const auto ids = persist([&] { return workers->ids(); });
  if (ids) giver.give(**ids, ids->get());
}

void give_of_segments(const std::string& url, const std::string& name, Giver& giver) {
  // Small ranges at first, so that many are taken, and larger ones before the crowd is too much for
  // a store.
  const auto ids =
      persist([&] { return Segments::open(url, name, {.step_min = 50, .step_max = 1'000}); });
  if (ids) giver.give(**ids, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);  // In the library's threads, too.
  const std::string kind = argv[1];
  Giver giver(argv[4]);
  if (kind == "workers") give_of_workers(argv[2], argv[3], milliseconds(std::atoi(argv[5])), giver);
  if (kind == "segments") give_of_segments(argv[2], argv[3], giver);
  return told_to_stop(milliseconds(0)) ? 0 : 2;
}
