// A lock service of its own for each test, in this process.
#include <optional>
#include <stdexcept>

#include "holdfast/server.h"
#include "tests/library/fixture.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {
namespace {

class HoldfastPlace final : public Place {
 public:
  HoldfastPlace() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.journal = "sqlite:" + folder_.file("data");
    auto started = Server::start(std::move(options));
    if (!started) throw std::runtime_error(started.error().message());
    server_ = *std::move(started);
  }
  std::string url() const override { return server_->url(); }

 private:
  support::TempFolder folder_{"holdfast-place"};
  std::optional<Server> server_;
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"holdfast"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<HoldfastPlace>(); }

std::string no_place_because() { return {}; }

std::string not_supported_because(const std::string&) { return {}; }

}  // namespace holdfast::testing
