#include "src/server/marks.h"

#include <algorithm>
#include <utility>

namespace holdfast::server {

bool Marks::is_old(const std::string& client, const std::string& lock, std::uint64_t issue) const {
  const Client* const known = find(client);
  if (known == nullptr) return false;
  const auto mark = known->by_lock.find(lock);
  const std::uint64_t seen = mark == known->by_lock.end() ? 0 : mark->second;
  return issue <= std::max(seen, known->floor);
}

const Marks::Client* Marks::find(const std::string& client) const {
  if (last_ == nullptr || last_->first != client) {
    const auto found = known_.find(client);
    if (found == known_.end()) return nullptr;
    last_ = &*found;
  }
  return &last_->second;
}

bool Marks::raise(const std::string& client, const std::string& lock, std::uint64_t issue) {
  if (is_old(client, lock, issue)) return false;
  Client& one = see(client);
  const auto [mark, is_new] = one.by_lock.try_emplace(lock, issue);
  if (is_new) {
    one.by_issue.emplace(issue, &mark->first);
  } else {
    auto node = one.by_issue.extract({std::exchange(mark->second, issue), &mark->first});
    node.value().first = issue;
    one.by_issue.insert(one.by_issue.end(), std::move(node));
  }
  while (one.by_issue.size() > locks_per_client_) {
    const auto [number, name] = *one.by_issue.begin();
    one.floor = std::max(one.floor, number);
    one.by_issue.erase(one.by_issue.begin());
    one.by_lock.erase(one.by_lock.find(*name));
  }
  return true;
}

void Marks::raise_floor(const std::string& client, std::uint64_t issue) {
  Client& one = see(client);
  one.floor = std::max(one.floor, issue);
}

Marks::Client& Marks::see(const std::string& client) {
  const auto [known, is_new] = known_.try_emplace(client);
  Client& one = known->second;
  if (!is_new) {
    by_age_.splice(by_age_.end(), by_age_, one.age);
    return one;
  }
  one.age = by_age_.insert(by_age_.end(), client);
  if (known_.size() > clients_) {
    last_ = nullptr;
    known_.erase(by_age_.front());
    by_age_.pop_front();
  }
  return one;
}

void Marks::visit(const EachFloor& each_floor, const EachMark& each_mark) const {
  for (const std::string& client : by_age_) {
    const Client& one = known_.at(client);
    each_floor(client, one.floor);
    for (const auto& [issue, lock] : one.by_issue) each_mark(client, *lock, issue);
  }
}

}  // namespace holdfast::server
