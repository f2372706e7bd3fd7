// The layouts of Curator and kazoo, so that their users and ours exclude each other (recipe= in the
// URL).
//
// Guarantee: the parts of a contender that such a library reads are as it writes them. Not
// guaranteed: records, values and listings of all locks, for which such folders have no place.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast::stores::zookeeper {

class Layout;

// The owner of the node format: Holdfast, or another library.
enum class Recipe : std::uint8_t {
  kOwn,
  kCurator,           // InterProcessMutex: "_c_<uuid>-lock-0000000012"
  kCuratorReadWrite,  // InterProcessReadWriteLock: "_c_<uuid>-__READ__0000000012", "__WRIT__"
  kKazoo,             // kazoo's Lock: "<32 hex digits>__lock__0000000012"
};

// For any recipe except kOwn. A lock's folder is CHROOT/<name>.
std::unique_ptr<const Layout> make_recipe(Recipe recipe, const std::string& chroot);

// Whether the name can be the path of a folder unchanged ("locks/orders").
bool is_path(std::string_view name);

}  // namespace holdfast::stores::zookeeper
