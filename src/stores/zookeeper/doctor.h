// The findings of 'holdfast doctor' about a session.
//
// Thread-safety: pure functions.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::zookeeper {

Finding length_finding(std::chrono::milliseconds agreed, std::chrono::milliseconds asked_for);

// `least`: the shortest session that the servers grant. It is two of their ticks, or more, unless
// minSessionTimeout says less. The guarantees need six ticks (guarantees.cc, session_deadline.h).
Finding ticks_finding(std::chrono::milliseconds session, std::chrono::milliseconds least);

}  // namespace holdfast::stores::zookeeper
