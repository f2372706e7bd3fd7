// The findings of `holdfast doctor` about a session.
//
// Thread-safety: pure functions.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::zookeeper {

Finding length_finding(std::chrono::milliseconds agreed, std::chrono::milliseconds asked_for);

// `least` is the shortest session that the servers grant: at least two of their ticks, unless
// minSessionTimeout is lower. The guarantees need six ticks (guarantees.cc, session_deadline.h).
Finding ticks_finding(std::chrono::milliseconds session, std::chrono::milliseconds least);

}  // namespace holdfast::stores::zookeeper
