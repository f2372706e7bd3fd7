#include "src/stores/zookeeper/replies.h"

#include <memory>
#include <utility>

namespace holdfast::stores::zookeeper {

using contend::Details;
using contend::Listing;

namespace {

Error foreign_contender(const std::string& node) {
  return {Errc::kUnsupported,
          "zookeeper: " + node +
              " is a contender that this recipe= does not know: the two would not exclude each "
              "other. Name the recipe of those who use the lock, or use a lock of another name"};
}

}  // namespace

std::uint64_t record_rev(const NodeStat& stat) {
  return stat.version == 0 && stat.length == 0 ? 0 : stat.modified;
}

// In the folder of another library nothing is ours but our own contenders. Other nodes may be
// folders of locks below it.
Listing listing_from(const Reply& reply, const std::string& path, Recipe recipe) {
  Listing listing;
  const std::string folder = path + "/";
  for (const std::string& name : reply.names) {
    if (auto place = parse_node(name, recipe)) {
      listing.queue.push_back(*std::move(place));
    } else if (recipe != Recipe::kOwn && is_contender(name)) {
      listing.refusal = foreign_contender(folder + name);
    }
  }
  sort_queue(listing.queue);
  if (recipe == Recipe::kOwn) listing.record_rev = record_rev(reply.stat);
  return listing;
}

contend::Unknown unknown_in(const Reply& reply, const std::string& path, Recipe recipe) {
  contend::Unknown unknown;
  if (recipe != Recipe::kOwn) return unknown;
  const std::string inside = path + "/";
  for (const std::string& name : reply.names) {
    if (name != kValueNode && !parse_node(name, recipe)) unknown.add(inside + name);
  }
  return unknown;
}

// The text that another library writes into its nodes is shown as the owner.
Details details_from(const std::string& text, const std::string& path, Recipe recipe) {
  if (recipe == Recipe::kOwn) return contend::read_details(text, path);
  if (auto details = contend::parse_details(text)) return *std::move(details);
  Details foreign;
  machine::OwnerInfo owner;
  owner.owner = text.substr(0, 200);
  foreign.owner = std::make_shared<const machine::OwnerInfo>(std::move(owner));
  return foreign;
}

}  // namespace holdfast::stores::zookeeper
