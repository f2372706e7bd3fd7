#include "tests/faults/partition_cases.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "tests/faults/client_side.h"

namespace holdfast::faults {
namespace {

using base::BootClock;
using base::BootInstant;

[[maybe_unused]] const bool kNetwork = support::keep_network_private();

constexpr milliseconds kBetweenLooks = 1ms;
constexpr milliseconds kRequest = 3s;  // The request_timeout of every client.

// Asks until it gets it: servers without a leader refuse.
Lease take(const Client& client, const std::string& name) {
  std::optional<Result<Lease>> got;
  const bool taken = eventually([&] {
    got = client.mutex(name).acquire({.wait = kLong});
    return got->has_value();
  });
  if (!taken) throw std::runtime_error(got->error().message());
  return **std::move(got);
}

// A lease whose holder looks all the time whether it is held: it is what held() says that counts,
// and nothing tells when that changes but asking it.
class Believer {
 public:
  explicit Believer(Lease lease) : lease_(std::move(lease)) {
    looking_ = std::thread([this] {
      for (auto asked = BootClock::now(); !stopped_ && lease_.held(); asked = BootClock::now()) {
        believed_ = asked;
        std::this_thread::sleep_for(kBetweenLooks);
      }
    });
  }
  ~Believer() { stop(); }
  Believer(const Believer&) = delete;
  Believer& operator=(const Believer&) = delete;

  Lease& lease() { return lease_; }
  void stop() {
    stopped_ = true;
    if (looking_.joinable()) looking_.join();
  }
  // When it asked for the last time and was told that it holds.
  BootInstant believed() const { return believed_; }

 private:
  Lease lease_;
  std::atomic<bool> stopped_ = false;
  std::atomic<BootInstant> believed_{};
  std::thread looking_;
};

// One holds a lock and one waits for it, whatever happens meanwhile.
class Contest {
 public:
  Contest(std::string name, const Client& holder, const Client& waiter)
      : name_(std::move(name)), holder_(holder), believer_(hold(holder_, name_)) {
    std::promise<void> queued;
    auto in_queue = queued.get_future();
    waiting_ =
        std::async(std::launch::async, [this, &waiter, queued = std::move(queued)]() mutable {
          auto got = waiter.mutex(name_).acquire(
              {.wait = kLong, .on_queued = [&](std::uint32_t) { queued.set_value(); }});
          return std::pair(std::move(got), BootClock::now());
        });
    if (in_queue.wait_for(kLong) != std::future_status::ready) {
      throw std::runtime_error("it does not get into the queue");
    }
  }

  // Until its client has written to the store again, or the lease is lost. (A renewal tells no more
  // than that the session was confirmed not long ago.) Whether it is held.
  bool goes_on() {
    EXPECT_TRUE(eventually([&] {
      const auto other = holder_.mutex(name_ + "'s other").try_acquire();
      return !lease().held() || (other && *other);
    })) << name_;
    return lease().held();
  }
  bool is_waited_for() const { return waiting_.wait_for(0s) == std::future_status::timeout; }

  // The holder, where it still is one, gives it back.
  void give_back() {
    believer_.stop();
    if (lease().held()) expect_released(lease());
  }

  // The waiter gets it before `until`, and never while the holder believes; then the holder again.
  void expect_handed_on(BootInstant until) {
    auto [got, at] = waiting_.get();
    ASSERT_TRUE(got) << name_ << ": " << got.error().message();
    EXPECT_LT((at - until).count(), 0) << name_ << ", in nanoseconds after its time";
    EXPECT_FALSE(lease().held()) << name_;
    believer_.stop();
    EXPECT_GT((at - believer_.believed()).count(), 0) << name_ << " had two holders";
    EXPECT_GT(got->token(), lease().token()) << name_;
    EXPECT_TRUE(lease().state() == LeaseState::kReleased || fires(lease().lost())) << name_;
    next_ = *std::move(got);
  }

  // The holder's client does this afterwards.
  void expect_holder_goes_on() {
    ASSERT_TRUE(next_) << name_;
    EXPECT_TRUE(next_->held()) << name_ << ": the second holder was never in danger";
    EXPECT_TRUE(eventually([&] { return next_->renew().has_value(); })) << name_;
    const Token second = next_->token();
    expect_released(*next_);
    EXPECT_GT(take(holder_, name_).token(), second) << name_;
  }

 private:
  Lease& lease() { return believer_.lease(); }

  const std::string name_;
  const Client holder_;
  Believer believer_;
  std::future<std::pair<Result<Lease>, BootInstant>> waiting_;
  std::optional<Lease> next_;
};

// Somebody whom it does not concern: takes and releases a lock again and again.
class Bystander {
 public:
  explicit Bystander(const Client& client) : client_(client) {
    last_ = BootClock::now();
    working_ = std::thread([this] {
      while (!stopped_) work();
    });
  }
  ~Bystander() { stop(); }

