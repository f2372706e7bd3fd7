#include "src/stores/etcd/journal/members.h"

#include <algorithm>
#include <future>
#include <sstream>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "src/stores/etcd/doctor.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/store_session.h"
#include "src/stores/etcd/transport/errors.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using std::chrono::milliseconds;

constexpr auto kBetweenLooks = detail::RenewalSchedule(EtcdMembers::kLease).renew_after();
constexpr milliseconds kFarewell{1'000};
constexpr int kEntryFormat = 1;
constexpr std::string_view kNone = "-";
constexpr std::string_view kYields = "yields";

// Servers of before read no further than the version.
std::string entry_text(const ServerMember& self, bool yields) {
  const auto since = std::chrono::duration_cast<milliseconds>(self.since.time_since_epoch());
  return std::to_string(kEntryFormat) + (self.leads ? " 1 " : " 0 ") +
         std::to_string(since.count()) + ' ' + self.version +
         ' ' + (self.http.empty() ? std::string(kNone) : self.http) +
         (yields ? ' ' + std::string(kYields) : std::string());
}

// An entry in another format tells its address alone.
ServerMember member_of(std::string address, const std::string& text,
                       const std::vector<std::string>& leaders) {
  ServerMember member;
  member.address = std::move(address);
  std::istringstream words(text);
  int format = 0;
  bool leads = false;
  std::int64_t since = 0;
  std::string version;
  words >> format >> leads >> since >> version;
  if (!words || format != kEntryFormat) return member;
  member.version = std::move(version);
  words >> member.http;
  if (member.http == kNone) member.http.clear();
  const auto led = std::count(leaders.begin(), leaders.end(), member.address);
  member.leads = leads && led > 0;
  if (member.leads) member.shards = static_cast<std::uint32_t>(led);
  // Another server leads by now, so it is not known since when this one does not.
  if (member.leads == leads) {
    member.since = std::chrono::system_clock::time_point(milliseconds(since));
  }
  return member;
}

bool entry_yields(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  for (int i = 0; i < 6; ++i) words >> word;
  return words && word == kYields;
}

Result<port::MembersList> members_of(const Result<wire::TxnResponse>& answer, std::size_t folder,
                                     std::size_t shards) {
  if (!answer) return answer.error();
  if (answer->responses_size() != static_cast<int>(shards) + 1) {
    return Error(Errc::kCorruptState, "etcd: half an answer");
  }
  port::MembersList seen;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const auto& leader = answer->responses(static_cast<int>(shard)).response_range();
    seen.leaders.push_back(leader.kvs_size() > 0 ? leader.kvs(0).value() : std::string());
  }
  for (const wire::KeyValue& each :
       answer->responses(static_cast<int>(shards)).response_range().kvs()) {
    const std::string address = each.key().substr(folder);
    seen.servers.push_back(member_of(address, each.value(), seen.leaders));
    if (entry_yields(each.value())) seen.yielding.push_back(address);
  }
  return seen;
}

}  // namespace

Result<std::unique_ptr<port::Members>> EtcdMembers::make(const JournalSettings& settings,
                                                         std::uint32_t shards) {
  auto rpc = Rpc::make(settings.address);
  if (!rpc) return rpc.error();
  return std::unique_ptr<port::Members>(
      std::make_unique<EtcdMembers>(settings, shards, *std::move(rpc)));
}

EtcdMembers::EtcdMembers(const JournalSettings& settings, std::uint32_t shards,
                         std::unique_ptr<Rpc> rpc)
    : settings_(settings), folder_(journal_root(settings.address) + "m/"), rpc_(std::move(rpc)) {
  const std::string prefix = journal_root(settings.address);
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    leader_keys_.push_back(prefix + shard_folder({shard, shards}) + "leader");
  }
  look_after();
}

EtcdMembers::~EtcdMembers() {
  const auto gone = std::make_shared<std::promise<void>>();
  auto answer = gone->get_future();
  rpc_->after(milliseconds(0), [this, gone] {
    leaving_ = true;
    if (lease_ == 0) return gone->set_value();
    revoke([gone](const Result<wire::LeaseRevokeResponse>&) { gone->set_value(); });
  });
  answer.wait_for(kFarewell);
  rpc_->close();
}

