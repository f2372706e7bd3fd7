// A store as its URL opens it, with the real clock: what fault tests look through.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "src/base/random.h"
#include "src/port/store_url.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

// `Make`: the store's factory.
template <auto Make>
class UrlSiteOf : public Site {
 public:
  explicit UrlSiteOf(std::string url) : url_(std::move(url)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return Make(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  const std::string url_;
};

inline AcquisitionId fresh() {
  const auto random = base::random_128();
  return {random.high, random.low};
}

inline std::string hex_of(AcquisitionId id) { return base::to_hex(id.high, id.low); }

// Why a store at that URL does not open.
template <auto Make>
std::optional<Error> refusal_of(const std::string& url) {
  TestLoop loop;
  Inbox inbox(loop);
  const auto opened = UrlSiteOf<Make>(url).open({&loop, &inbox, "alice", loop.io()});
  if (opened) return std::nullopt;
  return opened.error();
}

}  // namespace holdfast::testing
