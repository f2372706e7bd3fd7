#include "src/stores/zookeeper/entry_batch.h"

#include <algorithm>
#include <utility>

#include <zookeeper/zookeeper.h>

#include "src/base/clock.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootClock;
using base::BootInstant;

// Whether the failure concerns every part, so that sending the parts one by one would not help.
bool concerns_each(int rc) {
  switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZINVALIDSTATE:
    case ZAUTHFAILED:
    case ZCLOSING: return true;
    default: return false;
  }
}

std::size_t size_of(const Step& step) { return step.path.size() + step.data.size(); }

}  // namespace

EntryBatch::EntryBatch(port::Loop& loop, std::shared_ptr<StoreSession> session)
    : loop_(&loop), session_(std::move(session)), batches_(contend::BatchLimits{}) {}

void EntryBatch::add(Part part) {
  std::string folder = part.folder;
  const std::size_t bytes = size_of(part.step);
  const BootInstant deadline = part.op->deadline;
  batches_.add(std::move(folder), deadline, bytes, std::move(part));
  send_later();
}

void EntryBatch::settle(const std::string& folder) {
  while (batches_.waits(folder)) send_next(/*anyway=*/true);
}

// Sends at the end of the loop's turn, so that all requests of this turn share a batch.
void EntryBatch::send_later() {
  if (std::exchange(sends_later_, true)) return;
  loop_->post([self = shared_from_this()] {
    self->sends_later_ = false;
    while (self->send_next(/*anyway=*/false)) {
    }
  });
}

bool EntryBatch::send_next(bool anyway) {
  std::vector<Part> late;  // Their callers' deadlines answer them.
  auto call =
      anyway ? batches_.take_anyway(BootClock::now(), late) : batches_.take(BootClock::now(), late);
  if (call.parts.empty()) return false;
  std::vector<Part> parts;
  for (Part& part : call.parts) {
    if (can_go(part)) parts.push_back(std::move(part));
  }
  for (const Part& part : parts) part.op->sent_to_write = true;
  if (parts.empty()) {
    batches_.answered(call.deadline);
  } else if (parts.size() == 1) {
    send_alone(parts.front(), call.deadline);
  } else {
    send_together(std::make_shared<std::vector<Part>>(std::move(parts)), call.deadline);
  }
  return true;
}

// Since the part was added, its caller may have left, and its session or connection may have ended.
bool EntryBatch::can_go(Part& part) {
  if (part.op->over()) return false;
  if (!session_->can_ask()) {
    const auto op = part.op;
    session_->when_ready(op, [self = shared_from_this(), part = std::move(part)]() mutable {
      self->add(std::move(part));
    });
    return false;
  }
  // A contender of an ended session must not be created in the next one.
  if (session_->view().epoch == part.epoch) return true;
  loop_->post([done = std::move(part.done)] { done(Reply{ZSESSIONEXPIRED}); });
  return false;
}

void EntryBatch::ask(const Part& part, Link::Done done) {
  Link& link = session_->link();
  if (part.step.kind == Step::Kind::kRemove) return link.remove(part.step.path, std::move(done));
  link.create(part.step.path, part.step.data, NodeKind::kContender, std::move(done));
}

void EntryBatch::send_alone(const Part& part, BootInstant deadline) {
  auto answered = [self = shared_from_this(), done = part.done, deadline](const Reply& reply) {
    self->batches_.answered(deadline);
    done(reply);
    self->send_later();
  };
  ask(part, Link::Done::always(std::move(answered)));
}

void EntryBatch::send_together(const std::shared_ptr<std::vector<Part>>& parts,
                               BootInstant deadline) {
  std::vector<Step> steps;
  steps.reserve(parts->size() + 1);
  bool enters = false;
  for (const Part& part : *parts) {
    enters = enters || part.step.kind == Step::Kind::kEnter;
    steps.push_back(part.step);
  }
  // This write reports the zxid of the batch, which is also the creation of each contender.
  if (enters) steps.push_back({Step::Kind::kSet, session_->own_node()});
  auto answered = [self = shared_from_this(), parts, deadline](const Reply& reply) {
    self->batches_.answered(deadline);
    self->on_answer(*parts, reply);
    self->send_later();
  };
  session_->link().multi(std::move(steps), Link::Done::always(std::move(answered)));
}

void EntryBatch::on_answer(std::vector<Part>& parts, const Reply& whole) {
  const bool refused = whole.rc != ZOK && !concerns_each(whole.rc);
  std::size_t entered = 0;
  for (Part& part : parts) {
    Reply reply{whole.rc};
    if (whole.rc == ZOK && part.step.kind == Step::Kind::kEnter) {
      reply.text = whole.names[entered++];
      reply.stat.created = reply.stat.modified = whole.stat.modified;
    }
    if (refused) {
      ask_again(std::move(part));
    } else {
      part.done(reply);
    }
  }
}

// The refused batch applied nothing, so the part is asked for again alone.
void EntryBatch::ask_again(Part part) {
  part.op->sent_to_write = false;
  if (!can_go(part)) return;
  part.op->sent_to_write = true;
  ask(part, part.done);
}

}  // namespace holdfast::stores::zookeeper
