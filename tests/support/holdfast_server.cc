#include "tests/support/holdfast_server.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace holdfast::support {
namespace {

#ifdef HOLDFAST_TEST_PROGRAM
constexpr char kProgram[] = HOLDFAST_TEST_PROGRAM;
#else
constexpr char kProgram[] = "holdfast";
#endif

constexpr char kInfo[] = "*1\r\n$4\r\nINFO\r\n*1\r\n$4\r\nQUIT\r\n";

std::string holdfast_program() { return chosen_or("HOLDFAST_PROGRAM", kProgram); }

}  // namespace

std::optional<std::string> HoldfastServer::unavailable() {
  if (find_program(holdfast_program())) return std::nullopt;
  return "no program '" + holdfast_program() + "': build the target holdfast_cli";
}

HoldfastServer::HoldfastServer(HoldfastOptions options) : options_(std::move(options)) {
  if (const auto why = unavailable()) throw std::runtime_error(*why);
  start();
}

HoldfastServer::~HoldfastServer() = default;

std::string HoldfastServer::log() const { return tail_of(folder_.file("log")); }

bool HoldfastServer::leads() const {
  return exchange_on_loopback(port_.number(), kInfo, 1s).find("\r\nleads:1\r") !=
         std::string::npos;
}

void HoldfastServer::start() {
  const std::string own = options_.in_memory ? "memory:" : "sqlite:" + data();
  std::vector<std::string> arguments = {
      holdfast_program(), "serve", "--listen", "127.0.0.1:" + std::to_string(port_.number()),
      "--journal", options_.journal.empty() ? own : options_.journal};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  process_ = std::make_unique<ChildProcess>(
      Command{.arguments = std::move(arguments),
              .environment = options_.environment,
              .output = folder_.file("log")});
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const std::string mine = "process_id:" + std::to_string(process_->pid()) + "\r";
  // Its own pid: another's answer is none.
  while (exchange_on_loopback(port_.number(), kInfo, 1s).find(mine) == std::string::npos) {
    if (!process_->running() || std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("holdfast serve does not start: " + log());
    }
    std::this_thread::sleep_for(2ms);
  }
}

}  // namespace holdfast::support
