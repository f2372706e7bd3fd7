// A server with users in this process, for tests: all passwords are "secret".
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/server_tools.h"
#include "src/server/testing/plain_client.h"
#include "tests/support/temp_folder.h"

namespace holdfast::server::testing {

// That of "secret".
inline const std::string& hash() {
  static const std::string made = *hash_password("secret");
  return made;
}

class AccessTest : public ::testing::Test {
 protected:
  // `lines`: users without their passwords, which are "secret".
  void write_users(const std::string& lines) const {
    std::ofstream file(users_);
    std::string text = lines;
    for (std::size_t at = 0; (at = text.find('@', at)) != text.npos;) {
      text.replace(at, 1, "password:" + hash());
    }
    file << text;
    ASSERT_EQ(::chmod(users_.c_str(), 0600), 0);
  }
  void start(const std::string& lines, FrontLimits limits = {}, ServiceOptions service = {}) {
    write_users(lines);
    options_.users = users_;
    ServerTuning tuning;
    limits.gate.first_delay = limits.gate.longest_delay = std::chrono::milliseconds(1);
    tuning.front = limits;
    tuning.service = std::move(service);
    auto made = ServerAccess::start(options_, tuning);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(*std::move(made));
  }
  // A plain connection that has logged in and asked for the term.
  std::unique_ptr<Socket> as(const std::string& user) const {
    auto socket = std::make_unique<Socket>(server_->address());
    EXPECT_EQ(socket->ask(request({"AUTH", user, "secret"})), "+OK\r\n");
    EXPECT_TRUE(socket->ask(request({"HF1", "attach", "0"})).starts_with("+HF1 "));
    return socket;
  }
  std::string url(const std::string& user, const std::string& more = "") const {
    std::string text = server_->url();
    text.insert(text.find("//") + 2, user + ":secret@");
    return text + more;
  }
  Result<Client> connect(const std::string& user, const std::string& more = "") const {
    return Client::connect(url(user, more));
  }

  const support::TempFolder folder_;
  const std::string users_ = folder_.file("users");
  ServerOptions options_{.listen = "127.0.0.1:0", .journal = "memory:"};
  std::optional<Server> server_;
};

}  // namespace holdfast::server::testing
