#include "src/session/async/gathered_handlers.h"

#include <algorithm>
#include <utility>

#include "src/base/exit_gate.h"

namespace holdfast {
namespace session {
namespace {

thread_local GatheredHandlers* gathering = nullptr;

}  // namespace

GatheredHandlers::GatheredHandlers() noexcept { gathering = this; }

GatheredHandlers::~GatheredHandlers() {
  gathering = nullptr;
  const base::ExitPassage passage;
  // The objects that they use may be gone, so they are leaked on purpose and not destroyed.
  if (!passage) static_cast<void>(new std::vector<Group>(std::exchange(groups_, {})));
  for (Group& group : groups_) {
    detail::Ready& first = *group.first;
    first.post(std::move(group.first), std::move(group.others));
  }
}

bool GatheredHandlers::take(detail::ReadyPtr& ready) {
  if (gathering == nullptr) return false;
  std::vector<Group>& groups = gathering->groups_;
  const auto compared = static_cast<std::ptrdiff_t>(std::min(groups.size(), kCompared));
  const auto same = std::find_if(groups.rbegin(), groups.rbegin() + compared, [&](Group& group) {
    return group.first->same_executor(*ready);
  });
  if (same != groups.rbegin() + compared) {
    same->others.push_back(std::move(ready));
  } else {
    groups.push_back({std::move(ready), {}});
  }
  return true;
}

}  // namespace session

bool detail::gather(ReadyPtr& ready) { return session::GatheredHandlers::take(ready); }

}  // namespace holdfast
