// A cluster of the lock service as small as its argument allows: one etcd, two servers, one lock,
// three clients, one of which holds it from the start. The search (search_test.cc) takes every step
// from every state; design page 0063 has the argument.
//
// What stands for what: a step that is not taken yet is a pause, a message that stays on its way
// is late, and one that stays for ever is lost. Replies reach clients at once, since a later reply
// only shortens the time in which a client believes to hold.
//
// Left out: batches of several steps, queues, snapshots. The shard's simulation has those.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/seen_states.h"

namespace holdfast::testing::cluster {

using N = std::uint8_t;
constexpr std::size_t kServers = 2;
constexpr std::size_t kClients = 3;
constexpr N kNobody = 0;  // Clients are counted from one where somebody may be absent.

// One wrong rule at a time: the mutants of the safety rules.
enum class Flaw : std::uint8_t {
  kNone,
  kNoGuard,
  kKeyOverwritten,
  kNoLookAtDeadline,
  kLooksBeforeReading,
  kNoExtension,
  kNoLeadershipLease,  // The extension lacks D.
  kLongerUnjournaled,
  kRepliesEarly,
  kHeartbeatTellsUncommitted,
  kReadsBeforeOwning,
  kOtherBytes,
  kRenewsAfterClosing,
  kRefusedMeansNever,
};

struct Scope {
  N ticks = 4;
  N lease = 1;          // Clients' leases last so long.
  N longer = 0;         // A renewal may ask for this length; 0: none does.
  N leadership = 1;     // The leader key's lease.
  N take_overs = 2;
  N crashes = 0;
  N early_ends = 0;     // The key vanishes before its lease ends.
  N repeats = 0;        // A batch stays on its way after it arrived.
  N lost_answers = 0;
  N keepalives = 0;
  N renewals = 1;       // The first holder sends so many.
  N others_renewals = 0;
  N contenders = 2;     // Clients beside the holder.
  N closings = 0;
  N resends = 0;        // Clients that ask again.
  bool releases = true;
  bool by_write = false;  // Renewals are answered after a guarded write, not by the deadline.
  Flaw flaw = Flaw::kNone;
};

enum class Kind : std::uint8_t { kNone, kTakeOver, kGrant, kRelease, kLonger, kClosing, kRenewal };

// One batch. A kRenewal is the guarded write that leaves nothing.
struct Record {
  Kind kind{};
  N client{}, length{}, token{}, at{}, end{}, revision{};
  friend bool operator==(const Record&, const Record&) = default;
  friend auto operator<=>(const Record&, const Record&) = default;
};

struct Write {
  N server{}, life{}, revision{}, number{};
  Record record{};
  friend auto operator<=>(const Write&, const Write&) = default;
};

// A transaction's answer. All its reads are of the same revision.
struct Answer {
  enum class Own : std::uint8_t { kAbsent, kSame, kOther };
  bool is = false;
  bool done = false;
  bool leads = false;  // The leader key is still this term's.
  Own own{};
  N number{};
};

struct Machine {
  N holder{}, end{}, length{}, token{};  // `length`: the longest that the journal knows.
};

struct Server {
  enum class Role : std::uint8_t { kStandby, kOwns, kMayRead, kLeads, kCloses };
  Role role = Role::kStandby;
  N life{}, revision{}, deadline{}, number{};
  bool looked = false;  // kLooksBeforeReading: the deadline was good a while ago.
  N keepalive{};        // Its sending, plus one; 0: none is under way.
  Machine machine{};
  bool has_read = false;
  // The batch under way, and the reply that waits for it.
  bool pending = false;
  Record record{};
  N asked{}, reply_length{};
  Answer answer{};
};

struct Client {
  enum class Phase : std::uint8_t { kIdle, kAsks, kHolds, kOver };
  Phase phase = Phase::kIdle;
  N deadline{}, renewals{}, resends{};
  // Its requests on their way: the sending plus one; 0: none.
  N acquire{}, renew{}, renew_length{}, release{};
};

struct State {
  static constexpr std::size_t kMostRecords = 12;
  std::array<Server, kServers> servers{};
  std::array<Client, kClients> clients{};
  std::array<Record, kMostRecords> journal{};  // By number; number zero is unused.
  std::vector<Write> writes{};                 // On their way, sorted.
  N owner{};  // The server that has the leader key, plus one; 0: it is absent.
  N revision{}, last_revision{}, key_end{};
  N now{}, take_overs{}, crashes{}, early_ends{}, repeats{}, lost_answers{}, keepalives{};
  N closings{};
  N highest_token{};

  std::uint64_t hash() const {
    StateText text;
    const auto put = [&](auto... parts) { (text.put(parts), ...); };
    for (const Server& one : servers) {
      put(one.role, is_life_known(one) ? one.life : 0, one.revision, one.deadline, one.number);
      put(one.looked, one.keepalive);
      put(one.machine.holder, one.machine.end, one.machine.length, one.machine.token);
      put(one.has_read);
      put(one.pending, one.asked, one.reply_length);
      put_record(text, one.record);
      put(one.answer.is, one.answer.done, one.answer.leads, one.answer.own, one.answer.number);
    }
    for (const Client& one : clients) {
      put(one.phase, one.deadline, one.renewals, one.resends);
      put(one.acquire, one.renew, one.renew_length, one.release);
    }
    put_journal(text);
    put(owner, revision, last_revision, key_end, now, take_overs, crashes, early_ends, repeats);
    put(lost_answers, keepalives, closings, highest_token, writes.size());
    for (const Write& one : writes) {
      put(one.server, one.life, one.revision, one.number);
      put_record(text, one.record);
    }
    const std::uint64_t mixed = text.mix(1);
    return mixed == 0 ? 1 : mixed;
  }

 private:
  // A life matters while a write names it.
  bool is_life_known(const Server& server) const {
    const auto at = static_cast<N>(&server - servers.data());
    return std::any_of(writes.begin(), writes.end(),
                       [&](const Write& write) { return write.server == at; });
  }

  // Nobody compares records below all numbers in use: of these a recovery learns what comes after
  // the last grant, without times and terms.
  void put_journal(StateText& text) const {
    std::size_t compared = kMostRecords;
    for (const Server& one : servers) {
      if (one.role == Server::Role::kStandby) continue;
      compared = std::min<std::size_t>(compared, one.number);
    }
    for (const Write& one : writes) compared = std::min<std::size_t>(compared, one.number);
    std::size_t grant = 0;
    for (std::size_t at = 1; at < compared; ++at) {
      if (journal[at].kind == Kind::kGrant) grant = at;
    }
    for (std::size_t at = 1; at < kMostRecords; ++at) {
      Record record = journal[at];
      if (record.kind == Kind::kNone) return;
      if (at < compared) record.at = record.revision = 0;
      if (at < compared && at < grant) record = {Kind::kTakeOver, 0, 0, 0, 0, 0, 0};
      put_record(text, record);
    }
  }

  static void put_record(StateText& text, const Record& record) {
    text.put(record.kind);
    if (record.kind == Kind::kNone) return;
    for (const N part : {record.client, record.length, record.token, record.at, record.end,
                         record.revision}) {
      text.put(part);
    }
  }
};

}  // namespace holdfast::testing::cluster
