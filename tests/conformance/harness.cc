#include "tests/conformance/harness.h"

#include <atomic>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace holdfast::testing {

TestLoop::TestLoop()
    : io_(std::make_unique<asio::io_context>(1)),
      work_(std::make_shared<asio::executor_work_guard<asio::io_context::executor_type>>(
          asio::make_work_guard(*io_))),
      thread_([this] { io_->run(); }) {}

TestLoop::~TestLoop() {
  asio::post(*io_, [this] { work_.reset(); });
  thread_.join();
}

void TestLoop::post(port::Task task) { asio::post(*io_, std::move(task)); }

std::shared_ptr<void> TestLoop::hold_up() {
  auto promise = std::make_shared<std::promise<void>>();
  auto reached = std::make_shared<std::promise<void>>();
  post([reached, go_on = promise->get_future().share()] {
    reached->set_value();
    go_on.wait();
  });
  reached->get_future().wait();
  return {promise.get(), [promise](void*) { promise->set_value(); }};
}

void Inbox::on_push(const Push& push) {
  EXPECT_TRUE(loop_.on_loop()) << "a push came on another thread than the loop";
  {
    const std::lock_guard lock(mutex_);
    pushes_[push.id].push_back(push);
  }
  condition_.notify_all();
}

std::optional<Push> Inbox::next(const AcquisitionId& id, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  auto& queue = pushes_[id];
  if (!condition_.wait_for(lock, wait, [&] { return !queue.empty(); })) return std::nullopt;
  Push push = queue.front();
  queue.pop_front();
  return push;
}

std::size_t Inbox::count(const AcquisitionId& id) {
  const std::lock_guard lock(mutex_);
  return pushes_[id].size();
}

base::BootInstant soon() { return base::BootClock::now() + kPatience; }

Request::Request(std::string lock, AcquisitionId acquisition, Mode wanted) {
  name = std::move(lock);
  id = acquisition;
  mode = wanted;
  ttl = kTtl;
  waiter_ttl = kWaiterTtl;
  deadline = soon();
}

Client::Client(Site& site, std::string owner) : owner_(std::move(owner)) {
  auto opened = site.open({&loop_, &inbox_, owner_, loop_.io()});
  if (!opened) {
    ADD_FAILURE() << "the store does not open: " << opened.error().message();
    std::abort();
  }
  store_ = *std::move(opened);
}

Client::~Client() { close(); }

void Client::close(std::chrono::milliseconds limit) {
  if (std::exchange(closed_, true)) return;
  store_->close(base::BootClock::now() + limit);
}

// A completion that may be called once, on the loop, after the call that asked for it has returned.
template <typename T>
std::pair<port::Done<T>, std::future<Result<T>>> Client::expect_one() {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto calls = std::make_shared<std::atomic<int>>(0);
  auto answer = promise->get_future();
  port::Done<T> done = [this, promise, calls](Result<T> result) {
    EXPECT_TRUE(loop_.on_loop()) << "a completion came on another thread than the loop";
    const int before = calls->fetch_add(1);
    EXPECT_EQ(before, 0) << "a completion came twice";
    if (before == 0) promise->set_value(std::move(result));
  };
  return {std::move(done), std::move(answer)};
}

template <typename T>
Result<T> Client::wait_for(std::future<Result<T>> answer) {
  if (answer.wait_for(kPatience) != std::future_status::ready) {
    ADD_FAILURE() << "no completion came";
    std::abort();  // The store would call back into what is gone.
  }
  return answer.get();
}

std::uint64_t Client::issue_of(AcquisitionId id) {
  return issues_.try_emplace(id, issues_.size() + 1).first->second;
}

// Fills in what a caller leaves out.
void Client::complete(Request& request) {
  if (request.issue == 0) request.issue = issue_of(request.id);
  if (!request.owner) {
    machine::OwnerInfo owner;
    owner.owner = owner_;
    owner.host = "here";
    owner.pid = 42;
    owner.program = "conformance";
    owner.reason = "because";
    owner.trace_id = "00-4bf92f35-01";
    owner.since_unix_ms = 1'700'000'000'000;
    request.owner = std::make_shared<const machine::OwnerInfo>(owner);
  }
}

