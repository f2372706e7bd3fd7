#include "src/stores/etcd/journal/journal.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/random.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/store_session.h"
#include "src/stores/etcd/transport/errors.h"
#include "src/stores/etcd/transport/versions.h"

namespace holdfast::stores::etcd {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Commit;
using port::SnapshotHead;
using namespace std::chrono_literals;

// One attempt of a write. After it the next member is asked, with the same bytes. A lone attempt
// takes 7 s when etcd loses its leader.
constexpr std::chrono::milliseconds kAttempt = 500ms;
// A proof of the lead is late when it has been due for so long: an attempt, and the time in which a
// service looks whether it has to make one.
constexpr std::chrono::milliseconds kOverdue = 2 * kAttempt;
constexpr std::chrono::milliseconds kGoodbye = 1s;
constexpr std::chrono::milliseconds kAskEvery = 10s;
constexpr std::string_view kParts = "PARTS ";
constexpr std::uint64_t kDroppedAtOnce = 500;  // Keys.

std::string head_text(const SnapshotHead& head) {
  return std::to_string(head.batch) + ' ' + std::to_string(head.count) + ' ' +
         std::to_string(head.checksum);
}

std::string digits(std::uint64_t number) { return lease_text(static_cast<std::int64_t>(number)); }

Commit failed_write(bool may_be_applied) {
  return may_be_applied ? Commit::kUnknown : Commit::kRefused;
}

// An attempt to lead that failed is worth another one, unless a permission is missing.
Error failed_attempt(const Error& error) {
  const bool denied = error.code() == Errc::kPermissionDenied;
  return {denied ? Errc::kPermissionDenied : Errc::kUnavailable, error.message()};
}

const wire::RangeResponse* answer_at(const wire::TxnResponse& answer, int index) {
  return index < answer.responses_size() ? &answer.responses(index).response_range() : nullptr;
}

}  // namespace

Result<JournalSettings> parse_journal_url(port::StoreUrl& url) {
  JournalSettings settings;
  const auto options = port::UrlOptions::take(url, "journal", kJournalOptions);
  if (!options) return options.error();
  for (const char* other : {"session", "recipe"}) {
    if (url.take(other)) {
      return Error(Errc::kInvalidArgument,
                   "journal URL: " + std::string(other) +
                       "= is for locks that etcd keeps itself; a journal has leadership=");
    }
  }
  if (options->has("leadership")) {
    settings.leadership = std::chrono::ceil<std::chrono::seconds>(options->time("leadership"));
  }
  settings.compacts = options->has("compact");
  settings.quota = options->number("quota") << 20U;
  auto address = parse_etcd_url(url);
  if (!address) return address.error();
  settings.address = *std::move(address);
  return settings;
}

std::string journal_root(const EtcdAddress& address) {
  return (address.prefix.empty() ? "" : address.prefix + "/") + "hf1/j/";
}

std::string shard_folder(port::ShardNumber shard) {
  return shard.of <= 1 ? std::string() : "s" + std::to_string(shard.number) + "/";
}

Result<std::unique_ptr<port::Journal>> EtcdJournal::make(JournalSettings settings,
                                                         BootInstant open_by) {
  auto rpc = Rpc::make(settings.address);
  if (!rpc) return rpc.error();
  auto journal = std::make_unique<EtcdJournal>(std::move(settings), *std::move(rpc));
  const auto left = open_by == BootInstant::max() ? 2 * kReading : open_by - BootClock::now();
  const auto status =
      journal->ask(wire::StatusRequest(),
                   std::min(2 * kReading, std::chrono::ceil<std::chrono::milliseconds>(left)),
                   /*reads_only=*/true);
  if (!status) return status.error();
  const bool early = may_end_leases_early(status->version());
  const std::chrono::seconds wanted = journal->settings_.leadership;
  journal->length_ = wanted.count() > 0 ? wanted : early ? 15s : 5s;
  return std::unique_ptr<port::Journal>(std::move(journal));
}

