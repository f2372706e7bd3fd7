#include "src/stores/redis/protocol/scripts.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>

#include <openssl/evp.h>

#include "src/stores/redis/script_texts.h"  // Generated from scripts/*.lua.

namespace holdfast::stores::redis {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

Script assemble(std::string_view source, ScriptClock clock) {
  Script script;
  script.text = source;
  replace_all(script.text, "--@lock\n", script_texts::kLock);
  replace_all(script.text, "--@entry\n", script_texts::kEntry);
  replace_all(script.text, "--@ending\n", script_texts::kEnding);
  if (clock == ScriptClock::kArgument) {
    replace_all(script.text, "redis.call('TIME')",
                "{string.sub(ARGV[#ARGV], 1, 10), string.sub(ARGV[#ARGV], 11, 16)}");
  }
  script.sha1 = sha1_of(script.text);
  return script;
}

using Scripts = std::array<Script, kScripts>;

Scripts assemble_all(ScriptClock clock) {
  return {assemble(script_texts::kAcquire, clock),  assemble(script_texts::kEnd, clock),
          assemble(script_texts::kRenew, clock),    assemble(script_texts::kDowngrade, clock),
          assemble(script_texts::kBreak, clock),    assemble(script_texts::kResize, clock),
          assemble(script_texts::kSetValue, clock), assemble(script_texts::kInspect, clock),
          assemble(script_texts::kRights, clock),   assemble(script_texts::kAcquireAll, clock)};
}

// Not a local static: a child that is forked while another thread makes it would wait for ever.
const Scripts& made_once(std::atomic<const Scripts*>& place, ScriptClock clock) {
  const Scripts* known = place.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<const Scripts>(assemble_all(clock));
  if (place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *known;
}

constinit std::atomic<const Scripts*> for_server{nullptr};
constinit std::atomic<const Scripts*> for_argument{nullptr};

}  // namespace

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // SHA-1 is Redis' name for a script; no security depends on it.
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    std::abort();
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[digest[i] >> 4U];
    hex += kDigits[digest[i] & 15U];
  }
  return hex;
}

const Script& script(ScriptName name, ScriptClock clock) {
  const bool server = clock == ScriptClock::kServer;
  return made_once(server ? for_server : for_argument, clock)[static_cast<std::size_t>(name)];
}

}  // namespace holdfast::stores::redis
