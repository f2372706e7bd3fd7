// A place on the one server of a program, with a name of its own for each case.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/records/place.h"

namespace holdfast::testing {

// Never twice the same in one process: for a prefix, a schema, a chroot.
inline std::string next_name() {
  static int names = 0;
  return "test" + std::to_string(++names);
}

struct ServerTraits {
  bool has_clock = false;
  std::string forgets{};
  std::function<void()> await_restart{};  // Where start() returns before the server serves.
};

// `Server`: one of tests/support, which outlives the place.
template <typename Server>
class ServerPlace final : public Place {
 public:
  ServerPlace(Server& server, std::string url, ServerTraits traits)
      : server_(server), url_(std::move(url)), traits_(std::move(traits)) {}

  std::string url(const std::string& query) const override { return with_query(url_, query); }
  std::string forgets() const override { return traits_.forgets; }
  bool has_clock() const override { return traits_.has_clock; }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    server_.kill9();
    server_.start();
    if (traits_.await_restart) traits_.await_restart();
  }
  void pause() override { server_.pause(); }
  void resume() override { server_.resume(); }

 private:
  Server& server_;
  const std::string url_;
  const ServerTraits traits_;
};

template <typename Server>
std::unique_ptr<Place> place_on(Server& server, std::string url, ServerTraits traits = {}) {
  return std::make_unique<ServerPlace<Server>>(server, std::move(url), std::move(traits));
}

}  // namespace holdfast::testing
