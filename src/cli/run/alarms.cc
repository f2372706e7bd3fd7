#include "src/cli/run/alarms.h"

#include <map>
#include <mutex>
#include <utility>

#include "src/cli/text/text.h"

namespace holdfast::cli {
struct Alarms::State {
  explicit State(Tell to) : tell(std::move(to)) {}

  void hear(const LogEvent& event, Clock::time_point now) {
    // The command reports this itself, together with the consequences.
    if (event.event == "lock_lost") return;
    {
      const std::lock_guard guard(mutex);
      std::erase_if(last, [now](const auto& entry) { return now - entry.second > kSame; });
      if (!last.insert_or_assign(event.text, now).second) return;
      ++count;
    }
    if (!tell) return;
    LogEvent safe = event;
    safe.text = printable(event.text);
    tell(safe);
  }

  const Tell tell;
  mutable std::mutex mutex;
  std::map<std::string, Clock::time_point> last;  // When each line came last.
  std::size_t count = 0;
};

Alarms::Alarms(Tell tell) : state_(std::make_shared<State>(std::move(tell))) {}

std::function<void(const LogEvent& event)> Alarms::sink() const {
  return [state = state_](const LogEvent& event) { state->hear(event, Clock::now()); };
}

void Alarms::hear(const LogEvent& event, Clock::time_point now) const { state_->hear(event, now); }

std::size_t Alarms::count() const {
  const std::lock_guard guard(state_->mutex);
  return state_->count;
}

}  // namespace holdfast::cli
