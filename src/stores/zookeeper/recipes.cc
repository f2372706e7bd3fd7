#include "src/stores/zookeeper/recipes.h"

#include <algorithm>
#include <utility>

#include "src/stores/zookeeper/layout.h"

namespace holdfast::stores::zookeeper {
namespace {

using contend::Key;
using contend::QueueEntry;
using contend::Shape;

constexpr std::size_t kHexDigits = 32;
constexpr char kKazooWord[] = "__lock__";
constexpr char kCuratorLock[] = "lock-";
constexpr char kCuratorRead[] = "__READ__";
constexpr char kCuratorWrite[] = "__WRIT__";

Error unsupported(std::string what) {
  return {Errc::kUnsupported, "zookeeper: " + std::move(what)};
}

// Parses "_c_", a UUID in its usual form, "-" and a word, as the key of an exclusive or shared
// ticket.
std::optional<Key> parse_curator(std::string_view text, std::string_view exclusive,
                                 std::string_view shared) {
  constexpr std::size_t kUuid = 36;
  if (!text.starts_with("_c_") || text.size() < 3 + kUuid + 1 || text[3 + kUuid] != '-') {
    return std::nullopt;
  }
  const std::string_view word = text.substr(3 + kUuid + 1);
  const bool reads = !shared.empty() && word == shared;
  if (!reads && word != exclusive) return std::nullopt;
  std::string id(text.substr(3, kUuid));
  std::erase(id, '-');
  return contend::parse_key(id + (reads ? "-s" : "-x"));
}

std::optional<Key> parse_kazoo(std::string_view text) {
  if (!text.ends_with(kKazooWord) || text.size() < kHexDigits) return std::nullopt;
  return contend::parse_key(std::string(text.substr(0, text.size() - sizeof kKazooWord + 1)) +
                            "-x");
}

// Whether the node is a contender of any library: ZooKeeper has appended its number.
bool is_contender(std::string_view node) {
  constexpr std::size_t kDigits = 10;
  return node.size() >= kDigits &&
         node.find_first_not_of("0123456789", node.size() - kDigits) == std::string_view::npos;
}

class RecipeLayout final : public Layout {
 public:
  RecipeLayout(Recipe recipe, const std::string& chroot)
      : Layout(chroot), recipe_(recipe), chroot_(chroot) {}

  std::string folder(const std::string& lock) const override { return chroot_ + "/" + lock; }

  // Creates the parents from the top, as the other library does.
  std::vector<std::pair<std::string, NodeKind>> parents(const std::string& folder) const override {
    std::vector<std::pair<std::string, NodeKind>> parents;
    for (std::size_t at = chroot_.size();;) {
      at = folder.find('/', at + 1);
      if (at == std::string::npos) return parents;
      parents.emplace_back(folder.substr(0, at), NodeKind::kContainer);
    }
  }

  std::string prefix(const Key& key) const override {
    std::string id = contend::to_text(key).substr(0, kHexDigits);
    if (recipe_ == Recipe::kKazoo) return id + kKazooWord;
    for (const std::size_t at : {8U, 13U, 18U, 23U}) id.insert(at, 1, '-');
    const bool shared = key.shape == Shape::kShared;
    return "_c_" + id + "-" +
           (recipe_ == Recipe::kCurator ? kCuratorLock
            : shared                    ? kCuratorRead
                                        : kCuratorWrite);
  }

  std::optional<QueueEntry> parse(std::string_view node) const override {
    const auto numbered = split_number(node, /*dash=*/recipe_ == Recipe::kCurator);
    if (!numbered) return std::nullopt;
    const auto key = recipe_ == Recipe::kKazoo ? parse_kazoo(numbered->first)
                     : recipe_ == Recipe::kCurator
                         ? parse_curator(numbered->first, kCuratorLock, {})
                         : parse_curator(numbered->first, kCuratorWrite, kCuratorRead);
    if (!key) return std::nullopt;
    QueueEntry place;
    place.key = *key;
    place.order = numbered->second;
    return place;
  }

  // Another library's text in a node is shown as the owner.
  contend::Details details(const std::string& text, const std::string&) const override {
    if (auto details = contend::parse_details(text)) return *std::move(details);
    contend::Details foreign;
    machine::OwnerInfo owner;
    owner.owner = text.substr(0, 200);
    foreign.owner = std::make_shared<const machine::OwnerInfo>(std::move(owner));
    return foreign;
  }

  contend::Listing listing(const Reply& reply, const std::string& path) const override {
    contend::Listing listing = Layout::listing(reply, path);
    listing.record_rev = 0;
    for (const std::string& name : reply.names) {
      if (!is_contender(name) || parse(name)) continue;
      listing.refusal = unsupported(
          path + "/" + name +
          " is a contender that this recipe= does not know: the two would not exclude each "
          "other. Name the recipe of those who use the lock, or use a lock of another name");
    }
    return listing;
  }

  // Reports nothing: other nodes may be folders of locks below this one.
  contend::Unknown unknown(const Reply&, const std::string&) const override { return {}; }
  Result<std::pair<contend::Record, std::uint64_t>> record(const Reply&,
                                                           const std::string&) const override {
    return std::pair<contend::Record, std::uint64_t>();
  }

  // Only the recipe of the read-write lock has shared tickets.
  std::optional<Error> refuse_key(const Key& key) const override {
    const bool shared = key.shape == Shape::kShared && recipe_ == Recipe::kCuratorReadWrite;
    if (shared || key.shape == Shape::kExclusive) return {};
    return refuse_record();
  }
  std::optional<Error> refuse_name(const std::string& lock) const override {
    if (is_path(lock)) return {};
    return Error(Errc::kInvalidArgument,
                 "zookeeper: with recipe= a name is a path below the chroot, like locks/orders; "
                 "none of its parts is empty, '.' or '..'");
  }
  std::optional<Error> refuse_record() const override {
    return unsupported("the other library's locks, which recipe= asks for, have no such thing");
  }
  std::optional<Error> refuse_list() const override {
    return unsupported(
        "with recipe= locks cannot be listed, because other folders may be among theirs: 'holdfast "
        "inspect NAME' shows one");
  }
  void limit(Guarantees& guarantees) const override {
    guarantees.shared = recipe_ == Recipe::kCuratorReadWrite;
    guarantees.permits = guarantees.upgrade = guarantees.values = guarantees.list = false;
  }

 private:
  const Recipe recipe_;
  const std::string chroot_;
};

}  // namespace

std::unique_ptr<const Layout> make_recipe(Recipe recipe, const std::string& chroot) {
  return std::make_unique<RecipeLayout>(recipe, chroot);
}

bool is_path(std::string_view name) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    if (at == 0 && (part == "hf1" || part == "zookeeper")) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace holdfast::stores::zookeeper
