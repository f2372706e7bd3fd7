// Logs once when the store stops answering, and once when it answers again.
// Thread-safety: the loop only.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "holdfast/detail/transient.h"
#include "holdfast/result.h"
#include "src/contend/answers.h"
#include "src/contend/backend.h"

namespace holdfast::contend {

class Availability {
 public:
  Availability(Backend& backend, std::function<void(const std::string& line)> alarm)
      : backend_(backend), alarm_(std::move(alarm)) {}

  // Notes a failed request. The first caller gets the reason as its error. Later there may be no
  // caller, because waiters keep waiting.
  void note_failure(const Error& error) {
    if (!detail::is_transient(error.code()) || !answered_ || std::exchange(away_, true)) return;
    away_since_ = backend_.session();
    alarm_(backend_.guarantees().store +
           ": the store is unavailable; waiters keep waiting, leases last until their deadlines: " +
           error.message());
  }

  void note_answer() {
    answered_ = true;
    if (!away_ || backend_.session().in_doubt) return;
    away_ = false;
    alarm_(backend_.guarantees().store + ": the store is available again");
  }

  void note_session(const SessionView& session) {
    if (session.epoch == 0) return;
    if (session.in_doubt) return note_failure(keepalives_unanswered());
    const bool newer =
        session.epoch != away_since_.epoch || session.deadline > away_since_.deadline;
    if (away_ && newer) note_answer();
  }

 private:
  Backend& backend_;
  const std::function<void(const std::string& line)> alarm_;
  bool answered_ = false;  // At least once.
  bool away_ = false;      // Logged, in this state of the session:
  SessionView away_since_{};
};

}  // namespace holdfast::contend
