#include "src/stores/zookeeper/layout.h"

#include "src/stores/zookeeper/recipes.h"

namespace holdfast::stores::zookeeper {

std::uint64_t record_rev(const NodeStat& stat) {
  return stat.version == 0 && stat.length == 0 ? 0 : stat.modified;
}

std::string Layout::folder(const std::string& lock) const {
  return base_ + "/locks/" + encode_name(lock);
}

// The first session created it, but somebody may have removed it since.
std::vector<std::pair<std::string, NodeKind>> Layout::parents(const std::string&) const {
  return {{base_ + "/locks", NodeKind::kPersistent}};
}

std::optional<contend::QueueEntry> Layout::parse(std::string_view node) const {
  return parse_node(node);
}

std::string Layout::node(const contend::QueueEntry& place) const {
  return prefix(place.key) + number_text(place.order);
}

contend::Details Layout::details(const std::string& text, const std::string& path) const {
  return contend::read_details(text, path);
}

contend::Listing Layout::listing(const Reply& reply, const std::string&) const {
  contend::Listing listing;
  for (const std::string& name : reply.names) {
    if (auto place = parse(name)) listing.queue.push_back(*std::move(place));
  }
  sort_queue(listing.queue);
  listing.record_rev = record_rev(reply.stat);
  return listing;
}

contend::Unknown Layout::unknown(const Reply& reply, const std::string& path) const {
  contend::Unknown unknown;
  const std::string inside = path + "/";
  for (const std::string& name : reply.names) {
    if (name != kValueNode && !parse(name)) unknown.add(inside + name);
  }
  return unknown;
}

Result<std::pair<contend::Record, std::uint64_t>> Layout::record(const Reply& reply,
                                                                 const std::string& path) const {
  auto record = contend::read_record(reply.text, path);
  if (!record) return record.error();
  return std::pair(*std::move(record), record_rev(reply.stat));
}

std::unique_ptr<const Layout> make_layout(const ZookeeperAddress& address) {
  if (address.recipe == Recipe::kOwn) return std::make_unique<Layout>(address.base);
  return make_recipe(address.recipe, address.chroot);
}

}  // namespace holdfast::stores::zookeeper
