// The note that a former holder leaves for the contender that watches it, so that this contender
// need not read whether others are left before it.
//
// A waiter's blocking query covers all keys that begin with the key of the contender before it. The
// last transaction of that contender removes its key and makes KEY/out, with the number of its
// creation and its token, so one answer shows both. KEY/out belongs to the session and ends with
// it. It is removed earlier, when nobody can need it any more.
//
// Not guaranteed: that a note is left or found. Then the next contender reads the queue, and only
// that read delays the handoff. KEY/out by itself does not say who holds.
// Thread-safety: the loop only. Errors: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/port/boot_timer.h"
#include "src/stores/consul/transport/http.h"
#include "src/stores/consul/transport/messages.h"
#include "src/stores/consul/watches.h"

namespace holdfast::stores::consul {

struct HandoffNote {
  std::uint64_t order = 0;  // Order of the contender's creation.
  std::uint64_t token = 0;
};
std::string to_text(const HandoffNote& what);
std::optional<HandoffNote> parse_handoff(std::string_view text);  // nullopt if it is no note.

inline std::string out_of(const std::string& contender) { return contender + "/out"; }
// The contender that left this note; empty: the key is no note.
inline std::string_view left_by(std::string_view out) {
  return out.ends_with("/out") ? out.substr(0, out.size() - 4) : std::string_view();
}

// Reads the answer to a query for all keys that begin with that contender's key: whether the
// contender is unchanged, and otherwise the note that it has left.
Watches::Seen judge(const HttpReply& reply, const std::string& contender, std::uint64_t order,
                    std::uint64_t modified);

// The notes that this client has left.
class Handoffs : public std::enable_shared_from_this<Handoffs> {
 public:
  Handoffs(asio::io_context& io, HttpLoop& http) : http_(http), timer_(io) {}

  void made(const std::string& out);
  bool stands(const std::string& out) const { return made_.contains(out); }
  void removed(const std::string& out) { made_.erase(out); }
  // The notes end with their session.
  void clear() { made_.clear(); }
  void stop();
  void abandon() noexcept { timer_.abandon(); }

 private:
  void tick();

  HttpLoop& http_;
  port::BootTimer timer_;
  bool ticking_ = false;
  bool stopped_ = false;
  std::map<std::string, std::chrono::steady_clock::time_point> made_;
};

}  // namespace holdfast::stores::consul
