#include "src/port/multi_request.h"

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "src/port/read_behind.h"

namespace holdfast::port {

Result<void> check_multi(const std::vector<AcquireRequest>& requests) {
  const auto bad = [](std::string what) { return Error(Errc::kInvalidArgument, std::move(what)); };
  if (requests.empty()) return bad("no lock was named");
  if (requests.size() > kMostAtOnce) {
    return bad(std::to_string(requests.size()) + " locks at once: at most " +
               std::to_string(kMostAtOnce));
  }
  std::unordered_set<std::string_view> names;
  for (const AcquireRequest& request : requests) {
    if (!names.insert(request.name).second) {
      return bad("lock '" + request.name + "' was named twice");
    }
    if (request.upgrade_of) {
      return bad("lock '" + request.name + "': ask for an upgrade alone, without other locks");
    }
  }
  return {};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is that of the stores.
void Store::keep(KeepRequest, Done<bool> done) {
  done(Error(Errc::kUnsupported, "leases of this store end with their client"));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is that of the stores.
void Store::watch(std::string, EventSink, base::BootInstant, Done<WatchHandle> done) {
  done(
      Error(Errc::kUnsupported, "the " + guarantees().store + " store does not tell every change"));
}

void Store::acquire_and_read(AcquireRequest request, std::string beside, Done<StateAndValue> done) {
  const base::BootInstant deadline = request.deadline;
  acquire_then_read(
      [&](Done<AcquisitionState> told) { acquire(std::move(request), std::move(told)); },
      [this, beside = std::move(beside), deadline](Done<std::string> told) {
        get_value(beside, deadline, std::move(told));
      },
      std::move(done));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is that of the stores.
void Store::try_acquire_all(std::vector<AcquireRequest>, Done<Grants> done) {
  done(Error(Errc::kUnsupported,
             "the " + guarantees().store + " store cannot take several locks in one step"));
}

// One after the other as far as the caller is concerned, all under way at once.
void Store::release_all(std::vector<AcquisitionRequest> requests,
                        Done<std::vector<Result<EndStatus>>> done) {
  struct Gathered {
    std::vector<Result<EndStatus>> results;
    std::atomic<std::size_t> left;
    Done<std::vector<Result<EndStatus>>> done;
  };
  auto gathered = std::make_shared<Gathered>();
  gathered->results.assign(requests.size(), EndStatus::kGone);
  gathered->left = requests.size();
  gathered->done = std::move(done);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    release(std::move(requests[i]), [gathered, i](Result<EndStatus> ended) {
      gathered->results[i] = std::move(ended);
      if (--gathered->left == 0) gathered->done(std::move(gathered->results));
    });
  }
}

}  // namespace holdfast::port
