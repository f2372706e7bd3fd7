// Locks as Curator and kazoo keep them, so that both sides exclude each other (recipe= in the URL).
//
// Guarantee: what such a library understands of a contender is as that library writes it. Not
// guaranteed: records, values and listings of all locks; such folders have no place for them.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast::stores::zookeeper {

class Layout;

// The kind of nodes: Holdfast's own, or such as another library makes and understands.
enum class Recipe : std::uint8_t {
  kOwn,
  kCurator,           // InterProcessMutex: "_c_<uuid>-lock-0000000012"
  kCuratorReadWrite,  // InterProcessReadWriteLock: "_c_<uuid>-__READ__0000000012", "__WRIT__"
  kKazoo,             // kazoo's Lock: "<32 hex digits>__lock__0000000012"
};

// For any recipe but kOwn. A lock's folder is CHROOT/<name>.
std::unique_ptr<const Layout> make_recipe(Recipe recipe, const std::string& chroot);

// Whether the name, as it is, can be the path of a folder ("locks/orders").
bool is_path(std::string_view name);

}  // namespace holdfast::stores::zookeeper
