// `holdfast serve` as a process of a test's own.
//
// The program is what HOLDFAST_PROGRAM names, in the environment or when the test was compiled.
//
// Guarantee: it listens on a port of 127.0.0.1, which stays over restarts, keeps its journal in a
// folder of its own, and goes with the test, however that one ends.
//
// Thread-safety: one thread at a time. Blocking: the constructor and start(), until the server
// answers; kPatience at most. Errors: std::runtime_error, with the end of the server's log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {

struct HoldfastOptions {
  bool in_memory = false;
  std::string journal{};  // Empty: SQLite in data(), or in memory.
  std::vector<std::string> arguments{};  // More of the command line.
  std::vector<std::string> environment{};
};

class HoldfastServer {
 public:
  // Why no server can be had here; nothing: it can.
  static std::optional<std::string> unavailable();

  explicit HoldfastServer(HoldfastOptions options = {});
  ~HoldfastServer();
  HoldfastServer(const HoldfastServer&) = delete;
  HoldfastServer& operator=(const HoldfastServer&) = delete;

  std::string url() const { return "holdfast://127.0.0.1:" + std::to_string(port_.number()); }
  std::uint16_t port() const { return port_.number(); }
  pid_t pid() const { return process_->pid(); }
  std::string data() const { return folder_.file("data"); }
  std::string log() const;
  // On a shared journal: whether it leads now, as it says itself.
  bool leads() const;

  bool running() { return process_->running(); }
  void kill9() { process_->kill9(); }
  // Its exit status.
  int terminate() { return process_->terminate(); }
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // After kill9() or terminate().
  void start();

 private:
  const HoldfastOptions options_;
  TempFolder folder_{"holdfast"};
  ReservedPort port_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace holdfast::support
