// The folders that only this client has used for a while, and those that it has just made. There a
// contender is admitted by its number alone, without a listing.
//
// ZooKeeper numbers a folder's contenders by its count of creations. A client that was alone as
// number n, has removed that contender, and now gets n + 1, is first: nobody entered in between,
// and everybody before has left. This holds only for the same folder, because the server may remove
// an empty folder, and a new one counts from the beginning. So an entry depends on a watch of the
// folder, whose event arrives before the answers to all later requests. An entry ends with the
// connection.
//
//   State    seen alone as n   n removed   created as n + 1   anything else
//   unsure   standing          -           -                  -
//   standing -                 free        -                  unsure
//   free     -                 -           standing           unsure
//
// Number 0 in a folder that this client's request before has made is the first contender that it
// ever had. Names of locks are often new or often not, so a folder is made ahead where the last
// name that was new to this client had none.
//
// Thread-safety: the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "src/contend/backend.h"

namespace holdfast::stores::zookeeper {

class SoleUserCache {
 public:
  SoleUserCache() = default;
  SoleUserCache(const SoleUserCache&) = delete;
  SoleUserCache& operator=(const SoleUserCache&) = delete;

  // Call it before every other function. `connection` grows when a connection is made or lost. A
  // new session has no watches.
  void set_connection(std::uint64_t epoch, std::uint64_t connection) {
    if (epoch != epoch_) folders_.clear();
    if (connection != connection_) {
      for (auto& [lock, folder] : folders_) folder.state = State::kUnsure;
    }
    epoch_ = epoch;
    connection_ = connection;
  }

  // Returns the waker with which to watch the folder before the next creation in it; nullptr if it
  // is watched already or not worth it. A folder is worth it from its second use on.
  contend::WakerPtr wants_watch(const std::string& lock) {
    if (folders_.contains(lock) || folders_.size() >= kMost) return nullptr;
    if (seen_.size() >= kMost) seen_.clear();
    if (seen_.insert(lock).second) return nullptr;
    seen_.erase(lock);
    Folder& folder = folders_[lock];
    folder.waker = std::make_shared<contend::Waker>();
    // The caller keeps this waker alive while it erases itself from the map.
    folder.waker->wake = [this, lock] { folders_.erase(lock); };
    return folder.waker;
  }
  // The watch could not be set, because the folder does not exist.
  void no_watch(const std::string& lock, const contend::WakerPtr& waker) {
    const auto found = folders_.find(lock);
    if (found != folders_.end() && found->second.waker == waker) folders_.erase(found);
  }

  // Whether to make the lock's folder ahead of the creation in it. Call it before wants_watch().
  bool expects_no_folder(const std::string& lock) const {
    return names_are_new_ && !folders_.contains(lock) && !seen_.contains(lock);
  }
  // The first use of a lock has found this.
  void found_folder(bool found) { names_are_new_ = !found; }

  // Whether the next contender may be created without a listing.
  bool is_free(const std::string& lock) const {
    const auto found = folders_.find(lock);
    return found != folders_.end() && found->second.state == State::kFree;
  }
  // Returns true if the contender has been alone since its creation.
  bool created(const std::string& lock, std::uint32_t number) {
    const auto found = folders_.find(lock);
    if (found == folders_.end()) return false;
    Folder& folder = found->second;
    const bool alone = folder.state == State::kFree && number == folder.number + 1;
    folder.state = alone ? State::kStanding : State::kUnsure;
    folder.number = number;
    return alone;
  }
  void seen_alone(const std::string& lock, std::uint32_t number) {
    const auto found = folders_.find(lock);
    if (found != folders_.end()) found->second = {found->second.waker, State::kStanding, number};
  }
  void removed(const std::string& lock, std::uint32_t number) {
    const auto found = folders_.find(lock);
    if (found == folders_.end() || found->second.state != State::kStanding) return;
    if (found->second.number == number) found->second.state = State::kFree;
  }

 private:
  static constexpr std::size_t kMost = 4096;

  enum class State : std::uint8_t { kUnsure, kStanding, kFree };
  struct Folder {
    contend::WakerPtr waker{};
    State state = State::kUnsure;
    std::uint32_t number = 0;
  };

  std::uint64_t epoch_ = 0;
  std::uint64_t connection_ = 0;
  bool names_are_new_ = false;
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::string, Folder> folders_;
};

}  // namespace holdfast::stores::zookeeper