void EtcdMembers::announce(ServerMember self, bool yields) {
  {
    const base::LocalLock lock(mutex_);
    self_ = std::move(self);
    yields_ = yields;
    ++change_;
  }
  rpc_->after(milliseconds(0), [this] { step(); });
}

void EtcdMembers::list(base::BootInstant deadline, Found found) {
  wire::TxnRequest txn;
  for (const std::string& each : leader_keys_) {
    *txn.add_success()->mutable_request_range() = one_key(each);
  }
  wire::RangeRequest& all = *txn.add_success()->mutable_request_range();
  all.set_key(folder_);
  all.set_range_end(behind(folder_));
  rpc_->call(
      std::move(txn), How{deadline, /*reads_only=*/true, std::nullopt},
      [found = std::move(found), folder = folder_.size(), shards = leader_keys_.size()](
          const Result<wire::TxnResponse>& answer) { found(members_of(answer, folder, shards)); });
}

void EtcdMembers::examine(base::BootInstant deadline, Examined told) {
  examine_journal(*rpc_, settings_.address, folder_,
                  {.compacts = settings_.compacts, .quota = settings_.quota}, deadline,
                  std::move(told));
}

void EtcdMembers::look_after() {
  rpc_->after(kBetweenLooks, [this] {
    look_after();
    if (busy_ || leaving_) return;
    lease_ == 0 ? step() : keep();
  });
}

// The next thing to do, if there is one. After a failure the next look tries again.
void EtcdMembers::step() {
  if (busy_ || leaving_) return;
  ServerMember self;
  bool yields = false;
  std::uint64_t change = 0;
  {
    const base::LocalLock lock(mutex_);
    self = self_;
    yields = yields_;
    change = change_;
  }
  if (change == 0 || (lease_ != 0 && written_ == change)) return;
  busy_ = true;
  lease_ == 0 ? grant() : write(self, yields, change);
}

void EtcdMembers::grant() {
  wire::LeaseGrantRequest request;
  request.set_id(fresh_lease());
  request.set_ttl(kLease.count());
  rpc_->call(std::move(request), How{BootClock::now() + kBetweenLooks},
             [this](const Result<wire::LeaseGrantResponse>& granted) {
               busy_ = false;
               if (!granted) return;
               lease_ = granted->id();
               written_ = 0;
               step();
             });
}

void EtcdMembers::write(const ServerMember& self, bool yields, std::uint64_t change) {
  wire::PutRequest request;
  request.set_key(key(self.address));
  request.set_value(entry_text(self, yields));
  request.set_lease(lease_);
  rpc_->call(std::move(request), How{BootClock::now() + kBetweenLooks},
             [this, change](const Result<wire::PutResponse>& done) { wrote(change, done); });
}

// A write that may still arrive must not undo a later one: without its lease it is refused.
void EtcdMembers::wrote(std::uint64_t change, const Result<wire::PutResponse>& done) {
  busy_ = false;
  if (done) {
    written_ = change;
    return step();
  }
  if (is_out_of_space(done.error())) return;  // The earlier entry is better than none.
  if (done.error().code() != Errc::kLost) {
    revoke([](const Result<wire::LeaseRevokeResponse>&) {});
  }
  lease_ = 0;
}

void EtcdMembers::keep() {
  busy_ = true;
  rpc_->keep_alive(keeper_ % rpc_->servers(), lease_, BootClock::now() + kBetweenLooks / 2,
                   [this](const Result<std::int64_t>& left) {
                     busy_ = false;
                     if (!left) ++keeper_;
                     if (left && *left == 0) lease_ = 0;
                     step();
                   });
}

void EtcdMembers::revoke(Rpc::Then<wire::LeaseRevokeResponse> then) {
  wire::LeaseRevokeRequest request;
  request.set_id(lease_);
  rpc_->call(std::move(request), How{BootClock::now() + kFarewell}, std::move(then));
}

}  // namespace holdfast::stores::etcd
