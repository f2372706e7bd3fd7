// One owner of a run. It makes every call of the subject, and records the events around it.
//
// Guarantee: the invocation is recorded before the subject is called, and the return after its
// answer. So no action of a workload is missing from the history.
//
// Thread-safety: an Actor and its holds belong to one thread.
// Ownership: refers to subject, recorder and resource; holds refer to their actor.
// Errors: std::runtime_error if the recorder is full, because then the run cannot be judged.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/recorder/recorder.h"
#include "lab/resource/resource.h"
#include "lab/subject/subject.h"

namespace holdfast::lab {

struct Stage {
  Subject& subject;
  Recorder& recorder;
  Resource& resource;
  std::uint32_t process = 0;
  std::vector<std::string> locks;  // History::locks.
};

struct Want {
  std::uint32_t lock = 0;
  Mode mode = Mode::exclusive();
  std::chrono::milliseconds ttl{1000};
  std::chrono::milliseconds wait{0};
  std::stop_token cancel{};
};

class ActorHold;

class Actor {
 public:
  Actor(Stage& stage, std::uint32_t owner) : stage_(stage), owner_(owner) {}

  // Null if not granted; last() says why.
  std::unique_ptr<ActorHold> acquire(const Want& want);
  Outcome last() const { return last_; }
  // Events of the whole process so far.
  std::uint64_t recorded() const { return stage_.recorder.recorded(); }

 private:
  friend class ActorHold;
  void record(const Event& event);

  Stage& stage_;
  const std::uint32_t owner_;
  Outcome last_ = Outcome::kNone;
};

// An owner's hold. If it is destroyed without release(), it is forgotten; the subject decides what
// that means.
class ActorHold : private Listener {
 public:
  ActorHold(Actor& actor, const Event& base);
  ~ActorHold() override;

  bool held();
  Outcome renew(std::chrono::milliseconds ttl);
  Outcome release();
  // Writes to the resource; false if it refused.
  bool write();

  std::uint32_t lock() const { return base_.lock; }
  std::int64_t deadline_ns() const { return hold_->deadline_ns(); }
  // The common part of its events: id, token, lock, mode.
  const Event& base() const { return base_; }

 private:
  friend class Actor;
  void renewed(const Id& id, std::int64_t sent_ns, std::int64_t deadline_ns) override;
  void lost(const Id& id) override;
  Event begin(Kind kind);
  void end(Event event, Outcome outcome);

  Actor& actor_;
  Event base_;  // The common part of all events of the hold.
  std::unique_ptr<Hold> hold_;
};

}  // namespace holdfast::lab
