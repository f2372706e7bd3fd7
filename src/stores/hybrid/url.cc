#include "src/stores/hybrid/url.h"

#include <string>
#include <string_view>
#include <utility>

namespace holdfast::stores::hybrid {
namespace {

Error bad(std::string what) { return {Errc::kInvalidArgument, "hybrid URL: " + std::move(what)}; }

Result<port::StoreUrl> take_inner(port::StoreUrl& url, std::string_view option) {
  const auto text = url.take(option);
  if (!text || text->empty()) {
    return bad(std::string(option) + "= is missing: write hybrid:?filter=URL&arbiter=URL, with "
                                     "%26 for each '&' inside a URL");
  }
  auto inner = port::StoreUrl::parse(*text);
  if (!inner) return bad(std::string(option) + ": " + inner.error().message());
  if (inner->scheme == "hybrid") return bad(std::string(option) + ": it cannot be a hybrid itself");
  if (inner->take("ns")) return bad(std::string(option) + ": write ns= in the outer URL");
  return inner;
}

}  // namespace

Result<HybridAddress> parse_hybrid_url(port::StoreUrl url) {
  if (!url.authority.empty() || !url.path.empty()) {
    return bad("write hybrid:?filter=URL&arbiter=URL, without a host or a path");
  }
  auto filter = take_inner(url, "filter");
  if (!filter) return filter.error();
  auto arbiter = take_inner(url, "arbiter");
  if (!arbiter) return arbiter.error();
  // Their locks would be each other's.
  if (filter->place() == arbiter->place()) return bad("filter and arbiter are the same store");
  const auto options = port::UrlOptions::take(url, "hybrid", kUrlOptions);
  if (!options) return options.error();
  if (auto known = port::reject_unknown_options(url, "hybrid"); !known) return known.error();
  return HybridAddress{*std::move(filter),       *std::move(arbiter),
                       options->time("patience"), options->time("recheck"),
                       options->time("filter_timeout"), options->time("filter_lease")};
}

}  // namespace holdfast::stores::hybrid
