// The note that a contender that has held leaves for the one that watches it: so that this one need
// not look whether anybody else is left before it.
//
// A waiter's blocking query is one for all keys that begin with the key of the contender before
// it. That one's last transaction removes its key and makes KEY/out, with the number of its
// creation and its token: both are in the one answer. KEY/out is the session's and goes with it; it
// is removed before that when nobody can want it any more.
//
// Not guaranteed: that anything is left, or is found: then the next one looks at the queue, and no
// lock is the later for more than that. KEY/out by itself says nothing of who holds.
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

struct Handoff {
  std::uint64_t order = 0;  // Order of the contender's creation.
  std::uint64_t token = 0;
};
std::string to_text(const Handoff& what);
std::optional<Handoff> parse_hand_on(std::string_view text);  // nullopt: it is none.

inline std::string out_of(const std::string& contender) { return contender + "/out"; }
// The owner of that note; empty: nobody.
inline std::string_view left_by(std::string_view out) {
  return out.ends_with("/out") ? out.substr(0, out.size() - 4) : std::string_view();
}

// Reads the answer to a query for all that begins with that contender's key: whether it stands
// there as it did, and otherwise what it has left.
Watches::Seen judge(const HttpReply& reply, const std::string& contender, std::uint64_t order,
                    std::uint64_t modified);

// The notes that this client has left.
class Handoffs : public std::enable_shared_from_this<Handoffs> {
 public:
  Handoffs(asio::io_context& io, HttpLoop& http) : http_(http), timer_(io) {}

  void made(const std::string& out);
  bool stands(const std::string& out) const { return made_.contains(out); }
  void removed(const std::string& out) { made_.erase(out); }
  // With their session.
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
