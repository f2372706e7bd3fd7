// The console's page and files, and /v1/server, as a browser gets them from a server in this
// process. tests/cli/console_test.py has the page in a real browser.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/server/http/console_page.h"
#include "src/server/http/routes.h"
#include "src/server/testing/access_rig.h"

namespace holdfast::server {
namespace {

using nlohmann::json;
using testing::Socket;

class ConsoleTest : public testing::AccessTest {
 protected:
  void open(const std::string& users = "") {
    options_.http = "127.0.0.1:0";
    if (!users.empty()) {
      write_users(users);
      options_.users = users_;
    }
    auto made = ServerAccess::start(options_, {});
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(*std::move(made));
  }
  // The whole answer.
  std::string ask(const std::string& method, const std::string& path,
                  const std::string& headers = "") const {
    const Socket socket(server_->http_address());
    EXPECT_TRUE(socket.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                            "Connection: close\r\n\r\n"));
    std::string all;
    for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
    return all;
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return ask("GET", path, headers);
  }
};

std::string status(const std::string& answer) { return answer.substr(9, 3); }
std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }
json parsed(const std::string& answer) { return json::parse(body(answer), nullptr, false); }

bool has(const std::string& answer, const std::string& text) {
  return answer.find(text) != std::string::npos;
}

TEST_F(ConsoleTest, ServesThePageAndItsFiles) {
  open();
  const std::string page = get("/");
  EXPECT_EQ(status(page), "200");
  EXPECT_TRUE(has(page, "Content-Type: text/html; charset=utf-8\r\n")) << page;
  EXPECT_TRUE(body(page).starts_with("<!doctype html>"));
  ASSERT_GT(console_files().size(), 3U);
  for (const ConsoleFile& file : console_files()) {
    const std::string answer = get("/console/" + std::string(file.name));
    EXPECT_EQ(status(answer), "200") << file.name;
    EXPECT_EQ(body(answer), file.bytes) << file.name;
  }
  EXPECT_TRUE(has(get("/console/console.js"), "Content-Type: text/javascript; charset=utf-8\r\n"));
  EXPECT_TRUE(has(get("/console/console.css"), "Content-Type: text/css; charset=utf-8\r\n"));
  EXPECT_TRUE(has(get("/console/icon.svg"), "Content-Type: image/svg+xml\r\n"));
  for (const char* path : {"/console", "/console/", "/console/nothing.js", "/console/../routes.cc",
                           "/index.html", "//"}) {
    EXPECT_EQ(status(get(path)), "404") << path;
  }
}

TEST_F(ConsoleTest, LetsThePageRunItsOwnFilesOnly) {
  open();
  for (const char* path : {"/", "/console/console.js", "/console/icon.svg"}) {
    const std::string answer = get(path);
    const std::size_t at = answer.find("Content-Security-Policy: ");
    ASSERT_NE(at, std::string::npos);
    const std::string policy = answer.substr(at, answer.find("\r\n", at) - at);
    for (const char* part :
         {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'",
          "base-uri 'none'", "require-trusted-types-for 'script'"}) {
      EXPECT_TRUE(has(policy, part)) << policy;
    }
    EXPECT_FALSE(has(policy, "unsafe")) << policy;
    EXPECT_FALSE(has(policy, "http")) << policy;
    EXPECT_EQ(answer.find("Content-Security-Policy: ", at + 1), std::string::npos);
    EXPECT_TRUE(has(answer, "X-Content-Type-Options: nosniff\r\n"));
    EXPECT_TRUE(has(answer, "Cache-Control: no-store\r\n"));
    EXPECT_TRUE(has(answer, "Referrer-Policy: no-referrer\r\n"));
  }
  for (const ConsoleFile& file : console_files()) {
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "https://", "onclick=", "style="}) {
      EXPECT_EQ(file.bytes.find(word), file.bytes.npos) << file.name << " has " << word;
    }
  }
}

TEST_F(ConsoleTest, PagesAreOnlyRead) {
  open();
  const std::string json_headers =
      "Holdfast-Request: 1\r\nContent-Type: application/json\r\nContent-Length: 0\r\n";
  for (const char* path : {"/", "/console/console.js", "/v1/server"}) {
    const std::string answer = ask("POST", path, json_headers);
    EXPECT_EQ(status(answer), "405") << path;
    EXPECT_TRUE(has(answer, "Allow: GET, HEAD\r\n")) << path;
    EXPECT_EQ(body(ask("HEAD", path)), "") << path;
  }
}

TEST_F(ConsoleTest, TellsTheStateOfTheServer) {
  open();
  const std::string answer = get("/v1/server");
  EXPECT_EQ(status(answer), "200");
  EXPECT_TRUE(has(answer, "Cache-Control: no-store\r\n"));
  const json state = parsed(answer);
  EXPECT_EQ(state["leads"], true);
  EXPECT_EQ(state["leader"], server_->address());
  EXPECT_EQ(state["address"], server_->address());
  EXPECT_EQ(state["journal"], "memory");
  EXPECT_EQ(state["journal_full"], false);
  EXPECT_EQ(state["holders"], 0);
  EXPECT_EQ(state["waiters"], 0);
  EXPECT_EQ(state["shards"], 1);
  EXPECT_GE(state["uptime_ms"], 0);
  EXPECT_TRUE(state["version"].is_string());
}

TEST(ServerStateTest, AServerThatStandsByNamesTheLeader) {
  HttpScene scene;
  scene.address = "192.0.2.1:7420";
  scene.shards.front().leader = "192.0.2.2:7420";
  const json state = json::parse(server_state(scene).body);
  EXPECT_EQ(state["leads"], false);
  EXPECT_EQ(state["leader"], "192.0.2.2:7420");
  EXPECT_EQ(state["address"], "192.0.2.1:7420");
  EXPECT_FALSE(state.contains("holders"));
}

TEST(ServerStateTest, APlaceThatIsNoTextIsStillJson) {
  HttpScene scene;
  scene.greeting.place = "/var/\xff";
  EXPECT_TRUE(json::accept(server_state(scene).body));
}

TEST_F(ConsoleTest, AsksForAUserFirst) {
  open("app @ acquire:mine/*\nlook @ observe:*\n");
  const std::string app = "Authorization: Basic YXBwOnNlY3JldA==\r\n";
  const std::string look = "Authorization: Basic bG9vazpzZWNyZXQ=\r\n";
  for (const char* path : {"/", "/console/console.js", "/v1/server"}) {
    const std::string stranger = get(path);
    EXPECT_EQ(status(stranger), "401") << path;
    EXPECT_TRUE(has(stranger, "WWW-Authenticate: Basic")) << path;
    EXPECT_EQ(status(get(path, look)), "200") << path;
  }
  EXPECT_EQ(status(get("/", app)), "200");
  EXPECT_EQ(status(get("/v1/server", app)), "403");
}

}  // namespace
}  // namespace holdfast::server
