#include "tests/skeleton_store/skeleton_store.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/errc.h"
#include "holdfast/guarantees.h"
#include "holdfast/lock_info.h"
#include "src/base/clock.h"
#include "src/port/url_options.h"
#include "src/port/url_parts.h"

namespace holdfast::stores {
namespace {

using port::AcquisitionState;
using port::Done;
using port::EndStatus;

constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("connect_timeout", "5s", "how long to wait for a connection")};

class SkeletonStore final : public port::Store {
 public:
  explicit SkeletonStore(const port::StoreContext& context) : loop_(context.loop) {}

  // Promise nothing that no test has shown.
  Guarantees guarantees() const override {
    Guarantees result;
    result.store = "skeleton";
    result.scope = "nobody";
    result.min_ttl = std::chrono::milliseconds(100);
    result.max_ttl = std::chrono::hours(24);
    return result;
  }

  // First: take a lock, keep it, give it back.
  void acquire(port::AcquireRequest, Done<AcquisitionState> done) override { refuse(done); }
  void renew(std::vector<port::RenewItem>, base::BootInstant,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    refuse(done);
  }
  void release(port::AcquisitionRequest, Done<EndStatus> done) override { refuse(done); }
  void cancel(port::AcquisitionRequest, Done<EndStatus> done) override { refuse(done); }

  // Then: look at it, and end it by force.
  void inspect(std::string, base::BootInstant, Done<std::optional<LockInfo>> done) override {
    refuse(done);
  }
  void list(std::string, std::size_t, base::BootInstant,
            Done<std::vector<LockInfo>> done) override {
    refuse(done);
  }
  void break_lock(port::BreakRequest, Done<bool> done) override { refuse(done); }
  void probe(base::BootInstant, Done<std::vector<Finding>> done) override { refuse(done); }

  // At last: what guarantees() may leave out.
  void downgrade(port::AcquisitionRequest, Done<AcquisitionState> done) override { refuse(done); }
  void set_value(port::AcquisitionRequest, std::string, Done<bool> done) override { refuse(done); }
  void get_value(std::string, base::BootInstant, Done<std::string> done) override { refuse(done); }
  void resize(port::AcquisitionRequest, std::uint32_t, Done<bool> done) override { refuse(done); }

  void close(base::BootInstant) override { closed_ = true; }
  void abandon_after_fork() noexcept override { closed_ = true; }

 private:
  static Error unsupported() {
    return {Errc::kUnsupported, "skeleton: the store has no operations: write them"};
  }

  // Completions are posted to the loop, never called here: the caller may hold a mutex.
  template <typename T>
  void refuse(Done<T>& done) {
    const Error error =
        closed_ ? Error(Errc::kClosed, "skeleton: the store was closed") : unsupported();
    loop_->post([done = std::move(done), error] { done(error); });
  }

  port::Loop* const loop_;
  std::atomic<bool> closed_ = false;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_skeleton_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  const auto login = port::take_login(url, "skeleton", "HOLDFAST_SKELETON_PASSWORD");
  if (!login) return login.error();
  const auto servers = port::parse_endpoints(url, {"127.0.0.1", 1}, "skeleton");
  if (!servers) return servers.error();
  const auto options = port::UrlOptions::take(url, "skeleton", kUrlOptions);
  if (!options) return options.error();
  if (auto known = port::reject_unknown_options(url, "skeleton"); !known) return known.error();
  return std::unique_ptr<port::Store>(std::make_unique<SkeletonStore>(context));
}

}  // namespace holdfast::stores
