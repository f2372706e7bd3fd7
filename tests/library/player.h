// A lock_player process at the other end of two pipes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class Player {
 public:
  Player(const std::string& url, const std::string& name, std::chrono::milliseconds ttl,
         const std::string& resource) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    std::vector<std::string> words{HOLDFAST_LOCK_PLAYER, url, name, std::to_string(ttl.count()),
                                   resource};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    EXPECT_EQ(line(), "ready");
  }
  ~Player() {
    kill(SIGKILL);
    ::close(to_);
    ::close(from_);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void tell(const std::string& command) {
    const std::string text = command + "\n";
    EXPECT_EQ(::write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string ask(const std::string& command) { return tell(command), line(); }

  // The next line; "(nothing)" when none comes in time.
  std::string line(std::chrono::milliseconds within = kPatience) {
    const auto until = std::chrono::steady_clock::now() + within;
    while (true) {
      const auto end = buffer_.find('\n');
      if (end != std::string::npos) {
        std::string one = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return one;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      pollfd ready{from_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) {
        return "(nothing)";
      }
      char chunk[256];
      const ssize_t got = ::read(from_, chunk, sizeof chunk);
      if (got <= 0) return "(ended)";
      buffer_.append(chunk, static_cast<std::size_t>(got));
    }
  }

  // The token of the grant, which may be told of after having queued.
  Token held(std::chrono::milliseconds within = kPatience) {
    std::string said = line(within);
    if (said.starts_with("queued ")) said = line(within);
    const auto token = said.starts_with("held ") ? Token::parse(said.substr(5)) : std::nullopt;
    EXPECT_TRUE(token) << "it said '" << said << "'";
    return token.value_or(Token{});
  }

  void stop() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  void kill(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string buffer_;
};

}  // namespace holdfast::testing
