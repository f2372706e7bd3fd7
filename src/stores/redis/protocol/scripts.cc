#include "src/stores/redis/protocol/scripts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>

#include <openssl/evp.h>

#include "src/base/hex.h"
#include "src/stores/redis/script_texts.h"  // Generated from scripts/*.lua.

namespace holdfast::stores::redis {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Leaves out the lines of the other host, and makes code of this one's.
std::string lines_for(ScriptHost host, std::string_view text) {
  const bool cluster = host == ScriptHost::kCluster;
  const std::string_view own = cluster ? "--@cluster " : "--@single ";
  const std::string_view others = cluster ? "--@single " : "--@cluster ";
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view code = line.substr(indent);
    if (code.starts_with(others)) continue;
    kept += line.substr(0, indent);
    kept += code.starts_with(own) ? code.substr(own.size()) : code;
  }
  return kept;
}

// Pushes go to a sharded channel of the client, in the slot of the lock.
void adapt_to_cluster(std::string& text) {
  replace_all(text, "'PUBLISH'", "'SPUBLISH'");
  replace_all(text, "'UNSUBSCRIBE'", "'SUNSUBSCRIBE'");
  replace_all(text, "'hf1:@' .. ticket.client", "'hf1:@' .. ticket.client .. slot_tag");
  replace_all(text, "'hf1:@' .. client", "'hf1:@' .. client .. slot_tag");
  const std::size_t first_line = text.starts_with("#!") ? text.find('\n') + 1 : 0;
  text.insert(first_line, "local slot_tag = #KEYS > 0 and table.remove(ARGV) or ''\n");
  replace_all(text, "flags=allow-oom\n", "flags=allow-oom,allow-cross-slot-keys\n");
}

Script assemble(std::string_view source, ScriptClock clock, ScriptHost host) {
  Script script;
  script.text = source;
  const bool cluster = host == ScriptHost::kCluster;
  replace_all(script.text, "--@cluster\n", cluster ? script_texts::kCluster : std::string_view());
  replace_all(script.text, "--@moving\n", cluster ? script_texts::kMoving : std::string_view());
  replace_all(script.text, "--@lock\n", script_texts::kLock);
  replace_all(script.text, "--@entry\n", script_texts::kEntry);
  replace_all(script.text, "--@ending\n", script_texts::kEnding);
  script.text = lines_for(host, script.text);
  if (clock == ScriptClock::kArgument) {
    replace_all(script.text, "redis.call('TIME')",
                "{string.sub(ARGV[#ARGV], 1, 10), string.sub(ARGV[#ARGV], 11, 16)}");
  }
  if (cluster) adapt_to_cluster(script.text);
  script.sha1 = sha1_of(script.text);
  return script;
}

using Scripts = std::array<Script, kScripts>;

Scripts assemble_all(ScriptClock clock, ScriptHost host) {
  const auto made = [=](std::string_view source) { return assemble(source, clock, host); };
  return {made(script_texts::kAcquire),   made(script_texts::kEnd),
          made(script_texts::kRenew),     made(script_texts::kDowngrade),
          made(script_texts::kBreak),     made(script_texts::kResize),
          made(script_texts::kSetValue),  made(script_texts::kInspect),
          made(script_texts::kRights),    made(script_texts::kAcquireAll)};
}

// Not a local static: a child that is forked while another thread makes it would wait for ever.
const Scripts& made_once(std::atomic<const Scripts*>& kept, ScriptClock clock, ScriptHost host) {
  const Scripts* known = kept.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<const Scripts>(assemble_all(clock, host));
  if (kept.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *known;
}

constinit std::array<std::atomic<const Scripts*>, 4> all_scripts{};

}  // namespace

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // SHA-1 is Redis' name for a script; no security depends on it.
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    std::abort();
  }
  return base::hex_of({reinterpret_cast<const char*>(digest.data()), size});
}

const Script& script(ScriptName name, ScriptClock clock, ScriptHost host) {
  const std::size_t kind = static_cast<std::size_t>(clock) + 2 * static_cast<std::size_t>(host);
  return made_once(all_scripts[kind], clock, host)[static_cast<std::size_t>(name)];
}

}  // namespace holdfast::stores::redis