EtcdJournal::EtcdJournal(JournalSettings settings, std::unique_ptr<Rpc> rpc)
    : settings_(std::move(settings)),
      root_(journal_root(settings_.address) + shard_folder(settings_.shard)),
      rpc_(std::move(rpc)) {}

// A batch of this term that is still on its way can then never be applied.
EtcdJournal::~EtcdJournal() {
  if (watch_ != 0) rpc_->end_watch(watch_);
  if (leader_ != 0) {
    wire::TxnRequest txn = guarded();
    txn.add_success()->mutable_request_delete_range()->set_key(key("leader"));
    static_cast<void>(ask(std::move(txn), kGoodbye));
  }
  if (lease_ != 0) {
    wire::LeaseRevokeRequest revoke;
    revoke.set_id(lease_);
    static_cast<void>(ask(std::move(revoke), kGoodbye));
  }
  rpc_->close();
}

// A member that stood still may answer with old data (etcd #20418), but not at a revision that it
// does not have.
Result<wire::RangeResponse> EtcdJournal::read(wire::RangeRequest request) {
  request.set_revision(revision_);
  auto found = ask(request, kReading, /*reads_only=*/true);
  if (found || !recovered_ || interrupted()) return found;
  // Others' compaction may have passed the newest revision that this journal has seen.
  if (confirm() != Commit::kCommitted) return found;
  request.set_revision(revision_);
  return ask(std::move(request), kReading, /*reads_only=*/true);
}

std::string EtcdJournal::lineage() const { return std::to_string(cluster_) + ' ' + root_; }

std::string EtcdJournal::place() const {
  const auto [number, of] = settings_.shard;
  return settings_.address.display() + (of > 1 ? " (shard " + std::to_string(number) + ")" : "");
}

// --- Leadership.

