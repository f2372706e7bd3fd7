// The URL of a store, of whatever kind.

#include "src/port/store_url.h"

#include "tests/fuzz/target.h"

namespace holdfast::fuzz::store_url {

void run(std::string_view input) {
  const auto url = port::StoreUrl::parse(input);
  if (!url) {
    demand(url.error().code() == Errc::kInvalidArgument, "a URL is refused as an invalid argument");
    demand(url.error().message().starts_with("store URL: "), "the error says what it is about");
    return;
  }
  demand(input.size() <= 4096, "a URL has an end");
  demand(!url->scheme.empty(), "a store has a scheme");
  const auto whole = [](std::string_view part) { return part.find('\0') == part.npos; };
  demand(whole(url->authority) && whole(url->path), "no NUL, where a file's name would end");
  for (const auto& [key, value] : url->options) {
    demand(!key.empty() && whole(key) && whole(value), "an option has a key, and no NUL");
    auto copy = *url;
    demand(copy.take(key).has_value(), "an option can be taken");
  }
  // The shown form of a URL is again a URL of the same place.
  const std::string shown = url->redacted();
  if (shown.ends_with(":///***") || shown.ends_with("//***")) return;
  const auto again = port::StoreUrl::parse(shown);
  demand(again.has_value(), "what is shown of a URL is a URL: " + shown);
  demand(again->scheme == url->scheme && again->path == url->path, "of the same place");
  demand(again->options.size() == url->options.size(), "with the same options");
}

}  // namespace holdfast::fuzz::store_url

HOLDFAST_FUZZ_TARGET(store_url)
