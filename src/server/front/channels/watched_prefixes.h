// The beginnings of names that somebody watches: the channel "hf1:w:<beginning>" tells each change
// of such a lock.
//
// A name is looked up once for each length that is watched, so many watches cost a change little.
//
// Thread-safety: none. Ownership: copies.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace holdfast::server {

inline constexpr std::string_view kWatchChannel = "hf1:w:";

class WatchedPrefixes {
 public:
  // As often as remove().
  void add(const std::string& prefix) {
    ++lengths_[prefix.size()];
    ++watches_[prefix];
  }
  void remove(const std::string& prefix) {
    if (const auto found = watches_.find(prefix); --found->second == 0) watches_.erase(found);
    if (const auto found = lengths_.find(prefix.size()); --found->second == 0)
      lengths_.erase(found);
  }

  bool empty() const { return watches_.empty(); }

  // A copy, because whoever is told may leave meanwhile.
  std::vector<std::string> of(std::string_view name) const {
    std::vector<std::string> found;
    for (const auto& [length, count] : lengths_) {
      if (length > name.size()) break;
      std::string prefix(name.substr(0, length));
      if (watches_.contains(prefix)) found.push_back(std::move(prefix));
    }
    return found;
  }

 private:
  std::map<std::size_t, std::size_t> lengths_;
  std::unordered_map<std::string, std::size_t> watches_;
};

}  // namespace holdfast::server
