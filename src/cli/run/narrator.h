// Tells what happens to a lock while `run` and `hold` are at work. People get sentences on stderr,
// programs get events as JSON lines on a descriptor.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/cli/options/options.h"
#include "src/cli/text/json.h"

namespace holdfast::cli {

// Our name, for people who look at the lock.
struct Identity {
  std::string owner;  // "host/4711/9f86d081b2c3", as the library spells its own.
  std::string host;
  long pid = 0;
};
Identity make_identity();

// The holder's program as shown: "alice: holdfast run backup.sh". `command` is cut to a
// length that fits a table; arguments, which may hold secrets, are not part of it.
std::string shown_program(const std::string& verb, const std::string& command = {});

class Narrator {
 public:
  struct Setup {
    std::string name;
    std::string store;  // Without secrets.
    std::string reason;
    std::string trace_id;
    Identity who;
    bool quiet = false;
    bool verbose = false;
    int json_fd = -1;    // -1: no events.
    bool people = true;  // Sentences on stderr.
  };
  explicit Narrator(Setup setup);
  // Gives a slow reader a last chance to have an event whose beginning it has had already.
  ~Narrator();
  Narrator(const Narrator&) = delete;
  Narrator& operator=(const Narrator&) = delete;

  // From the grant on, events carry these.
  void granted(const std::string& token);

  // `time_left` of the lease, where it is known. false: it was not written; errno is EAGAIN when
  // nobody reads at present.
  bool event(const std::string& word, std::optional<std::chrono::milliseconds> time_left = {},
             const Json& more = Json::object()) const;

  // Failures and losses: also with --quiet.
  void alarm(const std::string& sentence) const;
  // Reports the loss of the lock as an alarm; where the log is data, as the library's event
  // `lock_lost`.
  void lost(const std::string& sentence, Errc code = Errc::kLost) const;
  // Information for a person: not with --quiet.
  void note(const std::string& sentence) const;
  // On a terminal, or with -v.
  void chat(const std::string& sentence) const;
  void detail(const std::string& sentence) const;  // With -v.

  // "lock 'orders' (redis://db)".
  std::string lock() const;
  // "lost the lock 'orders' (redis://db): WHY", also where the library's WHY names both.
  std::string loss(const std::string& why) const;

  bool wants_chat() const { return setup_.verbose || terminal_; }
  bool wants_events() const { return setup_.json_fd >= 0; }
  const Setup& setup() const { return setup_; }

 private:
  bool finish_event() const;

  Setup setup_;
  bool terminal_ = false;
  mutable long dropped_ = 0;  // Events that were not written since the last that was.
  mutable std::string rest_;  // Rest of a partly written event: it comes before any other.
  std::string token_;
  std::chrono::system_clock::time_point since_{};
};

// For a lock that is asked for by these options: sentences on stderr, no events.
Narrator::Setup setup_of(const CommonOptions& common, const LockOptions& lock,
                         const std::string& shown_store);

}  // namespace holdfast::cli
