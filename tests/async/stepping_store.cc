#include "tests/async/stepping_store.h"

namespace holdfast::testing {

// Hears the store's pushes before the core does.
class SteppingStore::PushRelay final : public port::Listener {
 public:
  PushRelay(port::Loop& loop, port::Listener& next, std::shared_ptr<Steps> steps)
      : loop_(loop), next_(next), steps_(std::move(steps)) {}
  void on_push(const port::Push& push) override {
    steps_->next();
    loop_.post([this, push] {
      next_.on_push(push);
      steps_->next();
    });
  }
  void on_pushes_missed() override { next_.on_pushes_missed(); }
  void on_pushes_begin() override { next_.on_pushes_begin(); }

 private:
  port::Loop& loop_;
  port::Listener& next_;
  const std::shared_ptr<Steps> steps_;
};

SteppingStore::SteppingStore(port::Loop& loop, std::unique_ptr<PushRelay> relay,
                             std::unique_ptr<port::Store> store, std::shared_ptr<Steps> steps)
    : loop_(loop), steps_(std::move(steps)), relay_(std::move(relay)), store_(std::move(store)) {}

Result<std::unique_ptr<port::Store>> SteppingStore::make(const Make& make,
                                                         const port::StoreContext& context,
                                                         std::shared_ptr<Steps> steps) {
  auto relay = std::make_unique<PushRelay>(*context.loop, *context.listener, steps);
  port::StoreContext inner = context;
  inner.listener = relay.get();
  auto store = make(inner);
  if (!store) return store.error();
  return std::unique_ptr<port::Store>(
      new SteppingStore(*context.loop, std::move(relay), *std::move(store), std::move(steps)));
}

// One event before the core hears the answer, one after. In between the loop does what the first
// event led to: a cancel then crosses the answer.
template <typename T>
port::Done<T> SteppingStore::step(port::Done<T> done) {
  steps_->next();
  return [loop = &loop_, steps = steps_, done = std::move(done)](Result<T> result) {
    steps->next();
    loop->post([steps, done, result = std::move(result)] {
      done(result);
      steps->next();
    });
  };
}

void SteppingStore::acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) {
  store_->acquire(std::move(request), step(std::move(done)));
}
void SteppingStore::renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
                          port::Done<std::vector<Result<port::AcquisitionState>>> done) {
  store_->renew(std::move(items), deadline, step(std::move(done)));
}
void SteppingStore::release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) {
  store_->release(std::move(request), std::move(done));
}
void SteppingStore::try_acquire_all(std::vector<port::AcquireRequest> requests,
                                    port::Done<Grants> done) {
  store_->try_acquire_all(std::move(requests), step(std::move(done)));
}
void SteppingStore::release_all(std::vector<port::AcquisitionRequest> requests,
                                port::Done<std::vector<Result<port::EndStatus>>> done) {
  store_->release_all(std::move(requests), step(std::move(done)));
}
void SteppingStore::cancel(port::AcquisitionRequest request, port::Done<port::EndStatus> done) {
  store_->cancel(std::move(request), step(std::move(done)));
}
void SteppingStore::downgrade(port::AcquisitionRequest request,
                              port::Done<port::AcquisitionState> done) {
  store_->downgrade(std::move(request), step(std::move(done)));
}
void SteppingStore::inspect(std::string name, base::BootInstant deadline,
                            port::Done<std::optional<LockInfo>> done) {
  store_->inspect(std::move(name), deadline, step(std::move(done)));
}
void SteppingStore::list(std::string prefix, std::size_t limit, base::BootInstant deadline,
                         port::Done<std::vector<LockInfo>> done) {
  store_->list(std::move(prefix), limit, deadline, std::move(done));
}
void SteppingStore::break_lock(port::BreakRequest request, port::Done<bool> done) {
  store_->break_lock(std::move(request), std::move(done));
}
void SteppingStore::watch(std::string prefix, port::EventSink sink, base::BootInstant deadline,
                          port::Done<port::WatchHandle> done) {
  store_->watch(std::move(prefix), std::move(sink), deadline, std::move(done));
}
void SteppingStore::probe(base::BootInstant deadline, port::Done<std::vector<Finding>> done) {
  store_->probe(deadline, std::move(done));
}
void SteppingStore::set_value(port::AcquisitionRequest holder, std::string value,
                              port::Done<bool> done) {
  store_->set_value(std::move(holder), std::move(value), step(std::move(done)));
}
void SteppingStore::keep(port::KeepRequest request, port::Done<bool> done) {
  store_->keep(std::move(request), step(std::move(done)));
}
void SteppingStore::get_value(std::string name, base::BootInstant deadline,
                              port::Done<std::string> done) {
  store_->get_value(std::move(name), deadline, step(std::move(done)));
}
void SteppingStore::resize(port::AcquisitionRequest request, std::uint32_t capacity,
                           port::Done<bool> done) {
  store_->resize(std::move(request), capacity, step(std::move(done)));
}

}  // namespace holdfast::testing
