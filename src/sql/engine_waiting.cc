// Waiters: what tells them that they hold.
#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/fnv.h"
#include "src/base/random.h"
#include "src/sql/engine.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{20};
constexpr milliseconds kLongestPoll{500};
// A waiter that knows how many are ahead of it: the pause for each of those and for itself.
constexpr milliseconds kShortestTurn{20};
constexpr milliseconds kLongestTurn{50};

}  // namespace

std::string Engine::value_channel(std::string_view name) const {
  const std::uint64_t sum = base::fnv1a(name, base::fnv1a(dialect_->place()));
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

void Engine::set_listening(bool on) {
  listening_ = on;
  link_.post([this, on] {
    if (!on) return poll_within(kFirstPoll);
    // A grant may have been told before the server listened. When the first look is answered,
    // every acquire that was sent before it is answered, too; the second look has their tickets.
    look_at_waiting([this] { look_at_waiting([] {}); });
  });
}

void Engine::waits(AcquisitionId id, const std::string& name) {
  waiting_[id] = name;
  poll_within(kFirstPoll);
}

void Engine::waits_no_more(AcquisitionId id) { waiting_.erase(id); }

// Where nothing tells of a grant: behind a pooler, or on a server that cannot notify.
void Engine::poll_within(milliseconds pause) {
  const BootInstant when = BootClock::now() + pause;
  if (next_poll_ <= when) return;
  next_poll_ = when;
  poll_ = pause;
  link_.at(when, [this, when] {
    if (next_poll_ != when) return;  // An earlier one has taken its place.
    next_poll_ = BootInstant::max();
    if (listening_ || waiting_.empty()) return;
    // The next one follows an answer, so a busy server has one question at a time to answer.
    look_at_waiting([this] { poll_within(next_pause()); });
  });
}

// The pause grows while nothing moves. Waiters near the front ask more often: the server answers
// some 100 questions per second and lock, however many clients wait.
milliseconds Engine::next_pause() {
  milliseconds shortest = kFirstPoll;
  milliseconds longest = kLongestPoll;
  if (nearest_) {
    const auto turns = std::min<std::int64_t>(*nearest_ + 1, kLongestPoll / kShortestTurn);
    shortest = turns * kShortestTurn;
    longest = std::min(kLongestPoll, turns * kLongestTurn);
  }
  return moved_ ? shortest : std::clamp(poll_ * 3 / 2, shortest, longest);
}

// Tells those of the waiting that hold; then calls `next`.
void Engine::look_at_waiting(const port::Task& next) {
  Statement statement{dialect_->look({waiting_.begin(), waiting_.end()}),
                      BootClock::now() + std::chrono::seconds(5),
                      {}};
  statement.done = [this, next](const Answer& answer) {
    const std::optional<std::int64_t> before = std::exchange(nearest_, std::nullopt);
    moved_ = false;
    for (int row = 0; answer.fate == Fate::kDone && row < answer.rows->size(); ++row) {
      const AcquisitionId id = answer.rows->id(row, 0);
      if (!waiting_.contains(id)) continue;
      if (answer.rows->is_null(row, 1)) {
        const std::int64_t ahead = answer.rows->number(row, 2);
        nearest_ = std::min(ahead, nearest_.value_or(ahead));
        continue;
      }
      push(id, held_state(*answer.rows, row, 1));
      moved_ = true;  // Where locks change hands, the next one may soon.
    }
    moved_ = moved_ || before != nearest_;
    next();
  };
  link_.send(std::move(statement));
}

}  // namespace holdfast::sql
