#include "src/cli/narrator.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "src/cli/output.h"
#include "src/cli/text.h"

namespace holdfast::cli {

Identity make_identity() {
  Identity who;
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) == 0) who.host = host;
  if (who.host.empty()) who.host = "localhost";
  who.pid = ::getpid();
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08x", random);
  who.owner = who.host + "-" + std::to_string(who.pid) + "-" + digits;
  return who;
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
  out["time"] = iso_time(std::chrono::system_clock::now());
  out["name"] = setup_.name;
  out["token"] = token_.empty() ? Json(nullptr) : Json(token_);
  out["owner"] = setup_.who.owner;
  out["host"] = setup_.who.host;
  out["pid"] = setup_.who.pid;
  out["since"] = iso_time(since_);
  out["reason"] = setup_.reason;
  out["time_left_ms"] = time_left ? Json(time_left->count()) : Json(nullptr);
  out["store"] = setup_.store;
  out.update(more);
  // A reader that has gone away or does not read is no reason to stop.
  if (dropped_ > 0) out["dropped"] = dropped_;
  const bool written = write_unless_stuck(setup_.json_fd, to_line(out));
  dropped_ = written ? 0 : dropped_ + 1;
  return written;
}

void Narrator::alarm(const std::string& sentence) const {
  if (setup_.people) complain(sentence);
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
