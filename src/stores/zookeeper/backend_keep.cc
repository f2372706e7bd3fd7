// Kept contenders: persistent nodes. ZooKeeper does not end them. A waiter compares a node's
// modification time with the time of a write of its own; both are of the leader's clock.
#include <algorithm>
#include <chrono>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/backend_impl.h"
#include "src/stores/zookeeper/transport/errors.h"

namespace holdfast::stores::zookeeper {
namespace {

using contend::Kept;
using std::chrono::milliseconds;

// Times of the leader's clock.
machine::Duration written_at(const NodeStat& stat) { return milliseconds(stat.changed_ms); }

}  // namespace

void ZookeeperBackend::keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
                            Done<std::optional<Read>> done) {
  auto op = make<std::optional<Read>>(deadline, std::move(done));
  auto keeping = std::make_shared<Keeping>();
  keeping->epoch = epoch;
  keeping->renews = is_kept(what.details);
  Kept kept = *what.details.kept;
  kept.lease = kOwnNode;
  what.details.kept = std::make_shared<const Kept>(std::move(kept));
  keeping->what = std::move(what);
  in_session(op, epoch, [this, op, keeping] { read_to_keep(op, keeping); });
}

// The library can only require a version, but we expect a zxid: read the version first.
void ZookeeperBackend::read_to_keep(const Op<std::optional<Read>>& op, const KeepingPtr& keeping) {
  const std::string above = folder(keeping->what.lock);
  const std::string path = node(keeping->what.lock, keeping->what.place);
  auto answered = [this, op, keeping, path](const Reply& reply) {
    if (reply.rc == ZNONODE) return op->complete(std::optional<Read>());
    if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "reading " + path));
    const std::uint64_t seen = keeping->what.place.modified;
    if (reply.stat.modified != (seen != 0 ? seen : reply.stat.created)) {
      return op->complete(std::optional<Read>());
    }
    keeping->version = reply.stat.version;
    still_in(op, keeping->epoch, [this, op, keeping] { write_kept(op, keeping); });
  };
  link_for(above).get(path, nullptr, {op, std::move(answered)});
}

// The node that ends with its session goes, and in the same step one that does not takes its name,
// and so its place.
void ZookeeperBackend::write_kept(const Op<std::optional<Read>>& op, const KeepingPtr& keeping) {
  const contend::Keep& what = keeping->what;
  const std::string path = node(what.lock, what.place);
  const std::string text = contend::to_text(what.details);
  std::vector<Step> steps;
  if (keeping->renews) {
    steps.push_back({Step::Kind::kSet, path, text, keeping->version});
  } else {
    steps.push_back({Step::Kind::kRemove, path, {}, keeping->version});
    steps.push_back({Step::Kind::kCreate, path, text});
  }
  if (what.value) {
    steps.push_back({keeping->makes_value ? Step::Kind::kCreate : Step::Kind::kSet,
                     folder(what.lock) + "/" + kValueNode,
                     std::string(kValueFormat) + *what.value});
  }
  // The library tells the zxid of the step only for a node that was written.
  steps.push_back({Step::Kind::kSet, session_->own_node()});
  op->sent_to_write = true;
  auto answered = [this, op, keeping](const Reply& reply) {
    const contend::Keep& kept = keeping->what;
    if (reply.rc == ZOK) {
      return op->complete(
          std::optional(Read{kept.details, kept.details.kept->created, reply.stat.modified}));
    }
    const bool other = (reply.rc == ZNONODE && !keeping->makes_value) || reply.rc == ZNODEEXISTS;
    if (kept.value && other && --keeping->attempts > 0) {
      keeping->makes_value = !keeping->makes_value;
      return still_in(op, keeping->epoch, [this, op, keeping] { write_kept(op, keeping); });
    }
    const bool changed = reply.rc == ZNONODE || reply.rc == ZBADVERSION || reply.rc == ZNODEEXISTS;
    if (changed) return op->complete(std::optional<Read>());
    op->complete(error_of(reply.rc, true, "keeping '" + kept.lock + "'"));
  };
  link_for(folder(what.lock)).multi(std::move(steps), {op, std::move(answered)});
}

void ZookeeperBackend::drop(std::string lock, QueueEntry place, BootInstant deadline,
                            Done<bool> done) {
  auto op = make<bool>(deadline, std::move(done));
  session_->when_ready(op, [this, op, above = folder(lock), path = node(lock, place),
                            seen = place.modified] {
    auto answered = [this, op, above, path, seen](const Reply& reply) {
      if (reply.rc != ZOK && reply.rc != ZNONODE) {
        return op->complete(error_of(reply.rc, false, "reading " + path));
      }
      if (reply.rc == ZNONODE || reply.stat.modified != seen) return op->complete(false);
      session_->when_ready(op, [this, op, above, path, version = reply.stat.version] {
        op->sent_to_write = true;
        auto removed = [op](const Reply& gone) { op->complete(gone.rc == ZOK); };
        link_for(above).multi({{Step::Kind::kRemove, path, {}, version}}, {op, std::move(removed)});
      });
    };
    link_for(above).get(path, nullptr, {op, std::move(answered)});
  });
}

// --- How much of its time is left.

void ZookeeperBackend::complete_read(const Op<std::optional<Read>>& op, Read read,
                                     const NodeStat& stat) {
  if (!is_kept(read.details)) return op->complete(std::optional(std::move(read)));
  read.created = read.details.kept->created;
  read.details.left = written_at(stat) + read.details.kept->ttl;
  ask_time(op, [op, read = std::move(read)](machine::Duration now) mutable {
    *read.details.left -= now;
    op->complete(std::optional(std::move(read)));
  });
}

void ZookeeperBackend::note_kept(QueueEntry& place, const NodeStat& stat) {
  if (!is_kept(*place.details)) return;
  place.created = place.details->kept->created;
  place.details->left = written_at(stat) + place.details->kept->ttl;
}

void ZookeeperBackend::complete_listing(const Op<Listing>& op, Listing listing) {
  const auto kept = [](const QueueEntry& place) { return place.details->left.has_value(); };
  if (std::none_of(listing.queue.begin(), listing.queue.end(), kept)) {
    return op->complete(std::move(listing));
  }
  ask_time(op, [op, listing = std::move(listing)](machine::Duration now) mutable {
    for (QueueEntry& place : listing.queue) {
      if (place.details->left) *place.details->left -= now;
    }
    op->complete(std::move(listing));
  });
}

// By a write, which the leader dates.
template <typename T, typename Then>
void ZookeeperBackend::ask_time(const Op<T>& op, Then then) {
  session_->when_ready(op, [this, op, then = std::move(then)]() mutable {
    auto written = [op, then = std::move(then)](const Reply& reply) mutable {
      if (reply.rc != ZOK) return op->complete(error_of(reply.rc, false, "asking for the time"));
      then(written_at(reply.stat));
    };
    session_->link().set(session_->own_node(), "", -1,
                         {op, [written = std::make_shared<decltype(written)>(std::move(written))](
                                  const Reply& reply) { (*written)(reply); }});
  });
}

}  // namespace holdfast::stores::zookeeper
