// Batches creations and removals of contenders that wait at the same time.
//
// The server applies a batch as a whole or not at all, under one zxid. So every created node has
// this zxid. The library reports the zxid of a write but not of a creation. Therefore each batch
// also writes to the session's own node.
//
// Guarantee: each part is answered once, as if it had been sent alone. If the server refuses one
// part it refuses the batch, and each part is sent again by itself. Parts that wait for a folder at
// settle() are sent before the caller's next request.
// Not guaranteed: the order of two parts about one lock after the batch of the first one was
// refused. A contender that is removed late blocks the next one until then, and two creations may
// change places in the queue.
// Thread-safety: the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/contend/batch_queue.h"
#include "src/port/store.h"
#include "src/stores/zookeeper/session/store_session.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/transport/pending.h"

namespace holdfast::stores::zookeeper {

class EntryBatch : public std::enable_shared_from_this<EntryBatch> {
 public:
  struct Part {
    std::string folder;
    Step step;  // kEnter or kRemove, in that folder.
    std::uint64_t epoch = 0;
    std::shared_ptr<PendingBase> op;  // Once over, the part is neither sent nor answered.
    Link::Done done;
  };

  EntryBatch(port::Loop& loop, std::shared_ptr<StoreSession> session);

  // Call it from a task of StoreSession::when_ready().
  void add(Part part);
  // Sends the waiting parts. Call it before any other request about that folder.
  void settle(const std::string& folder);

 private:
  void send_later();
  bool send_next(bool anyway);
  bool can_go(Part& part);
  void ask(const Part& part, Link::Done done);
  void send_alone(const Part& part, base::BootInstant deadline);
  void send_together(const std::shared_ptr<std::vector<Part>>& parts, base::BootInstant deadline);
  void on_answer(std::vector<Part>& parts, const Reply& whole);
  void ask_again(Part part);

  port::Loop* loop_;
  std::shared_ptr<StoreSession> session_;
  contend::BatchQueue<Part> batches_;
  bool sends_later_ = false;
};

}  // namespace holdfast::stores::zookeeper
