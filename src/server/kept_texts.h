// Small texts that are kept for good, beside the locks: ids have their counters and worker numbers
// in them (src/port/records.h).
//
// Bounded: room_for() says whether one more text, or a longer one, still fits.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "src/server/requests.h"

namespace holdfast::server {

class KeptTexts {
 public:
  // Each start of a server reads all of them.
  static constexpr std::size_t kMost = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  const KeptText* find(const std::string& key) const {
    const auto found = texts_.find(key);
    return found == texts_.end() ? nullptr : &found->second;
  }
  bool has_room_for(const std::string& key, std::size_t bytes) const {
    const KeptText* before = find(key);
    if (before == nullptr && texts_.size() >= kMost) return false;
    return bytes_ - (before == nullptr ? 0 : before->text.size()) + bytes <= kMostBytes;
  }
  void set(const std::string& key, KeptText text) {
    KeptText& place = texts_[key];
    bytes_ += text.text.size();
    bytes_ -= place.text.size();
    place = std::move(text);
  }
  bool empty() const { return texts_.empty(); }
  // The first one by its key, taken out.
  std::optional<std::pair<std::string, KeptText>> take_first() {
    if (texts_.empty()) return std::nullopt;
    auto node = texts_.extract(texts_.begin());
    bytes_ -= node.mapped().text.size();
    return std::pair(std::move(node.key()), std::move(node.mapped()));
  }

 private:
  std::map<std::string, KeptText> texts_;
  std::size_t bytes_ = 0;
};

}  // namespace holdfast::server