std::vector<port::AcquireRequest> Client::completed(std::vector<Request> requests) {
  std::vector<port::AcquireRequest> made;
  for (Request& request : requests) {
    complete(request);
    made.push_back(std::move(request));
  }
  return made;
}

Result<port::Store::Grants> Client::acquire_all(std::vector<Request> requests) {
  auto [done, answer] = expect_one<port::Store::Grants>();
  store_->try_acquire_all(completed(std::move(requests)), std::move(done));
  return wait_for(std::move(answer));
}

std::optional<Result<port::Store::Grants>> Client::acquire_all_inline(
    std::vector<Request> requests) {
  const auto made = completed(std::move(requests));
  if (auto done = store_->try_acquire_all_inline(made)) return done;
  static_cast<void>(inspect(made.front().name));  // Comes back when its turn came.
  return store_->try_acquire_all_inline(made);
}

Result<std::vector<Result<EndStatus>>> Client::release_all(
    std::vector<std::pair<std::string, AcquisitionId>> tickets) {
  std::vector<port::AcquisitionRequest> requests;
  for (const auto& [name, id] : tickets) requests.push_back({name, id, soon(), issue_of(id)});
  auto [done, answer] = expect_one<std::vector<Result<EndStatus>>>();
  store_->release_all(std::move(requests), std::move(done));
  return wait_for(std::move(answer));
}

std::future<Result<AcquisitionState>> Client::start_acquire(Request request) {
  complete(request);
  auto [done, answer] = expect_one<AcquisitionState>();
  store_->acquire(std::move(request), std::move(done));
  return std::move(answer);
}

Result<AcquisitionState> Client::acquire(Request request) {
  return wait_for(start_acquire(std::move(request)));
}

std::optional<Result<AcquisitionState>> Client::acquire_inline(const Request& request) {
  if (auto done = store_->acquire_inline(request)) return done;
  static_cast<void>(inspect(request.name));  // Comes back when its turn came.
  return store_->acquire_inline(request);
}

std::optional<Result<EndStatus>> Client::release_inline(const std::string& name, AcquisitionId id) {
  if (auto done = store_->release_inline({name, id, soon()})) return done;
  static_cast<void>(inspect(name));
  return store_->release_inline({name, id, soon()});
}

Result<std::vector<Result<AcquisitionState>>> Client::renew(std::vector<port::RenewItem> items) {
  auto [done, answer] = expect_one<std::vector<Result<AcquisitionState>>>();
  store_->renew(std::move(items), soon(), std::move(done));
  return wait_for(std::move(answer));
}

Result<AcquisitionState> Client::renew(const std::string& name, AcquisitionId id, std::uint64_t seq,
                                       Duration ttl, Duration waiter_ttl) {
  auto results = renew({{name, id, seq, ttl, waiter_ttl}});
  if (!results) return results.error();
  if (results->size() != 1) return Error(Errc::kCorruptState, "not one result for one item");
  return results->front();
}

Result<bool> Client::keep(const std::string& name, AcquisitionId id, std::uint64_t seq,
                          Duration ttl, std::optional<std::string> value) {
  auto [done, answer] = expect_one<bool>();
  store_->keep({name, id, seq, ttl, std::move(value), soon()}, std::move(done));
  return wait_for(std::move(answer));
}

Result<EndStatus> Client::release(const std::string& name, AcquisitionId id, bool others_wait) {
  auto [done, answer] = expect_one<EndStatus>();
  store_->release({name, id, soon(), issue_of(id), others_wait}, std::move(done));
  return wait_for(std::move(answer));
}

Result<EndStatus> Client::cancel(const std::string& name, AcquisitionId id) {
  auto [done, answer] = expect_one<EndStatus>();
  store_->cancel({name, id, soon(), issue_of(id)}, std::move(done));
  return wait_for(std::move(answer));
}

Result<AcquisitionState> Client::downgrade(const std::string& name, AcquisitionId id) {
  auto [done, answer] = expect_one<AcquisitionState>();
  store_->downgrade({name, id, soon(), issue_of(id)}, std::move(done));
  return wait_for(std::move(answer));
}

