#include "src/cli/alarms.h"

#include <map>
#include <mutex>
#include <utility>

#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

// The command has a sentence of its own for it, with what follows from it.
bool is_a_loss(const std::string& line) {
  return line.starts_with("lock '") && line.find(") was lost: ") != line.npos;
}

}  // namespace

struct Alarms::State {
  explicit State(Tell to) : tell(std::move(to)) {}

  void hear(const std::string& line, Clock::time_point now) {
    if (is_a_loss(line)) return;
    {
      const std::lock_guard guard(mutex);
      std::erase_if(last, [now](const auto& entry) { return now - entry.second > kSame; });
      if (!last.insert_or_assign(line, now).second) return;
      ++count;
    }
    if (tell) tell(printable(line));
  }

  const Tell tell;
  mutable std::mutex mutex;
  std::map<std::string, Clock::time_point> last;  // When each line came last.
  std::size_t count = 0;
};

Alarms::Alarms(Tell tell) : state_(std::make_shared<State>(std::move(tell))) {}

std::function<void(const std::string& line)> Alarms::sink() const {
  return [state = state_](const std::string& line) { state->hear(line, Clock::now()); };
}

void Alarms::hear(const std::string& line, Clock::time_point now) const { state_->hear(line, now); }

std::size_t Alarms::count() const {
  const std::lock_guard guard(state_->mutex);
  return state_->count;
}

}  // namespace holdfast::cli
