#include "src/sql/blocking_link.h"

#include <future>
#include <utility>

namespace holdfast::sql {

using base::BootClock;
using base::BootInstant;

Result<RowsPtr> BlockingLink::ask(const Request& request, BootInstant by, bool reads) {
  while (true) {
    const Answer answer = send(request, by);
    if (answer.fate == Fate::kDone) return answer.rows;
    const bool passing =
        answer.fate == Fate::kRefused && dialect_->failure_of(answer) == Failure::kChangedNothing;
    if (passing && BootClock::now() < by) continue;
    Error why = error_of(*dialect_, answer);
    if (!reads || why.code() != Errc::kOutcomeUnknown) return why;
    return Error(Errc::kUnavailable, where() + ": " + answer.message);
  }
}

Answer BlockingLink::send(const Request& request, BootInstant by) {
  if (!link_) {
    link_ = std::make_unique<Link>(settings_, Link::Hooks{});
    link_->start();
  }
  auto told = std::make_shared<std::promise<Answer>>();
  auto answer = told->get_future();
  link_->post([link = link_.get(), request, by, told] {
    link->send({request, by, [told](Answer given) { told->set_value(std::move(given)); }});
  });
  return answer.get();
}

Result<std::string> BlockingLink::forgets(BootInstant by) {
  const auto settings = ask(dialect_->durability(), by, /*reads=*/true);
  if (!settings) return settings.error();
  const std::string losses = dialect_->forgets(**settings);
  return losses.empty() ? losses : where() + ": " + losses;
}

}  // namespace holdfast::sql
