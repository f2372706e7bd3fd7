#include "tests/simulation/folder_server.h"

#include <algorithm>

namespace holdfast::simulation {
namespace {

// Older moments nobody is shown.
constexpr std::size_t kMoments = 12;

}  // namespace

// --- Sessions.

std::uint64_t FolderServer::open_session() {
  const std::uint64_t session = ++last_session_;
  sessions_[session] = {};
  keep_session(session);
  return session;
}

bool FolderServer::keep_session(std::uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  found->second = world_.now + kSession;
  world_.at(found->second, [this, session] { expire(session); });
  return true;
}

void FolderServer::expire(std::uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second > world_.now) return;
  end_session(session);
}

void FolderServer::end_session(std::uint64_t session) {
  if (sessions_.erase(session) == 0) return;
  std::vector<std::string> locks;
  for (const auto& [lock, moments] : folders_) locks.push_back(lock);
  for (const std::string& lock : locks) {
    Folder folder = begin(lock);
    std::vector<std::pair<std::uint64_t, bool>> gone;
    for (auto at = folder.nodes.begin(); at != folder.nodes.end();) {
      if (at->second.session != session) {
        ++at;
        continue;
      }
      on_node(lock, at->second, false);
      gone.emplace_back(at->first, true);
      at = folder.nodes.erase(at);
    }
    if (!gone.empty()) commit(lock, std::move(folder), gone);
  }
}

// --- Writes.

Folder FolderServer::begin(const std::string& lock) {
  ++revision_;
  const auto found = folders_.find(lock);
  return found == folders_.end() ? Folder() : *found->second.back().second;
}

void FolderServer::commit(const std::string& lock, Folder folder,
                          const std::vector<std::pair<std::uint64_t, bool>>& changed) {
  auto& moments = folders_[lock];
  if (moments.empty()) moments.emplace_back(0, std::make_shared<const Folder>());
  moments.emplace_back(revision_, std::make_shared<const Folder>(std::move(folder)));
  if (moments.size() > kMoments) moments.pop_front();
  for (const auto& [order, comes_or_goes] : changed) {
    const Step step{revision_, order, comes_or_goes};
    steps_[lock].push_back(step);
    auto& watches = watches_[lock];
    for (auto at = watches.begin(); at != watches.end();) {
      const auto watch = at++;
      if (!concerns(step, watch->order)) continue;
      const auto fire = std::move(watch->fire);
      watches.erase(watch);
      fire(revision_);
    }
  }
}

std::uint64_t FolderServer::enter(const std::string& lock, const contend::Key& key,
                                  const contend::Details& details, std::uint64_t session) {
  if (folders_.contains(lock)) {
    for (const auto& [order, node] : now(lock).nodes) {
      if (node.key == key) return order;
    }
  }
  Folder folder = begin(lock);
  const Node node{key, details, revision_, revision_, session};
  folder.nodes.emplace(revision_, node);
  const std::uint64_t order = revision_;
  commit(lock, std::move(folder), {{order, true}});
  on_node(lock, node, true);
  return order;
}

std::optional<contend::Read> FolderServer::write(const std::string& lock, std::uint64_t order,
                                                 const contend::Details& details) {
  Folder folder = begin(lock);
  const auto found = folder.nodes.find(order);
  if (found == folder.nodes.end()) return std::nullopt;
  found->second.details = details;
  found->second.modified = revision_;
  const contend::Read read{details, order, revision_};
  commit(lock, std::move(folder), {{order, false}});
  return read;
}

bool FolderServer::remove(const std::string& lock, std::uint64_t order,
                          const std::optional<machine::Token>& held_with) {
  Folder folder = begin(lock);
  const auto found = folder.nodes.find(order);
  if (found == folder.nodes.end()) return false;
  on_node(lock, found->second, false);
  folder.nodes.erase(found);
  if (held_with && tells_hand_on) left_.emplace(order, *held_with);
  commit(lock, std::move(folder), {{order, true}});
  return true;
}

std::optional<machine::Token> FolderServer::left_by(std::uint64_t order) const {
  const auto found = left_.find(order);
  return found == left_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> FolderServer::apply(const contend::Change& change) {
  Folder folder = begin(change.lock);
  if (change.record_rev && *change.record_rev != folder.record_rev) return std::nullopt;
  if (change.present && !folder.nodes.contains(change.present->order)) return std::nullopt;
  std::vector<std::pair<std::uint64_t, bool>> gone;
  for (const contend::QueueEntry& place : change.removed) {
    if (!folder.nodes.contains(place.order)) return std::nullopt;
    gone.emplace_back(place.order, true);
  }
  for (const auto& [order, comes_or_goes] : gone) {
    on_node(change.lock, folder.nodes.at(order), false);
    folder.nodes.erase(order);
  }
  if (change.record) {
    folder.record = *change.record;
    folder.record_rev = revision_;
  }
  const std::uint64_t step = revision_;
  commit(change.lock, std::move(folder), gone);
  return step;
}

// --- Reads.

std::shared_ptr<const Folder> FolderServer::read(const std::string& lock, bool latest,
                                                 std::uint64_t& seen) {
  const auto found = folders_.find(lock);
  if (found == folders_.end()) return std::make_shared<const Folder>();
  const auto& moments = found->second;
  std::size_t first = moments.size() - 1;
  if (!latest) {
    while (first > 0 && moments[first].first > seen) --first;
  }
  const std::size_t at = first + world_.dice.below(moments.size() - first);
  const bool newest = at + 1 == moments.size();
  seen = std::max(seen, newest ? revision_ : moments[at].first);
  return moments[at].second;
}

void FolderServer::watch(const std::string& lock, std::optional<std::uint64_t> order,
                         std::uint64_t seen, std::function<void(std::uint64_t)> fire) {
  for (const Step& step : steps_[lock]) {
    if (step.revision > seen && concerns(step, order)) return fire(revision_);
  }
  watches_[lock].push_back({order, std::move(fire)});
}

contend::Listing FolderServer::listing_of(const Folder& folder, bool full) const {
  contend::Listing listing;
  listing.in_full = full;
  listing.record_rev = folder.record_rev;
  if (full || folder.record_rev == 0) listing.record = folder.record;
  for (const auto& [order, node] : folder.nodes) {
    contend::QueueEntry place{node.key, order, {}, 0, 0};
    if (full || (head_in_listings && listing.queue.empty())) {
      place.details = node.details;
      place.created = node.created;
      place.modified = node.modified;
    }
    listing.queue.push_back(std::move(place));
  }
  return listing;
}

}  // namespace holdfast::simulation
