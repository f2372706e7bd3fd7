// The session's writes. They keep the order of each lock, share batches among locks, and are never
// applied late.
//
// Creations and removals of contenders of different locks form a batch, one transaction
// (src/contend/batch_queue.h says when). Consul applies all of it or nothing. After a refusal each
// part is sent again alone, because only one of them may have been refused.
//
// Every write is a transaction that expects the index of the session's fence key. After a write of
// unknown outcome the client first writes the fence. From then on the old write cannot be applied,
// wherever it still is. Other writes under way are refused for that, and sent again. So late
// duplicates, also those by libcurl or by Consul's forwarding, cannot create an unknown contender.
//
// Guarantee: writes about one lock are sent one after the other, in the order of the calls. But a
// removal does not wait for the entries of other contenders before it, and runs beside one of them.
// Each write is answered once, not inline: kLost (not the session of `epoch`), kUnavailable (not
// sent by the deadline, or surely not applied), kOutcomeUnknown, or errors.h's error for a refusal.
// Thread-safety: the loop only. Time: boot time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/batch_queue.h"
#include "src/port/boot_timer.h"
#include "src/stores/consul/store_session.h"
#include "src/stores/consul/transport/http.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {

struct Write {  // A requested write.
  std::string lock;
  std::uint64_t epoch = 0;
  const char* what = "";                    // For messages: "release".
  std::function<void(Transaction&)> steps;  // After the step that checks the fence.
  base::BootInstant deadline{};
  // failed_at counts from the first of `steps`; the pairs are those of its lock's folder.
  std::function<void(Result<TransactionReply>)> done;
  // May share a transaction with other locks: it has at most kMostSteps, all about keys in its
  // lock's folder.
  bool joins = false;
  std::size_t bytes = 0;  // The approximate size, if it joins.
  // The contender's key, if it only enters or removes that one. A removal does not wait for the
  // entries of others in its lock: the next holder waits for it. All other writes of a lock go one
  // after the other.
  std::string enters{};
  std::string removes{};
};

class Writes : public std::enable_shared_from_this<Writes> {
 public:
  // For a part of a batch.
  static constexpr std::size_t kMostSteps = 3;

  Writes(asio::io_context& io, HttpLoop& http, StoreSession& session, const Keys& keys,
         std::size_t agents);

  void send(Write write);
  // Runs it as soon as no write with an unknown outcome is left, perhaps at once. Not inline.
  void behind(base::BootInstant deadline, std::function<void(Result<void>)> task);
  bool fencing() const { return fencing_; }
  // The time for one attempt, which leaves time to ask another agent.
  std::chrono::milliseconds patience(base::BootInstant deadline) const;

  void stop();
  void abandon() noexcept { timer_.abandon(); }

 private:
  struct Entry {
    Write write;
    bool busy = false;    // Under way, or about to be answered.
    bool queued = false;  // Waits to join a batch.
    bool alone = false;   // Its batch was refused.
  };
  using EntryPtr = std::shared_ptr<Entry>;
  // One transaction.
  struct Call {
    std::vector<EntryPtr> entries;
    std::string fence_key{};  // The fence key of the session that it was sent under.
    std::uint64_t fence = 0;
    std::optional<base::BootInstant> joined;  // For BatchQueue::answered().
  };
  struct Behind {
    base::BootInstant deadline;
    std::function<void(Result<void>)> task;
  };

  void step(const std::string& lock);
  void start(const std::string& lock, const std::shared_ptr<Entry>& entry);
  std::optional<Error> refusal_of(const Write& write) const;
  void send_batch();
  void send_call(Call call, base::BootInstant deadline);
  void on_answer(const Call& call, const Result<HttpReply>& reply);
  void on_refusal(const Call& call, TransactionReply answer);
  void finish_each(const Call& call, TransactionReply answer);
  void again(const EntryPtr& entry);
  void finish(const EntryPtr& entry, Result<TransactionReply> result);
  void raise_fence();
  void on_fence(const Result<HttpReply>& reply);
  bool fence_is_gone();
  void set_fence(std::uint64_t index);
  void fence_is_up();
  void retry_fence();
  void read_fence();
  void drop_late();

  asio::io_context& io_;
  HttpLoop& http_;
  StoreSession& session_;
  const Keys keys_;
  const bool several_;
  port::BootTimer timer_;
  std::map<std::string, std::deque<EntryPtr>> chains_;
  contend::BatchQueue<EntryPtr> batches_;
  bool sending_ = false;  // A send is due at the end of the loop's turn.
  std::vector<Behind> behind_;
  bool fencing_ = false;
  std::uint64_t fencing_epoch_ = 0;
  bool stopped_ = false;
};

}  // namespace holdfast::stores::consul
