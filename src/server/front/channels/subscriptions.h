// The table of channels and the connections that listen to them.
//
// Thread-safety: none. Ownership: a connection leaves all its channels before it goes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace holdfast::server {

class Connection;

class Subscriptions {
 public:
  void join(const std::string& channel, Connection& connection) {
    table_[channel].push_back(&connection);
  }

  // True: nobody listens to the channel any more.
  bool leave(const std::string& channel, const Connection& connection) {
    const auto found = table_.find(channel);
    if (found == table_.end()) return false;
    std::erase(found->second, &connection);
    if (!found->second.empty()) return false;
    table_.erase(found);
    return true;
  }

  bool empty() const { return table_.empty(); }

  // A copy, because whoever is told may leave meanwhile.
  std::vector<Connection*> of(const std::string& channel) const {
    const auto found = table_.find(channel);
    return found == table_.end() ? std::vector<Connection*>() : found->second;
  }

 private:
  std::unordered_map<std::string, std::vector<Connection*>> table_;
};

}  // namespace holdfast::server