void EtcdJournal::interrupt() noexcept {
  const base::LocalLock lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

bool EtcdJournal::interrupted() const {
  const base::LocalLock lock(mutex_);
  return interrupted_;
}

// False: interrupted.
bool EtcdJournal::pause(std::chrono::milliseconds time) {
  const base::LocalLock lock(mutex_);
  if (!interrupted_) changed_.wait_for(mutex_, time);
  return !interrupted_;
}

std::string EtcdJournal::leader() const {
  const base::LocalLock lock(mutex_);
  return leader_text_;
}

BootInstant EtcdJournal::leads_until() const noexcept {
  return BootInstant(std::chrono::nanoseconds(last_write_.load())) + length_;
}

// An idle leader asks for a proof only when the last one has lasted so long.
std::chrono::nanoseconds EtcdJournal::proof_lasts() const {
  return detail::RenewalSchedule(length_).beat_every();
}

bool EtcdJournal::answers() const noexcept {
  return BootClock::now() < leads_until() - length_ + proof_lasts() + kOverdue;
}

Result<bool> EtcdJournal::lead(const std::string& told, BootInstant until) {
  told_ = told;
  while (!interrupted()) {
    const auto leads = try_to_lead();
    if (!leads && leads.error().code() != Errc::kUnavailable) return leads;
    if (leads && *leads) return leads;
    if (BootClock::now() >= until) return leads;
    wait_for_change(std::min(until, BootClock::now() + (leads ? 1s : 200ms)));
  }
  return false;
}

void EtcdJournal::wait_for_change(BootInstant until) {
  if (watch_ == 0) {
    watch_ = rpc_->watch(key("leader"), "", [this](const WatchNews&) {
      const base::LocalLock lock(mutex_);
      key_changed_ = true;
      changed_.notify_all();
    });
  }
  const base::LocalLock lock(mutex_);
  while (!interrupted_ && !std::exchange(key_changed_, false)) {
    const auto left = until - BootClock::now();
    if (left <= 0ns) return;
    changed_.wait_for(mutex_, left);
  }
}

Result<bool> EtcdJournal::try_to_lead() {
  wire::TxnRequest look;
  *look.add_success()->mutable_request_range() = one_key(key("leader"));
  *look.add_success()->mutable_request_range() = one_key(key("about"));
  const auto seen = ask(std::move(look), kReading, /*reads_only=*/true);
  if (!seen) return seen.error();
  if (seen->responses_size() != 2) return Error(Errc::kCorruptState, "etcd: half an answer");
  const auto about = parse_about(seen->responses(1).response_range());
  if (!about) return Error(about.error().code(), place() + ": " + about.error().message());
  cluster_ = seen->header().cluster_id();
  settings_.seen->saw(lineage(), seen->header().revision());
  about_ = *about;
  const wire::RangeResponse& leader = seen->responses(0).response_range();
  if (leader.kvs_size() > 0) {
    const wire::KeyValue& found = leader.kvs(0);
    if (lease_ != 0 && found.lease() == lease_) {
      // The answer to an earlier attempt was lost, and later ones may have read older revisions. So
      // what it found is told by what it wrote.
      judge_opening(about_, about->created == found.create_revision());
      noted_ = BootClock::now();
      leads(found.create_revision(), seen->header().revision(), BootInstant{});
      return true;
    }
    // This server's own address is that of an earlier process of it.
    const base::LocalLock lock(mutex_);
    leader_text_ = found.value() == told_ ? "" : found.value();
    return false;
  }
  {
    const base::LocalLock lock(mutex_);
    leader_text_.clear();
  }
  About next = *about;
  const std::int64_t since = seen->header().revision() - about->modified;
  const std::uint64_t entries = count_entries(seen->header().member_id());
  judge_opening(next, about->id.empty(),
                about->entries != 0 && entries != 0 &&
                    entries <= about->entries + static_cast<std::uint64_t>(since));
  if (entries != 0) next.entries = entries;
  if (opening_.began) {
    const auto drawn = base::random_128();
    next.id = base::to_hex(drawn.high, drawn.low);
    next.cluster = cluster_;
  }
  return take_lead(std::move(next));
}

void EtcdJournal::judge_opening(About& about, bool began, bool log_began_anew) {
  opening_ = {};
  opening_.began = began;
  // A paused leader counts by its own clock, which may run apart from this one.
  opening_.old_leader = about.longest + about.longest / 100;
  if (began || (about.cluster == cluster_ && !log_began_anew)) return;
  opening_.known = about.waits_in == cluster_;
  opening_.restored = log_began_anew ? "etcd's log began anew: a snapshot of it was restored"
                      : opening_.known || about.cluster == 0
                          ? "the wait after a snapshot was put back has not ended"
                          : "it was written in another etcd cluster";
  if (log_began_anew) return begin_wait_anew(about);
  if (!opening_.known) about.wait = {};
  begin_wait(about);
}

Result<bool> EtcdJournal::take_lead(About next) {
  if (lease_ == 0) {
    wire::LeaseGrantRequest grant;
    grant.set_id(fresh_lease());
    grant.set_ttl(length_.count());
    const auto granted = ask(std::move(grant), kReading);
    if (!granted) return failed_attempt(granted.error());
    lease_ = granted->id();
    length_ = std::chrono::seconds(granted->ttl());
  }
  next.longest = std::max<std::chrono::milliseconds>(next.longest, length_);
  wire::TxnRequest txn;
  compare_created(txn, key("leader"), 0);
  compare_modified(txn, key("about"), next.modified);
  put(txn, key("leader"), told_, lease_);
  put(txn, key("about"), about_text(next), 0);
  const BootInstant sent = BootClock::now();
  const auto answer = ask(std::move(txn), kReading);
  if (!answer) {
    if (answer.error().code() == Errc::kLost) lease_ = 0;  // It ended meanwhile.
    return failed_attempt(answer.error());
  }
  if (!answer->succeeded()) {
    wire::LeaseRevokeRequest revoke;
    revoke.set_id(std::exchange(lease_, 0));
    rpc_->call(std::move(revoke), How{BootClock::now() + kGoodbye},
               [](const Result<wire::LeaseRevokeResponse>&) {});
    return false;
  }
  about_ = std::move(next);
  noted_ = BootClock::now();
  const std::int64_t revision = answer->header().revision();
  leads(revision, revision, sent);
  if (settings_.seen->went_back(lineage(), revision)) {
    opening_.restored = "etcd's revision went back: a snapshot of it was put back";
    begin_wait_anew(about_);
    if (!put_about()) return Error(Errc::kUnavailable, reason_);
  }
  return true;
}

// The transaction that made the leader key is the take-over record: everything is read as of it
// (rule 38).
void EtcdJournal::leads(std::int64_t created, std::int64_t revision, BootInstant sent) {
  leader_ = created;
  revision_ = revision;
  last_write_ = sent.time_since_epoch().count();
  term_ = std::to_string(created) + '-' + base::to_hex(0, base::random_128().low).substr(24);
  const base::LocalLock lock(mutex_);
  leader_text_ = told_;
}

// A loop that stands still, or a journal that takes no write, lets the lease end.
void EtcdJournal::keep_leading() {
  const BootInstant now = BootClock::now();
  if (leader_ == 0 || keeping_ || now < next_keep_) return;
  if (now >= leads_until() && !no_room_) return;
  const auto pause = detail::RenewalSchedule(length_).lead_every();
  next_keep_ = now + pause;
  keeping_ = true;
  rpc_->keep_alive(keeper_ % rpc_->servers(), lease_, now + pause,
                   [this](const Result<std::int64_t>& left) {
                     if (!left) ++keeper_;
                     keeping_ = false;
                   });
}

// --- Opening.

Result<void> EtcdJournal::open() {
  const auto found = read(one_key(key("head")));
  if (!found) return found.error();
  const auto first = read_first(key("b/"), behind(key("b/")));
  if (!first) return first.error();
  if (opening_.began && (found->kvs_size() > 0 || first->kvs_size() > 0)) {
    return Error(Errc::kCorruptState,
                 place() +
                     ": the journal's key 'about' is gone, but its batches are there: restore "
                     "a backup of etcd. To forget all locks, stop every client, and delete "
                     "the keys that begin with " +
                     root_);
  }
  if (found->kvs_size() > 0) {
    std::istringstream text(found->kvs(0).value());
    text >> head_.batch >> head_.count >> head_.checksum;
    if (!text) return Error(Errc::kCorruptState, place() + ": the journal's head is damaged");
  }
  return {};
}

Result<wire::RangeResponse> EtcdJournal::read_first(const std::string& from, const std::string& end,
                                                    bool last) {
  wire::RangeRequest request;
  request.set_key(from);
  request.set_range_end(end);
  request.set_limit(1);
  request.set_keys_only(true);
  request.set_sort_target(wire::RangeRequest::KEY);
  request.set_sort_order(last ? wire::RangeRequest::DESCEND : wire::RangeRequest::ASCEND);
  return read(std::move(request));
}

// One key; those behind it come along, because they are read next. Empty: it is not there.
Result<std::string> EtcdJournal::read_paged(const std::string& key, const std::string& end) {
  if (!recovered_) {
    // The loop that would keep the lead waits for the reading, which may take longer than a lease.
    keep_leading();
    // A later leader may have trimmed what this one reads: that is no damage.
    const Commit leads = look();
    if (leads == Commit::kRefused || leads == Commit::kUnknown) {
      return Error(Errc::kUnavailable, reason_);
    }
  }
  if (const auto kept = page_.find(key); kept != page_.end()) {
    std::string value = std::move(kept->second);
    page_.erase(page_.begin(), std::next(kept));
    return value;
  }
  page_.clear();
  for (;;) {
    wire::RangeRequest request;
    request.set_key(key);
    request.set_range_end(end);
    request.set_limit(page_size_);
    auto found = read(std::move(request));
    if (!found && found.error().code() == Errc::kCorruptState && page_size_ > 1) {
      page_size_ = std::max<std::int64_t>(1, page_size_ / 8);  // More than one answer may have.
      continue;
    }
    if (!found) return found.error();
    for (wire::KeyValue& each : *found->mutable_kvs()) {
      page_.emplace(each.key(), std::move(*each.mutable_value()));
    }
    break;
  }
  const auto first = page_.find(key);
  if (first == page_.end()) return std::string();
  std::string value = std::move(first->second);
  page_.erase(first);
  return value;
}

Result<std::uint64_t> EtcdJournal::last() {
  const auto newest = read_first(key("b/"), behind(key("b/")), /*last=*/true);
  if (!newest) return newest.error();
  if (newest->kvs_size() == 0) return head_.batch;
  const std::string& found = newest->kvs(0).key();
  const auto number = parse_lease(std::string_view(found).substr(key("b/").size()));
  if (!number) return Error(Errc::kCorruptState, place() + ": there is no such batch: " + found);
  return std::max(head_.batch, static_cast<std::uint64_t>(*number));
}

Result<std::string> EtcdJournal::batch(std::uint64_t number) {
  auto found = read_paged(batch_key(number), behind(key("b/")));
  if (!found) return found;
  if (found->empty()) {
    return Error(Errc::kCorruptState,
                 "journal " + place() + ": batch " + std::to_string(number) + " is missing");
  }
  if (!found->starts_with(kParts)) return found;
  std::istringstream text(found->substr(kParts.size(), found->find('\n') - kParts.size()));
  std::size_t parts = 0;
  text >> parts;
  const std::string last = found->substr(std::min(found->find('\n'), found->size() - 1) + 1);
  std::string whole;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto piece = read(one_key(part_key(number, part)));
    if (!piece) return piece.error();
    if (piece->kvs_size() == 0) {
      return Error(Errc::kCorruptState, "journal " + place() + ": a part of batch " +
                                            std::to_string(number) + " is missing");
    }
    whole += piece->kvs(0).value();
  }
  return whole + last;
}

