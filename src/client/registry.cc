#include "src/client/registry.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/errc.h"
#include "holdfast/stores.h"
#include "src/port/store.h"
#include "src/port/store_url.h"
#include "src/stores/registered.h"

#define HOLDFAST_NOTHING(name)

// Each store's factory, by its name.
namespace holdfast::stores {
#define HOLDFAST_DECLARE(name)                                             \
  Result<std::unique_ptr<port::Store>> make_##name##_store(port::StoreUrl, \
                                                           const port::StoreContext&);
HOLDFAST_STORES(HOLDFAST_DECLARE, HOLDFAST_NOTHING)
#undef HOLDFAST_DECLARE
}  // namespace holdfast::stores

namespace holdfast {
namespace {

#define HOLDFAST_KIND(name) stores::name::kManifest,
constexpr StoreKind kKinds[] = {HOLDFAST_STORES(HOLDFAST_KIND, HOLDFAST_KIND)};

#define HOLDFAST_FACTORY(name) &stores::make_##name##_store,
#define HOLDFAST_NO_FACTORY(name) nullptr,
constexpr port::StoreFactory kFactories[] = {
    HOLDFAST_STORES(HOLDFAST_FACTORY, HOLDFAST_NO_FACTORY)};

std::string_view scheme_of(std::string_view url) {
  return url.substr(0, std::min(url.find(':'), url.size()));
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::span<const StoreKind> known_stores() noexcept { return kKinds; }

const StoreKind* store_of_url(std::string_view url) noexcept {
  if (url.find(':') == url.npos) return nullptr;
  for (const StoreKind& kind : kKinds) {
    for (const std::string_view start : kind.url_starts) {
      if (same_letters(scheme_of(start), scheme_of(url))) return &kind;
    }
  }
  return nullptr;
}

namespace client {

Result<port::StoreFactory> find_store(std::string_view scheme) {
  const StoreKind* kind = store_of_url(std::string(scheme) + ":");
  if (kind != nullptr) {
    const auto factory = kFactories[kind - std::begin(kKinds)];
    if (factory != nullptr) return factory;
    return Error(Errc::kUnsupported,
                 "the store '" + std::string(scheme) + "' was left out when Holdfast was built");
  }
  std::string known;
  for (const StoreKind& each : kKinds) {
    for (const std::string_view start : each.url_starts) {
      known += (known.empty() ? "" : ", ") + std::string(scheme_of(start)) + ":";
    }
  }
  return Error(Errc::kInvalidArgument,
               "store URL: there is no store '" + std::string(scheme) + ":'; there is " + known);
}

}  // namespace client
}  // namespace holdfast
