#include "src/stores/failover/url.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/fnv.h"
#include "src/base/random.h"

namespace holdfast::stores::failover {
namespace {

constexpr std::size_t kLongest = 4;

Error bad(std::string what) { return {Errc::kInvalidArgument, "failover URL: " + std::move(what)}; }

// Stores that use the epoch themselves, that are made of others, or whose tokens need not grow.
constexpr std::string_view kRefused[] = {"failover", "hybrid", "redlock", "redlocks", "memcached"};

Result<void> check_link(const port::StoreUrl& url) {
  if (url.scheme.ends_with("+cluster")) {
    return bad("a chain cannot have a " + url.scheme +
               " store: its stamp is on one node, and another one may lose its memory");
  }
  if (std::find(std::begin(kRefused), std::end(kRefused), url.scheme) != std::end(kRefused)) {
    return bad("a chain cannot have a " + url.scheme + " store: its tokens would not fit");
  }
  for (const auto& [key, value] : url.options) {
    if (key == "ns") return bad("write ns= in the outer URL");
    if (key == "recipe") return bad("a chain cannot have stores with recipe=");
  }
  return {};
}

}  // namespace

Result<ChainAddress> parse_chain_url(port::StoreUrl url) {
  if (!url.authority.empty() || !url.path.empty()) {
    return bad("write failover:?chain=URL&chain=URL, without a host or a path");
  }
  ChainAddress address;
  std::string places;
  while (const auto text = url.take("chain")) {
    auto link = port::StoreUrl::parse(*text);
    if (!link) return bad("chain: " + link.error().message());
    if (auto good = check_link(*link); !good) return good.error();
    const std::string place = link->place() + "\n";
    if (("\n" + places).find("\n" + place) != std::string::npos) {
      return bad("the same store stands twice in the chain");
    }
    places += place;
    address.chain.push_back(*std::move(link));
  }
  if (address.chain.size() < 2 || address.chain.size() > kLongest) {
    return bad("chain= stands two to four times: failover:?chain=URL&chain=URL, with %26 for each "
               "'&' inside a URL");
  }
  const auto options = port::UrlOptions::take(url, "failover", kUrlOptions);
  if (!options) return options.error();
  if (auto known = port::reject_unknown_options(url, "failover"); !known) return known.error();
  const std::string name = options->text("name");
  if (!name.empty()) places = std::to_string(address.chain.size()) + " stores of " + name;
  address.identity = base::to_hex(base::fnv1a(places), 0).substr(0, 16);  // It is no secret.
  address.authority = options->time("authority");
  address.patience = options->time("patience");
  address.settled = options->time("settled");
  return address;
}

}  // namespace holdfast::stores::failover