Result<std::string> EtcdJournal::chunk(const SnapshotHead& head, std::uint32_t index) {
  auto found = read_paged(chunk_key(head.batch, index), behind(key("c/" + digits(head.batch))));
  if (!found || !found->empty()) return found;
  return Error(Errc::kCorruptState, "journal " + place() + ": chunk " + std::to_string(index) +
                                        " of the snapshot is missing");
}

// --- Writing.

std::string EtcdJournal::batch_key(std::uint64_t number) const {
  return key("b/" + digits(number));
}
std::string EtcdJournal::part_key(std::uint64_t number, std::size_t part) const {
  return key("p/" + digits(number) + "/" + digits(part));
}
std::string EtcdJournal::chunk_key(std::uint64_t batch, std::uint32_t index) const {
  return key("c/" + digits(batch) + "/" + digits(index));
}

// A revision may come again when a snapshot of etcd is put back. The random lease does not
// (rule 35).
wire::TxnRequest EtcdJournal::guarded() const {
  wire::TxnRequest txn;
  compare_made(txn, key("leader"), leader_.load(), lease_);
  *txn.add_failure()->mutable_request_range() = one_key(key("leader"));
  return txn;
}

void EtcdJournal::wrote(BootInstant sent) {
  last_write_ = std::max(last_write_.load(), sent.time_since_epoch().count());
  no_room_ = false;
}

