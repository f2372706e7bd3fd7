// The scene of docs/guide/fencing.md, with a stock behind any fence.
#pragma once

#include <functional>
#include <string>

#include "holdfast/lease.h"
#include "holdfast/result.h"

namespace demo {

// Stores `items` if the lease's token is not an old one, in one step of the resource.
using GuardedWrite = std::function<holdfast::Result<void>(int items, const holdfast::Lease& lease)>;

// A holder loses its lease without noticing, the next one writes 9, and the first comes back to
// write 10. 0: that was refused, and 9 is what is there.
int play_scene(const GuardedWrite& write, const std::function<int()>& read);

// Each fence: where its server is to be found, as the server's client wants it. The exit status.
int play_memory();
int play_sqlite(const std::string& path);
int play_postgres(const std::string& connection);
int play_mysql(const std::string& socket);
int play_redis(const std::string& port);
int play_http();

// Ends the program with a message.
[[noreturn]] void fail(const std::string& what);

}  // namespace demo
