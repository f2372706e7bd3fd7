// A process that holds a lock and does what it is told, one line at a time.
//
//   lock_player URL NAME TTL_MS RESOURCE
//
//   acquire          -> [queued AHEAD], then held TOKEN | error CODE
//   held             -> yes | no
//   write            -> written | refused: the resource file takes a token at least as high as any
//   wait-lost        -> lost CODE
//   release          -> released | error CODE
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "holdfast/holdfast.h"

namespace {

void say(const std::string& line) {
  std::cout << line << std::endl;  // Flushed: somebody waits for it.
}

void say_error(const holdfast::Error& error) {
  std::cerr << error.message() << std::endl;
  say("error " + std::string(holdfast::errc_name(error.code())));
}

// The thing that the lock protects. It checks tokens itself, in one step under its own flock.
bool guarded_write(const std::string& path, holdfast::Token token) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::flock(file, LOCK_EX) != 0) return false;
  std::string seen(64, '\0');
  const ssize_t got = ::pread(file, seen.data(), seen.size(), 0);
  seen.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto highest = holdfast::Token::parse(seen);
  const bool accepted = !highest || token >= *highest;
  if (accepted) {
    const std::string text = token.to_string();
    if (::ftruncate(file, 0) != 0 ||
        ::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      std::abort();
    }
  }
  ::close(file);
  return accepted;
}

void wait_lost(const holdfast::Lease& lease) {
  std::atomic<bool> lost{false};
  const std::stop_callback note(lease.lost(), [&] {
    lost = true;
    lost.notify_all();
  });
  lost.wait(false);
  const auto why = lease.loss();
  say("lost " + std::string(why ? holdfast::errc_name(why->code()) : "?"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string name = argv[2];
  const std::chrono::milliseconds ttl(std::stoi(argv[3]));
  const std::string resource = argv[4];
  auto client = holdfast::Client::connect(argv[1]);
  if (!client) {
    say_error(client.error());
    return 1;
  }
  say("ready");
  std::optional<holdfast::Lease> lease;
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "acquire") {
      auto got = client->mutex(name).acquire({.ttl = ttl, .on_queued = [](std::uint32_t ahead) {
                                                say("queued " + std::to_string(ahead));
                                              }});
      if (got) {
        lease = *std::move(got);
        say("held " + lease->token().to_string());
      } else {
        say_error(got.error());
      }
    } else if (!lease) {
      say("error: acquire first");
    } else if (command == "held") {
      say(lease->held() ? "yes" : "no");
    } else if (command == "write") {
      say(guarded_write(resource, lease->token()) ? "written" : "refused");
    } else if (command == "wait-lost") {
      wait_lost(*lease);
    } else if (command == "release") {
      const auto released = lease->release();
      if (released) {
        say("released");
      } else {
        say_error(released.error());
      }
    }
  }
  return 0;
}
