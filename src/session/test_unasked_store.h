// For tests: a store of which nothing is asked but what the test overrides.
//
// Errors: whatever else is asked of it aborts.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/port/store.h"

namespace holdfast::session {

class UnaskedStore : public port::Store {
 public:
  Guarantees guarantees() const override { return {}; }
  void acquire(port::AcquireRequest, port::Done<port::AcquisitionState>) override { std::abort(); }
  void renew(std::vector<port::RenewItem>, base::BootInstant,
             port::Done<std::vector<Result<port::AcquisitionState>>>) override {
    std::abort();
  }
  void release(port::AcquisitionRequest, port::Done<port::EndStatus>) override { std::abort(); }
  void cancel(port::AcquisitionRequest, port::Done<port::EndStatus>) override { std::abort(); }
  void downgrade(port::AcquisitionRequest, port::Done<port::AcquisitionState>) override {
    std::abort();
  }
  void inspect(std::string, base::BootInstant, port::Done<std::optional<LockInfo>>) override {
    std::abort();
  }
  void list(std::string, std::size_t, base::BootInstant,
            port::Done<std::vector<LockInfo>>) override {
    std::abort();
  }
  void break_lock(port::BreakRequest, port::Done<bool>) override { std::abort(); }
  void probe(base::BootInstant, port::Done<std::vector<Finding>>) override { std::abort(); }
  void set_value(port::AcquisitionRequest, std::string, port::Done<bool>) override { std::abort(); }
  void get_value(std::string, base::BootInstant, port::Done<std::string>) override { std::abort(); }
  void resize(port::AcquisitionRequest, std::uint32_t, port::Done<bool>) override { std::abort(); }
  void close(base::BootInstant) override {}
  void abandon_after_fork() noexcept override {}
};

}  // namespace holdfast::session
