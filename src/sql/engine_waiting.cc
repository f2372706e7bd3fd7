// Those who wait: what tells them that they hold.
#include <algorithm>

#include "src/base/random.h"
#include "src/sql/engine.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using machine::AcquisitionId;
using machine::Duration;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{20};
constexpr milliseconds kLongestPoll{500};

}  // namespace

std::string Engine::value_channel(std::string_view name) const {
  std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a: the same in every client.
  for (const char c : dialect_->place() + std::string(name)) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return "holdfast_value_" + base::to_hex(sum, 0).substr(0, 16);
}

void Engine::push(AcquisitionId id, std::optional<port::AcquisitionState> granted) {
  if (granted) waits_no_more(id);
  port::Push push;
  push.id = id;
  push.kind = granted ? port::Push::Kind::kGranted : port::Push::Kind::kHint;
  if (granted) push.state = *granted;
  loop_->post([listener = listener_, push] { listener->on_push(push); });
}

void Engine::waits(AcquisitionId id, const std::string& name) {
  waiting_[id] = name;
  poll_ = kFirstPoll;
}

void Engine::waits_no_more(AcquisitionId id) { waiting_.erase(id); }

// Behind a pooler nothing tells of a grant.
void Engine::poll_waiting() {
  const auto next = [this] {
    poll_ = std::min(kLongestPoll, poll_ * 3 / 2);
    link_.at(BootClock::now() + poll_, [this] { poll_waiting(); });
  };
  if (listening_ || waiting_.empty()) return next();
  Statement statement{dialect_->look({waiting_.begin(), waiting_.end()}),
                      BootClock::now() + std::chrono::seconds(5),
                      {}};
  statement.done = [this, next](const Answer& answer) {
    for (int row = 0; answer.fate == Fate::kDone && row < answer.rows->size(); ++row) {
      port::AcquisitionState state;
      state.status = port::AcquisitionStatus::kHeld;
      state.token = {0, static_cast<std::uint64_t>(answer.rows->number(row, 1))};
      state.seq = static_cast<std::uint64_t>(answer.rows->number(row, 2));
      state.lease = Duration(answer.rows->number(row, 3));
      const AcquisitionId id = answer.rows->id(row, 0);
      if (!waiting_.contains(id)) continue;
      push(id, state);
      poll_ = kFirstPoll;  // Where locks change hands, the next one may soon.
    }
    next();
  };
  link_.send(std::move(statement));
}

}  // namespace holdfast::sql
