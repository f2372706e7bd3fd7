// A server with an HTTP port in this process, and what it answers, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/server/testing/access_rig.h"
#include "src/server/testing/plain_client.h"

namespace holdfast::server::testing {

using nlohmann::json;

struct Got {
  int status = 0;
  std::string head;
  std::string body;
  json parsed() const { return json::parse(body, nullptr, false); }
};

// The next whole answer. Status 0: the connection has ended.
inline Got receive(const Socket& socket) {
  std::string all;
  std::size_t end = 0;
  std::size_t length = 0;
  while (true) {
    end = all.find("\r\n\r\n");
    if (end != std::string::npos) {
      const std::size_t at = all.find("Content-Length: ");
      length = at < end ? std::stoul(all.substr(at + 16)) : 0;
      if (all.size() >= end + 4 + length) break;
    }
    const std::string more = socket.receive();
    if (more.empty()) return {};
    all += more;
  }
  return {std::stoi(all.substr(9, 3)), all.substr(0, end), all.substr(end + 4, length)};
}

class HttpTest : public AccessTest {
 protected:
  void open(HttpLimits limits = {}, const std::string& users = "") {
    options_.http = "127.0.0.1:0";
    if (!users.empty()) {
      write_users(users);
      options_.users = users_;
    }
    ServerTuning tuning;
    tuning.http = limits;
    tuning.http.gate.first_delay = tuning.http.gate.longest_delay = std::chrono::milliseconds(1);
    auto made = ServerAccess::start(options_, tuning);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(*std::move(made));
  }
  std::string address() const { return server_->http_address(); }
  Got ask(const std::string& bytes) const {
    const Socket socket(address());
    socket.send(bytes);
    return receive(socket);
  }
  Got get(const std::string& path, const std::string& headers = "") const {
    return ask("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }
  static std::string posted(const std::string& path, const std::string& body,
                            const std::string& headers = "") {
    return "POST " + path +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Holdfast-Request: 1\r\n" +
           headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  void await_queue(const std::string& lock, std::size_t waiters) const {
    const auto began = base::BootClock::now();
    while (get("/v1/locks/" + lock).parsed()["queue"].size() != waiters) {
      ASSERT_LT(base::BootClock::now(), began + std::chrono::seconds(20)) << waiters;
    }
  }
  Got post(const std::string& path, const json& body, const std::string& headers = "") const {
    return ask(posted(path, body.dump(), headers));
  }
};

}  // namespace holdfast::server::testing
