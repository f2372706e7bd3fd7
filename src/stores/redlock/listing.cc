#include "src/stores/redlock/listing.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace holdfast::stores::redlock {
namespace {

// For SCAN: what is special in a pattern is escaped.
std::string pattern_of(std::string_view prefix) {
  std::string pattern = Nodes::key_of("");
  for (const char c : prefix) {
    if (std::string_view("*?[]^\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + '*';
}

class NodeScan : public std::enable_shared_from_this<NodeScan> {
 public:
  NodeScan(Nodes& nodes, Inspect inspect, std::string prefix, std::size_t limit,
          base::BootInstant deadline, port::Done<std::vector<LockInfo>> done)
      : nodes_(nodes),
        inspect_(std::move(inspect)),
        pattern_(pattern_of(prefix)),
        limit_(limit),
        deadline_(deadline),
        done_(std::move(done)),
        left_(nodes.size()) {}

  void scan(std::size_t node, const std::string& cursor) {
    nodes_.read(node, {"SCAN", cursor, "MATCH", pattern_, "COUNT", "1000"}, deadline_,
                [self = shared_from_this(), node](const Result<redis::Reply>& reply) {
                  self->on_scan(node, reply);
                });
  }

 private:
  void on_scan(std::size_t node, const Result<redis::Reply>& reply) {
    if (reply && reply->items.size() == 2) {
      const std::size_t prefix = Nodes::key_of("").size();
      for (const auto& key : reply->items[1].items) names_.insert(key.text.substr(prefix));
      if (reply->items[0].text != "0") return scan(node, reply->items[0].text);
      ++complete_;
    } else if (!reply) {
      why_ = reply.error().message();
    }
    if (--left_ > 0) return;
    if (complete_ < nodes_.majority()) {
      return done_(Error(Errc::kUnavailable,
                         nodes_.address().display() + ": too few nodes answer: " + why_));
    }
    at_ = names_.begin();
    // So many at a time, so that a long list does not fill the connections.
    looking_ = 128;
    for (std::size_t i = looking_; i > 0; --i) look();
  }

  void look() {
    if (at_ == names_.end() || failure_ || found_.size() >= limit_) {
      if (--looking_ > 0) return;
      if (failure_) return done_(*failure_);
      std::sort(found_.begin(), found_.end(),
                [](const LockInfo& a, const LockInfo& b) { return a.name < b.name; });
      const auto most = static_cast<std::ptrdiff_t>(std::min(limit_, found_.size()));
      found_.erase(found_.begin() + most, found_.end());
      return done_(std::move(found_));
    }
    inspect_(*at_++, [self = shared_from_this()](Result<std::optional<LockInfo>> lock) {
      if (!lock) self->failure_ = lock.error();
      const bool in_use = lock && *lock && !((*lock)->holders.empty() && (*lock)->waiters.empty());
      if (in_use) self->found_.push_back(**std::move(lock));
      self->look();
    });
  }

  Nodes& nodes_;
  const Inspect inspect_;
  const std::string pattern_;
  const std::size_t limit_;
  const base::BootInstant deadline_;
  const port::Done<std::vector<LockInfo>> done_;
  std::size_t left_;
  std::size_t complete_ = 0;
  std::string why_;
  std::set<std::string> names_;
  std::set<std::string>::const_iterator at_;
  std::size_t looking_ = 0;
  std::vector<LockInfo> found_;
  std::optional<Error> failure_;
};

}  // namespace

void list_locks(Nodes& nodes, Inspect inspect, std::string prefix, std::size_t limit,
                base::BootInstant deadline, port::Done<std::vector<LockInfo>> done) {
  const auto listing = std::make_shared<NodeScan>(nodes, std::move(inspect), std::move(prefix),
                                                 limit, deadline, std::move(done));
  for (std::size_t node = 0; node < nodes.size(); ++node) listing->scan(node, "0");
}

}  // namespace holdfast::stores::redlock
