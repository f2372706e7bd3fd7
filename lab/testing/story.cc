#include "lab/testing/story.h"

#include <algorithm>
#include <utility>

namespace holdfast::lab::testing {

Story::Story(std::vector<std::string> locks) {
  history_.locks = std::move(locks);
  history_.targets = {"store"};
}

void Story::call(Kind kind, std::uint32_t process, std::int64_t invoke, std::int64_t ret,
                 Outcome outcome, const Asked& asked) {
  Event event;
  event.at_ns = invoke;
  event.process = process;
  event.call = ++calls_;
  event.kind = kind;
  event.phase = Phase::kInvoke;
  event.mode = asked.mode;
  event.lock = asked.lock;
  event.count = asked.count;
  event.capacity = asked.capacity;
  event.ttl_ns = asked.ttl;
  event.wait_ns = asked.wait;
  event.token = Token{0, kind == Kind::kWrite ? asked.token : 0};
  const Id id{0, asked.id != 0 ? asked.id : process};
  if (kind != Kind::kAcquire) event.id = id;
  add(event);
  if (ret < invoke) return;
  event.at_ns = ret;
  event.phase = Phase::kReturn;
  event.outcome = outcome;
  event.deadline_ns = asked.deadline;
  if (kind == Kind::kAcquire && outcome == Outcome::kGranted) {
    event.id = id;
    event.token = Token{0, asked.token};
  }
  add(event);
}

void Story::acquire(std::uint32_t process, std::int64_t invoke, std::int64_t ret,
                    const Asked& asked) {
  call(Kind::kAcquire, process, invoke, ret, asked.outcome, asked);
}

void Story::write(std::uint32_t process, std::int64_t at, std::uint64_t sequence,
                  const Asked& asked, Outcome outcome) {
  call(Kind::kWrite, process, at, at + 1, outcome, asked);
  history_.events.back().sequence = sequence;
}

void Story::lost(std::uint32_t process, std::int64_t at, const Asked& asked) {
  Event event;
  event.at_ns = at;
  event.process = process;
  event.kind = Kind::kLost;
  event.lock = asked.lock;
  event.id = {0, asked.id != 0 ? asked.id : process};
  add(event);
}

void Story::death(std::uint32_t process, std::int64_t at) {
  Event event;
  event.at_ns = at;
  event.process = process;
  event.kind = Kind::kDeath;
  add(event);
}

void Story::fault(FaultKind kind, std::int64_t begin, std::int64_t end) {
  Event event;
  event.kind = Kind::kFault;
  event.fault = kind;
  event.at_ns = begin;
  event.phase = Phase::kInvoke;
  add(event);
  event.at_ns = end;
  event.phase = Phase::kReturn;
  add(event);
}

void Story::incarnation(std::int64_t begin, std::int64_t end) {
  fault(FaultKind::kNone, begin, end);
  for (std::size_t i = 1; i <= 2; ++i) {
    history_.events[history_.events.size() - i].kind = Kind::kIncarnation;
  }
}

History Story::history() const {
  History sorted = history_;
  sort_events(sorted);
  return sorted;
}

void sort_events(History& history) {
  std::stable_sort(history.events.begin(), history.events.end(),
                   [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
}

}  // namespace holdfast::lab::testing
