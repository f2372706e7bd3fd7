// Questions to a store and orders that no lease of this client depends on: looking at locks,
// breaking them, values, the capacity of a semaphore.
//
// Guarantee: each call is answered once, at the latest by the request's deadline. After close() and
// in a forked child the answer is kClosed, and nothing is sent. close() waits for calls under way.
// Thread-safety: all calls from any thread. Calls without a Done block until the answer.
// Ownership: a part of the core, which lives until its calls are answered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/session/names.h"

namespace holdfast::session {

class Core;

class Administration {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;  // As Core::Done.

  explicit Administration(Core& core) : core_(core) {}

  Result<std::optional<LockInfo>> inspect(std::string name);
  void inspect(std::string name, Done<std::optional<LockInfo>> done);
  Result<bool> check(std::string name, Token token);
  void check(std::string name, Token token, Done<bool> done);
  Result<std::vector<LockInfo>> list(std::string prefix, std::size_t limit);
  void list(std::string prefix, std::size_t limit, Done<std::vector<LockInfo>> done);
  Result<Watch> watch(std::string prefix, std::function<void(const LockEvent&)> callback);
  void watch(std::string prefix, std::function<void(const LockEvent&)> callback, Done<Watch> done);
  Result<void> break_lock(std::string name, port::Token token, std::string reason);
  void break_lock(std::string name, port::Token token, std::string reason, Done<void> done);
  Result<DoctorReport> doctor();
  void doctor(Done<DoctorReport> done);

  void get_value(const std::string& name, Done<std::string> done);
  void get_value(const InnerName& name, Done<std::string> done);
  // Store::watch_value(); An inner name by its text. Nothing is told after close().
  port::WatchHandle watch_value(const std::string& name, port::Task changed);
  // Changes N of a permits lock. true: it is in force; false: it will be when permits come back.
  void resize(std::string name, std::uint32_t capacity, Done<bool> done);

 private:
  void get_stored_value(std::string stored_name, Done<std::string> done);

  Core& core_;
};

}  // namespace holdfast::session