  void stop() {
    stopped_ = true;
    if (working_.joinable()) working_.join();
  }
  // The longest time from one lock that was taken to the next.
  milliseconds longest() const {
    return std::chrono::duration_cast<milliseconds>(BootClock::duration(longest_));
  }

 private:
  void work() {
    auto lease = client_.mutex("bystander's").acquire({.wait = kLong});
    if (!lease) return;
    const auto now = BootClock::now();
    longest_ = std::max(longest_.load(), (now - std::exchange(last_, now)).count());
    static_cast<void>(lease->release());  // It may have to be made up for.
  }

  const Client client_;
  BootInstant last_;
  std::atomic<BootClock::rep> longest_ = 0;
  std::atomic<bool> stopped_ = false;
  std::thread working_;
};

}  // namespace

void PrintTo(const PartitionSite& site, std::ostream* out) { *out << site.store; }

void PartitionFaults::SetUp() {
  GetParam().needs();
  if (IsSkipped() || HasFatalFailure()) return;
  HOLDFAST_NEEDS_SERVER_NETWORK();
  cluster_ = GetParam().make();
}

// Three clients talk to the server that is cut off, and others wait for what these hold: one client
// that can go elsewhere, with time enough for it, one with little time, and one that knows no other
// server.
void PartitionFaults::cut_off(std::size_t server, bool leads) {
  const std::vector<std::size_t> rest = {(server + 1) % 3, (server + 2) % 3};
  const std::vector<std::size_t> all = {server, rest[0], rest[1]};
  const Client others = cluster_->connect(rest, kLongSession);
  Contest patient("patient", cluster_->connect(all, kLongSession), others);
  Contest hasty("hasty", cluster_->connect(all, GetParam().short_session), others);
  Contest stuck("stuck", cluster_->connect({server}, GetParam().short_session), others);
  // A lease of its own, whose client knows no other server.
  const Client lonely = cluster_->connect({server}, GetParam().short_session);
  Lease own =
      lonely.mutex("kept").acquire({.wait = kLong, .ttl = 300s, .auto_renew = false}).value();
  Bystander bystander(cluster_->connect(rest, kLongSession));

  const milliseconds election = GetParam().election;
  const milliseconds bound = GetParam().expiry + 2 * election;
  cluster_->network().cut_off(server);
  const BootInstant cut = BootClock::now();
  static_cast<void>(take(others, "fresh"));
  EXPECT_TRUE(patient.goes_on());
  EXPECT_LT(BootClock::now() - cut, bound);
  const bool kept = hasty.goes_on();
  EXPECT_TRUE(patient.is_waited_for());
  EXPECT_TRUE(!kept || hasty.is_waited_for());
  const BootInstant back = BootClock::now();
  patient.give_back();
  hasty.give_back();
  patient.expect_handed_on(back + election);
  hasty.expect_handed_on(std::max(back + election, cut + bound));
  stuck.expect_handed_on(cut + bound);
  // By now the session of its client has ended, too, and it has not.
  EXPECT_TRUE(own.held());
  const auto tried = others.mutex("kept").try_acquire();
  EXPECT_TRUE(tried && !*tried) << "somebody else holds the kept lease";
  // A client without business at the cut-off follower notices nothing. (Requests that a leader was
  // about to carry out are resolved when their time is up.)
  EXPECT_LT(bystander.longest(), leads ? kRequest + 2 * election : election);

  cluster_->heal();
  EXPECT_TRUE(eventually([&] { return cluster_->whole(); }));
  for (Contest* each : {&patient, &hasty, &stuck}) each->expect_holder_goes_on();
  EXPECT_TRUE(eventually([&] { return own.renew().has_value(); }));
  const Token token = own.token();
  expect_released(own);
  EXPECT_GT(take(others, "kept").token(), token);
  for (const std::size_t one : all) take(cluster_->connect({one}, kLongSession), "after");
  bystander.stop();
  EXPECT_LT(bystander.longest(), kRequest + 2 * election);
  RecordProperty("hasty", kept ? "kept" : "lost");
  RecordProperty("bystander_ms", static_cast<int>(bystander.longest().count()));
}

TEST_P(PartitionFaults, ALeaderThatIsCutOffIsReplacedAndNobodyHoldsTwice) {
  cut_off(cluster_->leader(), /*leads=*/true);
}

TEST_P(PartitionFaults, AFollowerThatIsCutOffDisturbsItsOwnClientsAlone) {
  cut_off((cluster_->leader() + 1) % 3, /*leads=*/false);
}

}  // namespace holdfast::faults
