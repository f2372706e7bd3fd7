// A lock's state in Redis, as inspect() reads it: the six parts of the answer, a line each;
// the parts that are lists have their items between tabs.

#include "src/stores/redis/protocol/lock_view.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_view {
namespace {

using stores::redis::Reply;

Reply text_of(std::string_view text) {
  Reply reply;
  reply.kind = Reply::Kind::kText;
  reply.text = std::string(text);
  return reply;
}

Reply list_of(std::string_view line) {
  Reply reply;
  reply.kind = Reply::Kind::kArray;
  while (!line.empty()) {
    const std::string_view item = line.substr(0, line.find('\t'));
    reply.items.push_back(text_of(item));
    line.remove_prefix(std::min(line.size(), item.size() + 1));
  }
  return reply;
}

}  // namespace

void run(std::string_view input) {
  Input lines(input);
  Reply reply;
  reply.kind = Reply::Kind::kArray;
  for (int part = 0; part < 6; ++part) {
    const std::string_view line = lines.line();
    reply.items.push_back(part >= 2 && part <= 4 ? list_of(line) : text_of(line));
  }
  const auto view = stores::redis::view_of(reply, "x");
  if (!view) {
    const Errc code = view.error().code();
    demand(code == Errc::kCorruptState || code == Errc::kVersionMismatch, "it is told what it is");
    demand(view.error().message().find("'x'") != std::string::npos, "the error names the lock");
    return;
  }
  if (!*view) return;
  const LockInfo& info = **view;
  demand(info.name == "x", "a lock has its name");
  for (const HolderInfo& holder : info.holders) {
    demand(holder.time_left.count() >= 0, "whose lease is over is left out");
    demand(holder.mode.count() <= holder.mode.capacity() || info.permits, "n is at most N");
  }
  for (const WaiterInfo& waiter : info.waiters) {
    demand(waiter.time_left.count() >= 0, "whose lease is over is left out");
  }
}

}  // namespace holdfast::fuzz::redis_view

HOLDFAST_FUZZ_TARGET(redis_view)