// The same bytes again and again, until it is known what became of them (rule 36).
Commit EtcdJournal::write(const wire::TxnRequest& txn, const Own* own) {
  bool may_be_applied = false;
  if (leader_ == 0) return Commit::kRefused;
  for (;;) {
    const BootInstant sent = BootClock::now();
    const auto answer = ask(txn, kAttempt);
    if (answer) {
      revision_ = std::max(revision_, answer->header().revision());
      settings_.seen->saw(lineage(), revision_);
      if (!answer->succeeded()) return judge_refusal(*answer, own, sent);
      wrote(sent);
      return Commit::kCommitted;
    }
    const Error& error = answer.error();
    reason_ = error.message();
    if (error.code() == Errc::kOutcomeUnknown) {
      may_be_applied = true;
    } else if (is_out_of_space(error)) {
      no_room_ = true;
      return Commit::kLater;  // Also if an attempt before it may be applied: the next call sees.
    } else if (error.code() != Errc::kUnavailable) {
      return failed_write(may_be_applied);
    }
    // Much later another server leads, or none can.
    if (BootClock::now() >= leads_until() + length_) return failed_write(may_be_applied);
    if (!pause(settings_.between_attempts)) return failed_write(may_be_applied);
  }
}

Commit EtcdJournal::judge_refusal(const wire::TxnResponse& answer, const Own* own,
                                  BootInstant sent) {
  const wire::RangeResponse* leader = answer_at(answer, 0);
  const bool leads =
      leader != nullptr && leader->kvs_size() > 0 &&
      leader->kvs(0).create_revision() == leader_ && leader->kvs(0).lease() == lease_;
  if (own != nullptr && answer.responses_size() == 3) {
    const wire::RangeResponse& found = *answer_at(answer, 1);
    if (found.kvs_size() > 0 && found.kvs(0).value() == own->bytes) {
      if (leads) wrote(sent);
      return Commit::kCommitted;
    }
    std::uint64_t snapshot = 0;
    if (const wire::RangeResponse& head = *answer_at(answer, 2); head.kvs_size() > 0) {
      std::istringstream(head.kvs(0).value()) >> snapshot;
    }
    // A snapshot of another server may have taken the batch in, and dropped it.
    if (leads || (found.kvs_size() == 0 && snapshot >= own->number)) {
      reason_ = "batch " + std::to_string(own->number) +
                ", or the snapshot of it, was not found where it was written";
      return Commit::kUnknown;
    }
  }
  const std::string other =
      leader != nullptr && leader->kvs_size() > 0 ? leader->kvs(0).value() : std::string();
  reason_ =
      "journal " + place() + ": " +
      (other.empty() ? "the lease of leadership has ended" : "another server leads: " + other);
  leader_ = 0;
  last_write_ = 0;
  return Commit::kRefused;
}

