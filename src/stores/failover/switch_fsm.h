// Decides for one client which store of the chain it may use, and switches the chain. Pure: answers
// in, the next question out; no clock, thread or store.
//
//   Phase      asks                                  yes                    no, or no answer
//   kFollow    the record                            active: kShare         none, draining: kClaim
//   kShare     a shared authority lease of E         kConfirm               kFollow
//   kConfirm   the record once more                  still E: kServe        kFollow
//   kServe     the record and the store's stamp,     kServe, after a rest   other record: kFollow
//              and renews the lease                                         stamp gone: kClaim
//   kClaim     the exclusive lock of the record      kReread                kFollow, after a rest
//   kReread    the record                            as it was: kMark       kUnclaim
//   kMark      writes {draining, E', target}         kDrain                 kUnclaim
//   kDrain     an exclusive authority lease of last  kWait                  kDrain, after a rest
//   kWait      lets the longest lease end            kStamp
//   kStamp     writes the stamp of E' at the target  kActivate              next target: kMark
//   kActivate  writes {active, E'}                   kUnclaim               kUnclaim
//   kUnclaim   gives all locks back                  kFollow
//
// Guarantee: serving() only while the client holds a shared authority lease of E that it took
// before it read, in a later request, that E is active. A switch takes that lease exclusively after
// it marked the record: so all shared ones have ended, and whoever takes one later reads the mark.
// The record is written by the holder of its lock only.
// A client's own outage switches nothing while another one reports that it reaches the store.
// Time: boot time, handed in. Every answer is for the newest question.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/stores/failover/record.h"

namespace holdfast::stores::failover {

enum class Stamp : std::uint8_t {
  kOurs,         // This record's, word for word.
  kMissing,      // None, or one of an earlier epoch: the store has lost its memory.
  kForeign,      // Another chain's.
  kUnreachable,  // The store does not answer. Contention is no such answer.
};

class SwitchFsm {
 public:
  using BootInstant = base::BootInstant;
  using Nanos = std::chrono::nanoseconds;

  // Faults that tests put in, to see that they would be noticed.
  struct Mutation {
    bool no_confirm = false;
    bool no_mark = false;
    bool no_drain = false;
    bool no_stamp = false;  // The stamp of a store is never looked at.
    bool alone = false;     // Reports of others are not heeded.
    bool same_epoch = false;
  };

  struct Terms {
    ChainRecord first;              // To be written where there is none; its epoch is chosen then.
    std::uint32_t stores = 2;  // The length of the chain.
    Nanos tick{};              // Between two looks.
    Nanos patience{};          // How long an outage lasts before it is one.
    Nanos settled{};           // A record that is younger is not switched.
    Mutation mutation{};
  };

  enum class Phase : std::uint8_t {
    kFollow,
    kShare,
    kConfirm,
    kServe,
    kClaim,
    kReread,
    kMark,
    kDrain,
    kWait,
    kStamp,
    kActivate,
    kUnclaim,
  };

  struct Query {
    Phase phase{};
    std::uint32_t epoch = 0;  // kShare, kServe, kDrain.
    ChainRecord record{};     // kMark, kActivate: to be written; otherwise as it should be.
    bool reachable = true;    // kServe: to be reported to others.
    BootInstant not_before{};
  };
  struct Answer {
    bool yes = false;
    bool read = false;  // The record was read; none: there is none.
    std::optional<ChainRecord> record{};
    Stamp stamp = Stamp::kUnreachable;
    bool others_reach_it = false;
  };

  explicit SwitchFsm(Terms terms) : terms_(std::move(terms)) {}

  // `unix_seconds`: the wall clock, for a new epoch.
  Query next(std::uint32_t unix_seconds);
  void on_answer(BootInstant now, const Answer& answer);
  // An operator wants this store to be used.
  void order(std::uint32_t target) { ordered_ = target; }

  Phase phase() const { return phase_; }
  bool serving() const { return phase_ == Phase::kServe; }
  // The last record that was read.
  const std::optional<ChainRecord>& record() const { return record_; }
  // The active store has a stamp of another chain, and must not be used.
  bool foreign() const { return foreign_; }
  bool reaches_store() const { return !outage_since_; }

 private:
  void go(Phase phase) { phase_ = phase; }
  void rest(BootInstant now, Nanos time) { not_before_ = now + time; }
  void see(BootInstant now, const std::optional<ChainRecord>& record);
  void on_followed(BootInstant now, const Answer& answer);
  void on_served(BootInstant now, const Answer& answer);
  void on_reread(const Answer& answer);
  void on_stamped(const Answer& answer);
  void want(std::uint32_t target);
  std::uint32_t after(std::uint32_t store) const { return (store + 1) % terms_.stores; }

  Terms terms_;
  Phase phase_ = Phase::kFollow;
  BootInstant not_before_{};
  std::optional<ChainRecord> record_;
  BootInstant record_since_{};
  std::optional<ChainRecord> wanted_from_;  // The record that a switch begins from.
  std::uint32_t target_ = 0;
  std::uint32_t tried_ = 0;
  ChainRecord next_;
  std::optional<BootInstant> outage_since_;
  std::optional<std::uint32_t> ordered_;
  bool foreign_ = false;
};

}  // namespace holdfast::stores::failover
