// The lock service's journal in an etcd cluster, shared by any number of servers of which one leads
// (docs/design/0064-journal-on-etcd.md; the argument is 0063).
//
//   <prefix>hf1/j/leader          the leader's address, on its lease; made anew with each term
//   <prefix>hf1/j/about           the journal's id, the cluster's, the longest lease of leadership
//   <prefix>hf1/j/head            the snapshot that is valid
//   <prefix>hf1/j/b/<number>      a batch; a large one has its first parts under p/<number>/
//   <prefix>hf1/j/c/<batch>/<i>   a chunk of a snapshot
//   <prefix>hf1/j/m/              see members.h
//
// A journal with several shards has all but the last of these under s<shard>/ for each. Its own key
// `about` says how many there are, see journal_shards.h.
//
// Guarantee: as port::Journal. Each write is one transaction that compares the leader key's
// create_revision; a batch also compares that its number is not taken.
// leads_until() counts from the send of the last such write that succeeded, not from a keepalive,
// because etcd may confirm a keepalive of a lease that has ended (etcd #20590).
//
// A snapshot that etcd restored is noticed by its log, which begins anew while revisions go on.
// Not guaranteed: that folders of etcd's members that were put back are noticed. Revisions that
// went back show it, to a process that has seen newer ones.
//
// Thread-safety and blocking: as port::Journal. Ownership: connections of its own.
// Time: boot time. Errors: as port::Journal; kUnavailable while no majority answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/base/local_mutex.h"
#include "src/port/service/journal.h"
#include "src/port/service/shards.h"
#include "src/port/url_options.h"
#include "src/stores/etcd/journal/seen_revisions.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

inline constexpr port::UrlOption kJournalOptions[] = {
    port::time_option("leadership", "15s",
                      "the lease of leadership, in whole seconds; 5s where etcd ends none early",
                      std::chrono::seconds(2), std::chrono::minutes(5)),
    port::word_option("compact", "yes",
                      "compact etcd's history, too: only where nothing else uses this etcd"),
    port::number_option("quota", "2048",
                        "etcd's --quota-backend-bytes in MiB, which it does not tell", 1'048'576),
};

struct JournalSettings {
  EtcdAddress address;
  port::ShardNumber shard{};
  std::chrono::seconds leadership{};  // Zero: by the servers' version.
  bool compacts = false;
  std::uint64_t quota = 0;  // Bytes; zero: not known.
  // No options: tests alone set them. etcd takes 1.5 MiB for one request.
  std::size_t largest_part = std::size_t{1} << 20U;
  std::chrono::milliseconds between_attempts{20};
  std::chrono::milliseconds between_notes = port::RestoredWait::kNoteEvery;
  std::shared_ptr<SeenRevisions> seen = SeenRevisions::of_process();
};

// Errors: kInvalidArgument.
Result<JournalSettings> parse_journal_url(port::StoreUrl& url);

// The prefix of a journal's keys.
std::string journal_root(const EtcdAddress& address);
// The part of the keys after it. Empty: the journal has one shard.
std::string shard_folder(port::ShardNumber shard);

class EtcdJournal final : public port::Journal {
 public:
  // Asks a server for its version. Errors: as Rpc::make(); kUnavailable.
  static Result<std::unique_ptr<port::Journal>> make(JournalSettings settings,
                                                     base::BootInstant open_by);
  EtcdJournal(JournalSettings settings, std::unique_ptr<Rpc> rpc);
  ~EtcdJournal() override;  // Gives the lead up, so that another server need not wait for it.

  bool is_shared() const noexcept override { return true; }
  Result<bool> lead(const std::string& told, base::BootInstant until) override;
  void interrupt() noexcept override;
  std::string leader() const override;
  base::BootInstant leads_until() const noexcept override;
  bool answers() const noexcept override;
  void keep_leading() override;
  bool confirms_renewals() const noexcept override { return true; }

  Result<void> open() override;
  std::string id() const override { return about_.id; }
  std::string term() const override { return term_; }
  port::JournalAtOpen opening() const override { return opening_; }
  Result<void> settle() override;
  port::Commit look() override;
  port::Commit confirm() override;

