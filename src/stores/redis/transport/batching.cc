#include "src/stores/redis/transport/batching.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace holdfast::stores::redis {
namespace {

using Kind = BatchPart::Kind;

Kind kind_of(const Operation& operation) {
  return operation.alone ? Kind::kNone : operation.command.part.kind;
}

// Releases go first if there are any: acquisitions may wait for just these locks.
Kind next_kind(const OperationList& waiting) {
  std::size_t looked = 0;
  for (const Operation* each = waiting.front(); each != nullptr; each = each->next) {
    const Kind kind = kind_of(*each);
    if (kind == Kind::kRelease) return kind;
    // A request that goes alone is a barrier: earlier parts may go now, but none after it.
    if (kind == Kind::kNone) return looked == 0 ? kind : Kind::kAcquire;
    if (++looked == kMostLookedThrough) break;
  }
  return Kind::kAcquire;
}

std::string_view bytes_of(const Operation& operation, std::size_t from, std::size_t to) {
  return std::string_view(operation.command.wire).substr(from, to - from);
}

std::string_view common_of(const Operation& operation) {
  const BatchPart& part = operation.command.part;
  return bytes_of(operation, part.common, part.own);
}

}  // namespace

void take_next(OperationList& waiting, base::BootInstant now, bool join, std::size_t most,
               OperationList& taken, OperationList& late) {
  // An expired request at the front must not decide the kind of the batch.
  while (!waiting.empty() && waiting.front()->deadline <= now) late.push(waiting.pop());
  if (waiting.empty()) return;
  const Kind wanted = join ? next_kind(waiting) : Kind::kNone;
  if (wanted == Kind::kNone) return taken.push(waiting.pop());
  OperationList passed;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < kMostLookedThrough && !waiting.empty(); ++i) {
    const Operation& next = *waiting.front();
    const Kind kind = kind_of(next);
    // No request may overtake one that goes alone.
    if (kind == Kind::kNone) break;
    if (kind != wanted) {
      passed.push(waiting.pop());
    } else if (next.deadline <= now) {
      late.push(waiting.pop());
    } else {
      bytes += next.command.wire.size();
      // A first request above the limit still goes, because it would never fit.
      if (!taken.empty() && bytes > kMostBatchBytes) break;
      if (!taken.empty() && common_of(*taken.front()) != common_of(next)) break;
      taken.push(waiting.pop());
      if (taken.size() >= std::min(most, kMostInBatch)) break;
    }
  }
  // The passed requests keep their position before the rest.
  passed.append(waiting);
  waiting.append(passed);
}

void append_request(std::string& out, const OperationList& taken) {
  const Operation& first = *taken.front();
  if (first.next == nullptr) {
    out += first.command.wire;
    return;
  }
  const BatchPart& part = first.command.part;
  const std::size_t number = taken.size();
  const auto append_each = [&](auto from, auto to) {
    for (const Operation* each = &first; each != nullptr; each = each->next) {
      out += bytes_of(*each, from(*each), to(*each));
    }
  };
  const auto key = [](const Operation& each) { return each.command.part.key; };
  const auto common = [](const Operation& each) { return each.command.part.common; };
  const auto own = [](const Operation& each) { return each.command.part.own; };
  const auto tail = [](const Operation& each) { return each.command.part.tail; };
  const auto end = [](const Operation& each) { return each.command.wire.size(); };
  // The command, the hash, the number of keys and the common word come once. Each part adds its key
  // and its own words.
  const bool in_cluster = tail(first) != end(first);
  append_array_header(out, 4 + number * ((in_cluster ? 2U : 1U) + part.own_words));
  out += bytes_of(first, first.command.wire.find('\n') + 1, part.count);
  append_word(out, in_cluster ? "0" : std::to_string(number));
  if (!in_cluster) append_each(key, common);
  out += common_of(first);
  append_each(own, tail);
  // A cluster refuses declared keys of several slots (scripts/cluster.lua).
  if (!in_cluster) return;
  append_each(key, common);
  append_each(tail, end);
}

bool asks_to_go_alone(const Reply& reply) { return reply.error_word() == "HOLDFAST-ALONE"; }

bool concerns_each(const Reply& refusal) {
  constexpr std::string_view kWords[] = {
      "NOSCRIPT",   "READONLY",   "LOADING",  "MASTERDOWN",   "MISCONF", "BUSY",       "NOAUTH",
      "UNKILLABLE", "NOREPLICAS", "FAILOVER", "NOMASTERLINK", "MOVED",   "CLUSTERDOWN"};
  return std::find(std::begin(kWords), std::end(kWords), refusal.error_word()) != std::end(kWords);
}

}  // namespace holdfast::stores::redis
