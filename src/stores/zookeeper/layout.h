// The paths and the contents of a lock's nodes. The class itself is Holdfast's own layout, which
// backend.h draws. With recipe= a subclass for another library's layout replaces it (recipes.h).
//
// Thread-safety: safe, because it never changes. Ownership: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/contend/backend.h"
#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

inline constexpr char kValueNode[] = "v";  // In a lock's folder, beside its contenders.

class Layout {
 public:
  explicit Layout(std::string base) : base_(std::move(base)) {}
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  virtual ~Layout() = default;

  virtual std::string folder(const std::string& lock) const;
  // The nodes to create, in this order, when a folder's parent is missing.
  virtual std::vector<std::pair<std::string, NodeKind>> parents(const std::string& folder) const;

  // Everything in a contender's node name before the number that ZooKeeper appends.
  virtual std::string prefix(const contend::Key& key) const { return prefix_of(key); }
  // nullopt if the node is not a contender.
  virtual std::optional<contend::QueueEntry> parse(std::string_view node) const;

  virtual contend::Details details(const std::string& text, const std::string& path) const;
  virtual contend::Listing listing(const Reply& reply, const std::string& path) const;
  virtual contend::Unknown unknown(const Reply& reply, const std::string& path) const;
  // The record and the number of its last write, from the folder's data.
  virtual Result<std::pair<contend::Record, std::uint64_t>> record(const Reply& reply,
                                                                   const std::string& path) const;

  // Reasons for a refusal. Holdfast's own layout refuses nothing.
  virtual std::optional<Error> refuse_key(const contend::Key&) const { return {}; }
  virtual std::optional<Error> refuse_name(const std::string&) const { return {}; }
  virtual std::optional<Error> refuse_record() const { return {}; }
  virtual std::optional<Error> refuse_list() const { return {}; }
  bool keeps_record() const { return !refuse_record(); }
  virtual void limit(Guarantees&) const {}

  std::string node(const contend::QueueEntry& place) const;

 private:
  const std::string base_;
};

// The number of the last write to a record. We create folders empty, but a later version may create
// a folder with its record.
std::uint64_t record_rev(const NodeStat& stat);

// The layout that the address asks for.
std::unique_ptr<const Layout> make_layout(const ZookeeperAddress& address);

}  // namespace holdfast::stores::zookeeper
