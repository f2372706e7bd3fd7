// For tests: a store of which nothing is asked but what the test overrides.
//
// Errors: whatever else is asked of it aborts.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/port/store.h"

namespace holdfast::port {

class UnaskedStore : public Store {
 public:
  Guarantees guarantees() const override { return {}; }
  void acquire(AcquireRequest, Done<AcquisitionState>) override { std::abort(); }
  void renew(std::vector<RenewItem>, base::BootInstant,
             Done<std::vector<Result<AcquisitionState>>>) override {
    std::abort();
  }
  void release(AcquisitionRequest, Done<EndStatus>) override { std::abort(); }
  void cancel(AcquisitionRequest, Done<EndStatus>) override { std::abort(); }
  void downgrade(AcquisitionRequest, Done<AcquisitionState>) override { std::abort(); }
  void inspect(std::string, base::BootInstant, Done<std::optional<LockInfo>>) override {
    std::abort();
  }
  void list(std::string, std::size_t, base::BootInstant, Done<std::vector<LockInfo>>) override {
    std::abort();
  }
  void break_lock(BreakRequest, Done<bool>) override { std::abort(); }
  void probe(base::BootInstant, Done<std::vector<Finding>>) override { std::abort(); }
  void set_value(AcquisitionRequest, std::string, Done<bool>) override { std::abort(); }
  void get_value(std::string, base::BootInstant, Done<std::string>) override { std::abort(); }
  void resize(AcquisitionRequest, std::uint32_t, Done<bool>) override { std::abort(); }
  void close(base::BootInstant) override {}
  void abandon_after_fork() noexcept override {}
};

}  // namespace holdfast::port
