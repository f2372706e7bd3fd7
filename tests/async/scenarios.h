// The asynchronous calls must survive these scenarios on every store. Each takes the URL of a place
// that nobody else uses, so that a store joins with one line.
#pragma once

#include <string>

namespace holdfast::testing {

// Asks for a held lock and gives up at the n-th event between the core and the store (a request
// leaves, an answer or a push is about to be heard, or has been), for n = 1, 2, ... until an
// acquisition is through before its turn came. Whatever the answer: no ticket may be left.
void sweep_cancellation(const std::string& url);

// Each waiting call of each primitive, cancelled at the n-th event as above. Whatever the answer:
// no ticket and no lease may be left but those that were held before.
void sweep_primitives(const std::string& url);
// The same of the once-guard, whose lease may outlive its client.
void sweep_once_guard(const std::string& url);

// The same with asio's cancellation slots, by time: the signal comes later and later.
void sweep_signals(const std::string& url, int rounds);

// That many coroutines on one thread, each of which wants one of the names once.
void contend(const std::string& url, int coroutines, int names);

// Closes a client while that many of its calls wait for a lock.
void close_while_waiting(const std::string& url, int waits);

}  // namespace holdfast::testing