Commit EtcdJournal::look() {
  const BootInstant now = BootClock::now();
  if (now >= next_question_) ask_cluster();
  if (note_is_due(now)) return note_wait();
  if (leader_ != 0 && now < leads_until() - length_ + proof_lasts()) return Commit::kCommitted;
  return confirm();
}

// Nobody waits for the answers: a member that hangs must not hold up a commit.
void EtcdJournal::ask_cluster() {
  const BootInstant now = BootClock::now();
  next_question_ = now + kAskEvery;
  const How how{now + kReading, /*reads_only=*/true, std::nullopt};
  rpc_->call(wire::StatusRequest(), how,
             [seen = seen_](const Result<wire::StatusResponse>& status) {
               if (status) seen->size = static_cast<std::uint64_t>(status->dbsize());
             });
  rpc_->call(wire::MemberListRequest(), how,
             [seen = seen_](const Result<wire::MemberListResponse>& list) {
               if (!list) return;
               const auto voting =
                   std::count_if(list->members().begin(), list->members().end(),
                                 [](const wire::Member& each) { return !each.islearner(); });
               seen->copies = static_cast<std::size_t>(voting) / 2;
             });
}

port::DiskSpace EtcdJournal::space() const {
  const std::uint64_t size = seen_->size;
  if (settings_.quota == 0 || size == 0) return {};
  const std::uint64_t quota = settings_.quota;
  return {size, quota - std::min(size, quota), quota, "etcd's quota for the journal"};
}

// A deletion of what is not there: it goes the way of a write, makes no revision, and passes where
// etcd has no room left.
Commit EtcdJournal::confirm() {
  wire::TxnRequest txn = guarded();
  txn.add_success()->mutable_request_delete_range()->set_key(key("none"));
  return write(txn);
}

