// The session's writes: in order for each lock, several locks in one batch, and none of them late.
//
// Creations and removals of contenders of different locks form a batch, one transaction
// (src/contend/batch_queue.h says when). Consul applies all of it or nothing. After a refusal each
// part is sent again alone, because only one of them may have been refused.
//
// Every write is a transaction that expects the index of the session's fence key. After a write of
// unknown outcome the client first writes the fence. From then on the old write cannot be applied,
// wherever it still is. Other writes that were under way and refused for that reason are sent once
// more. So late duplicates, also those of libcurl and of Consul's forwarding, cannot make a
// contender that nobody knows of.
//
// Guarantee: writes about one lock are sent one after the other, in the order in which they were
// asked for. Every one is answered once, not inline: kLost (not the session of `epoch`),
// kUnavailable (nothing was sent by the deadline, or surely not carried out), kOutcomeUnknown, or
// what errors.h says of a refusal.
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

struct Write {  // One that is asked for.
  std::string lock;
  std::uint64_t epoch = 0;
  const char* what = "";                    // For messages: "release".
  std::function<void(Transaction&)> steps;  // Behind the one that looks at the fence.
  base::BootInstant deadline{};
  // failed_at counts from the first of `steps`; the pairs are those of its lock's folder.
  std::function<void(Result<TransactionReply>)> done;
  // May share a transaction with other locks': it has kMostSteps at most, about keys in its lock's
  // folder only.
  bool joins = false;
  std::size_t bytes = 0;  // About: of one that joins.
};

class Writes : public std::enable_shared_from_this<Writes> {
 public:
  // For a part that joins others.
  static constexpr std::size_t kMostSteps = 3;

  Writes(asio::io_context& io, HttpLoop& http, StoreSession& session, const Keys& keys,
         std::size_t agents);

  void send(Write write);
  // Runs it when no write is left that might still be carried out; at once where there is none.
  // Not inline.
  void behind(base::BootInstant deadline, std::function<void(Result<void>)> task);
  bool fencing() const { return fencing_; }
  // The time for one try: another agent may have to be asked.
  std::chrono::milliseconds patience(base::BootInstant deadline) const;

  void stop();
  void abandon() noexcept { timer_.abandon(); }

 private:
  struct Entry {
    Write write;
    bool busy = false;    // Under way, or about to be answered.
    bool queued = false;  // It is to be joined with others.
    bool alone = false;   // It was refused together with others.
  };
  using EntryPtr = std::shared_ptr<Entry>;
  // One transaction's.
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
  bool sending_ = false;  // At the end of the loop's turn.
  std::vector<Behind> behind_;
  bool fencing_ = false;
  std::uint64_t fencing_epoch_ = 0;
  bool stopped_ = false;
};

}  // namespace holdfast::stores::consul
