#include "src/cli/run/narrator.h"

#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>

#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

Identity make_identity() {
  Identity who;
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) == 0) who.host = host;
  if (who.host.empty()) who.host = "localhost";
  who.pid = ::getpid();
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(random));
  who.owner = who.host + "/" + std::to_string(who.pid) + "/" + std::string(digits, 12);
  return who;
}

std::string shown_program(const std::string& verb, const std::string& command) {
  constexpr std::size_t kMost = 64;
  const uid_t uid = ::geteuid();
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(uid, &entry, room.data(), room.size(), &found);
  std::string text = (found != nullptr ? found->pw_name : std::to_string(uid)) + ": holdfast";
  if (!verb.empty()) text += " " + verb;
  if (!command.empty())
    text += " " + command.substr(command.find_last_of('/') + 1).substr(0, kMost);
  return text;
}

Narrator::Setup setup_of(const CommonOptions& common, const LockOptions& lock,
                         const std::string& shown_store) {
  return {lock.name,       shown_store,  lock.reason,   lock.trace_id,
          make_identity(), common.quiet, common.verbose};
}

Narrator::Narrator(Setup setup)
    : setup_(std::move(setup)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      since_(std::chrono::system_clock::now()) {}

void Narrator::granted(const std::string& token) {
  token_ = token;
  since_ = std::chrono::system_clock::now();
}

bool Narrator::event(const std::string& word, std::optional<std::chrono::milliseconds> time_left,
                     const Json& more) const {
  if (!wants_events()) return true;
  Json out;
  out["event"] = word;
  out["time"] = utc_text(std::chrono::system_clock::now());
  out["name"] = setup_.name;
  out["token"] = token_.empty() ? Json(nullptr) : Json(token_);
  out["owner"] = setup_.who.owner;
  out["host"] = setup_.who.host;
  out["pid"] = setup_.who.pid;
  out["since"] = utc_text(since_);
  out["reason"] = setup_.reason;
  out["trace_id"] = setup_.trace_id;
  out["time_left_ms"] = time_left ? Json(time_left->count()) : Json(nullptr);
  out["store"] = setup_.store;
  out.update(more);
  // A reader that has gone away or does not read is no reason to stop.
  if (dropped_ > 0) out["dropped"] = dropped_;
  std::size_t written = 0;
  const std::string line = to_line(out);
  if (finish_event()) written = write_until_stuck(setup_.json_fd, line);
  if (written == 0) return ++dropped_, false;
  dropped_ = 0;
  rest_ = line.substr(written);
  return rest_.empty() || errno == EAGAIN;
}

bool Narrator::finish_event() const {
  if (!rest_.empty()) rest_.erase(0, write_until_stuck(setup_.json_fd, rest_));
  return rest_.empty();
}

Narrator::~Narrator() {
  constexpr int kLastTries = 20;
  for (int i = 0; i < kLastTries && !finish_event() && errno == EAGAIN; ++i) {
  }
}

void Narrator::alarm(const std::string& sentence) const {
  if (setup_.people) complain(sentence);
}

void Narrator::lost(const std::string& sentence, Errc code) const {
  if (!setup_.people) return;
  LogEvent event;
  event.time = std::chrono::system_clock::now();
  event.severity = LogSeverity::kError;
  event.event = "lock_lost";
  event.text = sentence;
  event.store = setup_.store;
  event.lock = setup_.name;
  if (const auto token = Token::parse(token_)) event.token = *token;
  event.trace_id = setup_.trace_id;
  event.error = code;
  relay(event);
}

std::string Narrator::lock() const {
  return "lock " + in_quotes(setup_.name) + " (" + printable(setup_.store) + ")";
}

namespace {

// Takes "lock 'NAME' (STORE)" and what joins it to the rest off the library's sentence. The store
// may know the lock by a longer name, which ends with ours.
bool take_lock_off(std::string& sentence, const std::string& name) {
  constexpr std::string_view kBegin = "lock '";
  const std::string end = printable(name) + "'";
  const std::size_t named = sentence.find(end, kBegin.size());
  if (!sentence.starts_with(kBegin) || named == sentence.npos) return false;
  sentence.erase(0, named + end.size());
  for (const std::string_view after : {") was lost: ", "): "}) {
    const std::size_t at = sentence.starts_with(" (") ? sentence.find(after) : sentence.npos;
    if (at != sentence.npos) sentence.erase(0, at + 1);
  }
  for (const std::string_view joint : {" was lost: ", ": "}) {
    if (sentence.starts_with(joint)) sentence.erase(0, joint.size());
  }
  if (sentence.starts_with(' ')) sentence.insert(0, "it");
  return true;
}

}  // namespace

std::string Narrator::loss(const std::string& why) const {
  std::string rest = why;
  while (take_lock_off(rest, setup_.name)) {  // One error may tell of another.
  }
  return "lost the " + lock() + ": " + rest;
}

void Narrator::note(const std::string& sentence) const {
  if (setup_.people && !setup_.quiet) complain(sentence);
}

void Narrator::chat(const std::string& sentence) const {
  if (wants_chat()) note(sentence);
}

void Narrator::detail(const std::string& sentence) const {
  if (setup_.verbose) note(sentence);
}

}  // namespace holdfast::cli