Result<std::optional<LockInfo>> Client::inspect(const std::string& name) {
  auto [done, answer] = expect_one<std::optional<LockInfo>>();
  store_->inspect(name, soon(), std::move(done));
  return wait_for(std::move(answer));
}

Result<std::vector<LockInfo>> Client::list(const std::string& prefix, std::size_t limit) {
  auto [done, answer] = expect_one<std::vector<LockInfo>>();
  store_->list(prefix, limit, soon(), std::move(done));
  return wait_for(std::move(answer));
}

Result<port::WatchHandle> Client::watch(const std::string& prefix, port::EventSink sink) {
  auto [done, answer] = expect_one<port::WatchHandle>();
  store_->watch(prefix, std::move(sink), soon(), std::move(done));
  return wait_for(std::move(answer));
}

Result<bool> Client::break_lock(const std::string& name, Token token, const std::string& reason) {
  machine::OwnerInfo by;
  by.owner = owner_;
  by.reason = reason;
  auto [done, answer] = expect_one<bool>();
  store_->break_lock({name, token, std::make_shared<const machine::OwnerInfo>(by), soon()},
                     std::move(done));
  return wait_for(std::move(answer));
}

Result<bool> Client::set_value(const std::string& name, AcquisitionId id, std::string value) {
  auto [done, answer] = expect_one<bool>();
  store_->set_value({name, id, soon(), issue_of(id)}, std::move(value), std::move(done));
  return wait_for(std::move(answer));
}

Result<std::string> Client::get_value(const std::string& name) {
  auto [done, answer] = expect_one<std::string>();
  store_->get_value(name, soon(), std::move(done));
  return wait_for(std::move(answer));
}

Result<bool> Client::resize(const std::string& name, AcquisitionId id, std::uint32_t capacity) {
  auto [done, answer] = expect_one<bool>();
  store_->resize({name, id, soon(), issue_of(id)}, capacity, std::move(done));
  return wait_for(std::move(answer));
}

Result<std::vector<Finding>> Client::probe() {
  auto [done, answer] = expect_one<std::vector<Finding>>();
  store_->probe(soon(), std::move(done));
  return wait_for(std::move(answer));
}

void StoreConformance::SetUp() {
  if (GetParam().unavailable) {
    if (const auto why = GetParam().unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  }
  site_ = make_site();
  promised_ = client().store().guarantees();
}

void StoreConformance::TearDown() {
  clients_.clear();
  site_.reset();
}

Client& StoreConformance::client(const std::string& owner) {
  auto& slot = clients_[owner];
  if (!slot) slot = std::make_unique<Client>(*site_, owner);
  return *slot;
}

void StoreConformance::restart() {
  clients_.clear();
  site_->restart();
}

namespace {

const char* word(AcquisitionStatus status) {
  switch (status) {
    case AcquisitionStatus::kHeld: return "held";
    case AcquisitionStatus::kWaiting: return "waiting";
    case AcquisitionStatus::kBusy: return "busy";
    case AcquisitionStatus::kGone: return "gone";
  }
  return "?";
}

::testing::AssertionResult is(const Result<AcquisitionState>& result, AcquisitionStatus status) {
  if (!result) return ::testing::AssertionFailure() << result.error().message();
  if (result->status == status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "it is " << word(result->status) << ", not " << word(status);
}

}  // namespace

::testing::AssertionResult StoreConformance::holds(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kHeld);
}
::testing::AssertionResult StoreConformance::waits(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kWaiting);
}
::testing::AssertionResult StoreConformance::is_busy(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kBusy);
}
::testing::AssertionResult StoreConformance::is_gone(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kGone);
}

::testing::AssertionResult StoreConformance::ends(const Result<EndStatus>& result, EndStatus how) {
  if (!result) return ::testing::AssertionFailure() << result.error().message();
  if (*result == how) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "it ended as " << static_cast<int>(*result) << ", not " << static_cast<int>(how);
}

}  // namespace holdfast::testing