Commit EtcdJournal::commit(std::uint64_t number, std::string_view bytes) {
  if (number - head_.batch > kRoom) {
    reason_ = "there is no room until the next snapshot is written";
    return Commit::kLater;
  }
  std::string last(bytes);
  if (const std::size_t most = settings_.largest_part; bytes.size() > most) {
    std::size_t part = 0;
    for (; bytes.size() > most; ++part) {
      wire::TxnRequest txn = guarded();
      put(txn, part_key(number, part), std::string(bytes.substr(0, most)), 0);
      // Parts without their batch are nothing, so their fate need not be known.
      if (const Commit done = write(txn); done != Commit::kCommitted) {
        return done == Commit::kUnknown ? Commit::kRefused : done;
      }
      bytes.remove_prefix(most);
    }
    last = std::string(kParts) + std::to_string(part) + '\n' + std::string(bytes);
  }
  const std::string place = batch_key(number);
  wire::TxnRequest txn = guarded();
  compare_created(txn, place, 0);
  // A snapshot of etcd that was put back under this leader may lack the batch before this one.
  if (number - 1 > head_.batch) compare_exists(txn, batch_key(number - 1));
  put(txn, place, last, 0);
  *txn.add_failure()->mutable_request_range() = one_key(place);
  *txn.add_failure()->mutable_request_range() = one_key(key("head"));
  const Own own{last, number};
  const Commit done = write(txn, &own);
  recovered_ = true;
  // A full etcd still takes this, so the lead can be kept until there is room.
  if (done == Commit::kLater) static_cast<void>(confirm());
  return done;
}

Commit EtcdJournal::put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) {
  wire::TxnRequest txn = guarded();
  put(txn, chunk_key(batch, index), std::string(bytes), 0);
  return write(txn);
}

// A late copy of an earlier put must not bring back a snapshot whose chunks are gone. A refusal is
// judged as a batch's: by what lies at its key, and by the head, which are one here.
Commit EtcdJournal::put_head(const SnapshotHead& head) {
  const std::string place = key("head");
  const std::string text = head_text(head);
  wire::TxnRequest txn = guarded();
  const bool first = head_.batch == 0 && head_.count == 0;
  first ? compare_created(txn, place, 0) : compare_value(txn, place, head_text(head_));
  put(txn, place, text, 0);
  *txn.add_failure()->mutable_request_range() = one_key(place);
  *txn.add_failure()->mutable_request_range() = one_key(place);
  const Own own{text, head.batch};
  const Commit done = write(txn, &own);
  if (done != Commit::kCommitted) return done;
  head_ = head;
  superfluous_ = revision_;
  page_.clear();
  return done;
}

// Small ranges: a large deletion would hold up everybody's commits.
Result<bool> EtcdJournal::drop_first(const std::string& from, const std::string& end) {
  const auto first = read_first(from, end);
  if (!first) return first.error();
  if (first->kvs_size() == 0) return false;
  const std::string& found = first->kvs(0).key();
  const std::size_t prefix = found.rfind('/') + 1;
  const auto number = parse_lease(std::string_view(found).substr(prefix));
  if (!number) return Error(Errc::kCorruptState, place() + ": no such key: " + found);
  wire::TxnRequest txn = guarded();
  wire::DeleteRangeRequest& drop = *txn.add_success()->mutable_request_delete_range();
  drop.set_key(found);
  drop.set_range_end(std::min(
      end, found.substr(0, prefix) + digits(static_cast<std::uint64_t>(*number) + kDroppedAtOnce)));
  if (write(txn) != Commit::kCommitted) return Error(Errc::kUnavailable, reason_);
  return true;
}

Result<bool> EtcdJournal::trim() {
  const struct {
    std::string folder;
    std::uint64_t behind;
  } dropped[] = {
      {key("b/"), head_.batch + 1}, {key("p/"), head_.batch + 1}, {key("c/"), head_.batch}};
  for (const auto& each : dropped) {
    auto more = drop_first(each.folder, each.folder + digits(each.behind));
    if (!more || *more) return more;
  }
  compact();
  return false;
}

// Only up to the last head: a server that takes over meanwhile reads above it.
void EtcdJournal::compact() {
  if (!settings_.compacts || superfluous_ == 0) return;
  wire::CompactionRequest request;
  request.set_revision(superfluous_);
  if (ask(std::move(request), kReading)) superfluous_ = 0;
}

}  // namespace holdfast::stores::etcd
