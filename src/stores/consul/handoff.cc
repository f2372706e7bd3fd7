#include "src/stores/consul/handoff.h"

#include <charconv>
#include <utility>
#include <vector>

namespace holdfast::stores::consul {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::string_view kBegins = "hf1 order=";
constexpr std::string_view kThen = " token=";
// By then every watcher has its answer, and later contenders have seen that the key is gone.
constexpr auto kStays = 5s;
// A transaction of Consul has at most 64 steps.
constexpr std::size_t kAtOnce = 60;

// Takes a number off the front.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view begins) {
  if (!text.starts_with(begins)) return false;
  text.remove_prefix(begins.size());
  return true;
}

}  // namespace

std::string to_text(const HandoffNote& what) {
  return std::string(kBegins) + std::to_string(what.order) + std::string(kThen) +
         std::to_string(what.token);
}

std::optional<HandoffNote> parse_handoff(std::string_view text) {
  if (!take(text, kBegins)) return std::nullopt;
  const auto order = take_number(text);
  if (!order || !take(text, kThen)) return std::nullopt;
  const auto token = take_number(text);
  if (!token || !text.empty()) return std::nullopt;
  return HandoffNote{*order, *token};
}

Watches::Seen judge(const HttpReply& reply, const std::string& contender, std::uint64_t order,
                    std::uint64_t modified) {
  Watches::Seen seen;
  const auto pairs = read_pairs(reply, "watching");
  if (!pairs) return seen;
  for (const Pair& pair : *pairs) {
    if (pair.key == contender) seen.same = pair.created == order && pair.modified == modified;
    if (pair.key != out_of(contender)) continue;
    const auto left = parse_handoff(pair.value());
    if (left && left->order == order) seen.handed_off = machine::Token{0, left->token};
  }
  // A contender may have been created again under the same name.
  if (seen.same) seen.handed_off.reset();
  return seen;
}

void Handoffs::made(const std::string& out) {
  if (stopped_) return;
  made_[out] = steady_clock::now();
  if (!std::exchange(ticking_, true)) timer_.arm(kStays, [this] { tick(); });
}

// A late removal may hit a newer /out of the same name. This costs a waiter one read of the queue.
void Handoffs::tick() {
  const auto over = steady_clock::now() - kStays;
  std::vector<std::string> outs;
  Transaction all;
  for (const auto& [out, at] : made_) {
    if (at > over) continue;
    outs.push_back(out);
    all.erase(out);
    if (outs.size() == kAtOnce) break;
  }
  ticking_ = !made_.empty();
  const auto next = outs.size() == kAtOnce ? std::chrono::nanoseconds(1ms) : kStays / 2;
  if (ticking_) timer_.arm(next, [this] { tick(); });
  if (outs.empty()) return;
  for (const std::string& out : outs) made_.erase(out);
  http_.send(
      {.method = HttpRequest::Method::kPut, .target = "/v1/txn", .body = all.body(), .reads = true},
      [](const Result<HttpReply>&) {});
}

void Handoffs::stop() {
  stopped_ = true;
  timer_.stop();
  made_.clear();
}

}  // namespace holdfast::stores::consul
