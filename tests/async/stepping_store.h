// A store in front of a store, which counts what passes between it and the core, and calls back at
// a chosen event.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::testing {

// Counts events; calls `act` at number `chosen`, once.
class Steps {
 public:
  Steps(int chosen, std::function<void()> act) : chosen_(chosen), act_(std::move(act)) {}
  void next() {
    if (++count_ == chosen_) act_();
  }
  int count() const { return count_; }

 private:
  const int chosen_;
  const std::function<void()> act_;
  std::atomic<int> count_{0};
};

class SteppingStore final : public port::Store {
 public:
  using Make = std::function<Result<std::unique_ptr<port::Store>>(const port::StoreContext&)>;
  static Result<std::unique_ptr<port::Store>> make(const Make& make,
                                                   const port::StoreContext& context,
                                                   std::shared_ptr<Steps> steps);

  Guarantees guarantees() const override { return store_->guarantees(); }
  void acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) override;
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<std::vector<Result<port::AcquisitionState>>> done) override;
  void release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override;
  void try_acquire_all(std::vector<port::AcquireRequest> requests,
                       port::Done<Grants> done) override;
  void release_all(std::vector<port::AcquisitionRequest> requests,
                   port::Done<std::vector<Result<port::EndStatus>>> done) override;
  void cancel(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override;
  void downgrade(port::AcquisitionRequest request,
                 port::Done<port::AcquisitionState> done) override;
  void inspect(std::string name, base::BootInstant deadline,
               port::Done<std::optional<LockInfo>> done) override;
  void list(std::string prefix, std::size_t limit, base::BootInstant deadline,
            port::Done<std::vector<LockInfo>> done) override;
  void break_lock(port::BreakRequest request, port::Done<bool> done) override;
  void watch(std::string prefix, port::EventSink sink, base::BootInstant deadline,
             port::Done<port::WatchHandle> done) override;
  void probe(base::BootInstant deadline, port::Done<std::vector<Finding>> done) override;
  void set_value(port::AcquisitionRequest holder, std::string value,
                 port::Done<bool> done) override;
  void keep(port::KeepRequest request, port::Done<bool> done) override;
  void get_value(std::string name, base::BootInstant deadline,
                 port::Done<std::string> done) override;
  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return store_->watch_value(std::move(name), std::move(changed));
  }
  void resize(port::AcquisitionRequest request, std::uint32_t capacity,
              port::Done<bool> done) override;
  void close(base::BootInstant deadline) override { store_->close(deadline); }
  void abandon_after_fork() noexcept override { store_->abandon_after_fork(); }

 private:
  class PushRelay;
  SteppingStore(port::Loop& loop, std::unique_ptr<PushRelay> relay,
                std::unique_ptr<port::Store> store, std::shared_ptr<Steps> steps);
  template <typename T>
  port::Done<T> step(port::Done<T> done);

  port::Loop& loop_;
  std::shared_ptr<Steps> steps_;
  std::unique_ptr<PushRelay> relay_;
  std::unique_ptr<port::Store> store_;
};

}  // namespace holdfast::testing
