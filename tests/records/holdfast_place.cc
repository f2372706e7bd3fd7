// A lock service for each case: with its journal on disk, and with one in memory.
#include "tests/records/place.h"
#include "tests/support/holdfast_server.h"

namespace holdfast::testing {
namespace {

class HoldfastPlace final : public Place {
 public:
  explicit HoldfastPlace(bool in_memory)
      : in_memory_(in_memory), server_({.in_memory = in_memory}) {}

  std::string url(const std::string& query) const override {
    return with_query(server_.url(), query);
  }
  std::string forgets() const override {
    return in_memory_ ? "a restart forgets everything" : std::string();
  }
  bool has_clock() const override { return true; }
  bool has_server() const override { return !in_memory_; }
  void kill_and_start() override {
    server_.kill9();
    server_.start();
  }
  void pause() override { server_.pause(); }
  void resume() override { server_.resume(); }

 private:
  const bool in_memory_;
  support::HoldfastServer server_;
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"holdfast", "holdfast_in_memory"}; }

std::unique_ptr<Place> make_place(const std::string& store) {
  return std::make_unique<HoldfastPlace>(store == "holdfast_in_memory");
}

std::string no_place_because() { return support::HoldfastServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
