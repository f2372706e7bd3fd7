// Whole commands to a running lock service: of Holdfast's own clients, of lock libraries, and of
// people with redis-cli. Each line of the input is a request, its words between spaces; "%xx" is a
// byte of a word.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/front/reply_splitter.h"
#include "src/server/testing/plain_client.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_session {
namespace {

using server::testing::Socket;

constexpr std::size_t kMostRequests = 32;

int digit(char letter) {
  const auto at = std::string_view("0123456789abcdef").find(letter);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string word_of(std::string_view text) {
  std::string word;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool coded = text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 &&
                       digit(text[at + 2]) >= 0;
    if (coded) {
      word += static_cast<char>(digit(text[at + 1]) * 16 + digit(text[at + 2]));
      at += 2;
    } else {
      word += text[at];
    }
  }
  return word;
}

std::string request_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(word_of(line.substr(0, end)));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words.empty() ? std::string() : server::testing::request(words);
}

// One for all inputs, so locks of one are met by the next.
const std::string& address() {
  static const Server server = server::testing::start();
  static const std::string at = server.address();
  return at;
}

}  // namespace

void run(std::string_view input) {
  Input lines(input);
  std::string wire = server::testing::request({"PING"});
  for (std::size_t asked = 0; !lines.empty() && asked < kMostRequests; ++asked) {
    wire += request_of(lines.line());
  }
  wire += server::testing::request({"QUIT"});
  const Socket client(address());
  demand(client.send(wire), "the server reads what it is sent");
  server::ReplySplitter replies(std::size_t{64} << 20U);
  for (std::string bytes = client.receive(); !bytes.empty(); bytes = client.receive()) {
    demand(bytes != "nothing came", "the server answers, or ends the connection");
    replies.feed(bytes);
    while (true) {
      const auto reply = replies.next();
      demand(reply.has_value(), "what it answers is the Redis protocol");
      if (reply->empty()) break;
    }
  }
  demand(Socket(address()).ask(server::testing::request({"PING"})) == "+PONG\r\n",
         "the others are served");
}

}  // namespace holdfast::fuzz::server_session

HOLDFAST_FUZZ_TARGET(server_session)