  Result<port::SnapshotHead> head() override { return head_; }
  Result<std::string> chunk(const port::SnapshotHead& head, std::uint32_t index) override;
  Result<std::uint64_t> last() override;
  Result<std::string> batch(std::uint64_t number) override;
  port::Commit commit(std::uint64_t number, std::string_view bytes) override;
  std::uint64_t room() const override { return kRoom; }
  port::DiskSpace space() const override;
  std::size_t copies() const noexcept override { return seen_->copies; }
  port::Commit put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) override;
  port::Commit put_head(const port::SnapshotHead& head) override;
  Result<bool> trim() override;
  std::string reason() const override { return reason_; }
  std::string place() const override;

 private:
  static constexpr std::uint64_t kRoom = 100'000;
  static constexpr std::chrono::milliseconds kReading{5'000};

  struct About {
    std::string id;
    std::uint64_t cluster = 0;
    std::chrono::milliseconds longest{};  // The lease of leadership of any term so far.
    std::int64_t created = 0;
    std::int64_t modified = 0;   // Zero: there is none yet.
    std::uint64_t waits_in = 0;  // A restored copy waits in that cluster. Zero: none does.
    port::RestoredWait wait{};
    // etcd's log had so many entries before this was written first. Zero: not known.
    std::uint64_t entries = 0;
  };
  // A batch that is being committed: what lies at its key tells whether it was.
  struct Own {
    std::string_view bytes;
    std::uint64_t number = 0;
  };

  template <typename Request>
  Result<typename Method<Request>::Response> ask(Request request, std::chrono::milliseconds limit,
                                                 bool reads_only = false);
  Result<wire::RangeResponse> read(wire::RangeRequest request);
  Result<wire::RangeResponse> read_first(const std::string& from, const std::string& end,
                                         bool last = false);
  Result<std::string> read_paged(const std::string& key, const std::string& end);

  Result<bool> try_to_lead();
  Result<bool> take_lead(About next);
  void judge_opening(About& about, bool began, bool log_began_anew = false);
  // Zero: not known.
  std::uint64_t count_entries(std::uint64_t member);
  std::string lineage() const;
  Result<void> put_about();
  bool note_is_due(base::BootInstant now) const;
  port::Commit note_wait();
  // The wait of a copy that was put back begins, or goes on.
  void begin_wait(About& about);
  void begin_wait_anew(About& about);
  void leads(std::int64_t created, std::int64_t revision, base::BootInstant sent);
  static Result<About> parse_about(const wire::RangeResponse& range);
  static std::string about_text(const About& about);
  void wait_for_change(base::BootInstant until) HOLDFAST_EXCLUDES(mutex_);
  bool pause(std::chrono::milliseconds time) HOLDFAST_EXCLUDES(mutex_);
  bool interrupted() const HOLDFAST_EXCLUDES(mutex_);

  wire::TxnRequest guarded() const;
  port::Commit write(const wire::TxnRequest& txn, const Own* own = nullptr);
  port::Commit judge_refusal(const wire::TxnResponse& answer, const Own* own,
                             base::BootInstant sent);
  void wrote(base::BootInstant sent);
  std::chrono::nanoseconds proof_lasts() const;
  Result<bool> drop_first(const std::string& from, const std::string& end);
  void compact();
  void ask_cluster();

  std::string key(std::string_view rest) const { return root_ + std::string(rest); }
  std::string batch_key(std::uint64_t number) const;
  std::string part_key(std::uint64_t number, std::size_t part) const;
  std::string chunk_key(std::uint64_t batch, std::uint32_t index) const;

  const JournalSettings settings_;
  const std::string root_;
  const std::unique_ptr<Rpc> rpc_;
  std::string told_;
  std::chrono::seconds length_{};  // The lease of leadership.

  About about_;
  std::uint64_t cluster_ = 0;
  std::string term_;
  port::JournalAtOpen opening_;
  base::BootInstant noted_{};  // The wait of a restored copy was noted then.
  port::SnapshotHead head_;
  // The leader key's create_revision; zero: not the leader. The loop reads it, too.
  std::atomic<std::int64_t> leader_{0};
  std::int64_t revision_ = 0;     // Reads are at least this new.
  std::int64_t superfluous_ = 0;  // History up to this revision; zero: none.
  std::map<std::string, std::string> page_;
  std::int64_t page_size_ = 64;
  bool recovered_ = false;
  std::string reason_;

  // The lease, and the deadline that counts from the last guarded write.
  std::int64_t lease_ = 0;
  std::atomic<std::int64_t> last_write_{0};  // Boot time of its send.
  std::atomic<bool> no_room_{false};
  std::atomic<bool> keeping_{false};
  std::atomic<std::size_t> keeper_{0};
  base::BootInstant next_keep_{};

  // As a member said last; zero: none has. An answer may outlive the journal.
  struct ClusterFacts {
    std::atomic<std::uint64_t> size{0};  // The bytes of etcd's database.
    std::atomic<std::size_t> copies{0};  // A majority of the members, less one.
  };
  const std::shared_ptr<ClusterFacts> seen_ = std::make_shared<ClusterFacts>();
  base::BootInstant next_question_{};

  mutable base::LocalMutex mutex_;
  base::LocalCondition changed_;
  bool interrupted_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool key_changed_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::string leader_text_ HOLDFAST_GUARDED_BY(mutex_);
  std::uint64_t watch_ = 0;
};

template <typename Request>
Result<typename Method<Request>::Response> EtcdJournal::ask(Request request,
                                                            std::chrono::milliseconds limit,
                                                            bool reads_only) {
  using Response = typename Method<Request>::Response;
  const auto told = std::make_shared<std::promise<Result<Response>>>();
  auto answer = told->get_future();
  rpc_->call(std::move(request), How{base::BootClock::now() + limit, reads_only, std::nullopt},
             [told](Result<Response> result) { told->set_value(std::move(result)); });
  return answer.get();
}

}  // namespace holdfast::stores::etcd
