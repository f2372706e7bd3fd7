// Creations and removals of contenders that wait together go to the server as one request.
//
// Such a request is applied as a whole or not at all, under one zxid, which so is that of every
// node that it creates. The library does not tell it of those, but of a write: so one to the
// session's own node goes with them.
//
// Guarantee: each part is answered once, and as if it had gone alone: where one was refused, so was
// the whole request, and each is asked for again by itself. What settle() was called for goes
// ahead of what its caller sends then.
// Not guaranteed: the order of two parts about one lock after the first was part of a request that
// was refused. A contender that is removed late is in the way of the one behind it until then, and
// of two that come in the other order the first to come holds first.
// Thread-safety: the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/contend/batch_queue.h"
#include "src/port/store.h"
#include "src/stores/zookeeper/link.h"
#include "src/stores/zookeeper/pending.h"
#include "src/stores/zookeeper/session.h"

namespace holdfast::stores::zookeeper {

class EntryBatch : public std::enable_shared_from_this<EntryBatch> {
 public:
  struct Part {
    std::string folder;
    Step step;  // kEnter or kRemove, below that folder.
    std::uint64_t epoch = 0;
    std::shared_ptr<PendingBase> op;  // A part that is over by then is not sent, and not answered.
    Link::Done done;
  };

  EntryBatch(port::Loop& loop, std::shared_ptr<Session> session);

  // In what Session::when_ready() runs.
  void add(Part part);
  // Before anything else is asked about that folder: what waits is sent.
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
  std::shared_ptr<Session> session_;
  contend::BatchQueue<Part> batches_;
  bool sends_later_ = false;
};

}  // namespace holdfast::stores::zookeeper
