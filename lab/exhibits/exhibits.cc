#include "lab/exhibits/exhibits.h"

#include <algorithm>

#include "lab/exhibits/scripts.h"
#include "lab/report/facts.h"

namespace holdfast::lab {
namespace {

Expectations must(std::initializer_list<Class> classes, std::initializer_list<Class> may = {}) {
  Expectations expected{};
  for (const Class each : classes) expected[static_cast<std::size_t>(each)] = Expected::kMust;
  for (const Class each : may) expected[static_cast<std::size_t>(each)] = Expected::kMay;
  return expected;
}

Expectations clean() { return {}; }

// Short limits, because the processes of exhibits wait no longer than they have to.
CheckOptions impatient() {
  CheckOptions options;
  options.grace_ns = 700'000'000;
  return options;
}

// A quorum can be missed without a holder, so busy answers are not judged.
CheckOptions without_busy() {
  CheckOptions options;
  options.busy_samples = 0;
  return options;
}

Expectations two_holders() { return must({Class::kV0, Class::kV1}); }

std::vector<Exhibit> commands() {
  return {
      {.name = "setnx-then-expire",
       .wrong = "killed between SETNX and EXPIRE: locked for ever",
       .story = "The lock and its end are two commands. Alice is killed after the first: the key "
                "has no end, and nobody will ever have the lock again.",
       .mistake = must({Class::kOrphaned}),
       .rule = "idle",
       .beside = clean(),
       .script = scripts::setnx_then_expire,
       .check = impatient()},
      {.name = "timestamp-getset",
       .wrong = "a clock that is ten seconds fast ends the lease of others",
       .story = "The value of the key is the end of the lease by the holder's clock, and whoever "
                "finds it passed may take over with GETSET. Bob's clock is ten seconds fast: to "
                "him every lease of five seconds is over as soon as it has begun.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::timestamp_getset},
      {.name = "del-without-check",
       .wrong = "a late DEL frees the lock of somebody else",
       .story = "Alice is stopped until her lease has ended and bob has the lock. Then she "
                "releases: DEL removes bob's key, and carol gets the lock while bob works.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::del_without_check},
      {.name = "get-then-del",
       .wrong = "the lease ends between GET and DEL",
       .story = "Alice looks whether the key is hers, and it is. Before her DEL arrives her lease "
                "ends and bob gets the lock; then the DEL removes bob's key, and carol comes in.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::get_then_del}};
}

std::vector<Exhibit> beliefs() {
  return {
      {.name = "no-renewal",
       .wrong = "the job took longer than the lease",
       .story = "SET NX PX is one command, and right. But the job takes twice as long as the "
                "lease, nothing renews it and nobody looks at the clock: bob begins in the middle.",
       .mistake = must({Class::kV1}),
       .beside = clean(),
       .script = scripts::no_renewal},
      {.name = "thread-id",
       .wrong = "two processes, each with a thread number 1",
       .story = "The owner is known by the number of its thread, so that it may enter again. The "
                "first thread of every process is number 1: bob re-enters alice's lock.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::thread_id},
      {.name = "lease-from-reply",
       .wrong = "the lease began when the request arrived, not with the reply",
       .story = "The reply to alice's SET is late by 150 ms. She counts her 400 ms from there; the "
                "server counted them from the request on, and gives the lock to bob.",
       .mistake = must({Class::kV1}),
       .beside = clean(),
       .script = scripts::lease_from_reply},
      {.name = "no-second-look",
       .wrong = "two waiters see that it is free, and both take it",
       .story = "Bob and carol wait until the key is gone. Both see it go, and both write it: "
                "that it was free a moment ago is no lock.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::no_second_look}};
}

std::vector<Exhibit> servers() {
  return {
      {.name = "wait-elsewhere",
       .wrong = "WAIT on another connection waits for nothing",
       .story =
           "To survive a fail-over alice asks with WAIT whether a replica has her lock. WAIT "
           "answers for the writes of its own connection; the pool gave her another one, which "
           "has written nothing, so it says yes at once. The replica had been cut off. Holdfast "
           "with ?replicas=1 asks on the same connection, and gives alice no lock.",
       .mistake = must({Class::kV1}),
       .beside = clean(),
       .script = scripts::wait_elsewhere},
      {.name = "async-failover",
       .wrong = "the replica was promoted before it had heard of the lock",
       .story = "Alice's lock is acknowledged by the primary, which dies before it has told its "
                "replica. The replica is promoted and gives bob the same lock. No client code can "
                "help: Holdfast declares it. But its tokens grow across the fail-over, so the "
                "resource refuses alice.",
       .mistake = must({Class::kV1}),
       .beside = must({Class::kV1}),
       .script = scripts::async_failover},
      {.name = "promoted-clock-behind",
       .wrong = "the promoted server's clock is behind, and so are its tokens",
       .story = "The token is the server's time. The primary's clock is 30 s ahead, and it dies "
                "before its replica has heard of alice's lock. Bob gets the lock from the replica, "
                "with a lower token, so the resource accepts alice's late write. Holdfast's tokens "
                "are at least the server's time, too, and its Redis store declares this.",
       .mistake = must({Class::kV1, Class::kV2}),
       .rule = "token-after-loss",
       .beside = must({Class::kV1, Class::kV2}),
       .script = scripts::promoted_clock_behind}};
}

std::vector<Exhibit> majorities() {
  return {
      {.name = "redlock-empty-node",
       .wrong = "one node came back empty, and voted twice",
       .story = "Alice has two votes of three. The second server restarts without its memory and "
                "votes again: with the third, which alice did not reach, bob has two votes too.",
       .mistake = must({Class::kV1}),
       .beside = clean(),
       .script = scripts::redlock_empty_node,
       .check = without_busy()},
      {.name = "redlock-tokens",
       .wrong = "the highest counter of a majority need not grow",
       .story = "Each server counts its own votes, and the token is the highest count of a "
                "majority. Votes that came to nothing raised one server's count; alice's token has "
                "it, bob's majority has never heard of it. His token is lower than hers, and when "
                "her lease is long over, the resource still takes her write.",
       .mistake = must({Class::kV0}),
       .rule = "token-order",
       .beside = clean(),
       .script = scripts::redlock_tokens,
       .check = without_busy()},
      {.name = "majority-semaphore",
       .wrong = "a majority of nodes does not bound a number of permits",
       .story = "Each server lets in two. A client that two of three servers let in holds one of "
                "two permits. Alice, bob and carol ask them in different orders. No server lets in "
                "more than two, nothing fails, and all three work. Holdfast's Redlock store "
                "refuses permits; beside this its permits are those of one server.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::majority_semaphore},
      {.name = "incr-token",
       .wrong = "the counter began again, and the guard took the old holder",
       .story = "The token is a counter beside the lock. The server restarts without its memory: "
                "the counter begins again, bob gets the number that alice has, and a guard that "
                "compares with <= takes both. Holdfast's tokens grow over a loss of memory.",
       .mistake = must({Class::kV1, Class::kV2}),
       .rule = "stale-write",
       .beside = must({}, {Class::kV1}),
       .script = scripts::incr_token},
      {.name = "failover-without-authority",
       .store = "redis + sqlite",
       .wrong = "each process decides for itself which store is the lock",
       .story =
           "Who cannot reach Redis locks in a database instead. Bob cannot, alice can: two "
           "locks of the same name, two holders. (The same hole as Redis, then ZooKeeper, then "
           "SQL, with one store less.)",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::failover_without_authority}};
}

std::vector<Exhibit> tables() {
  return {
      {.name = "row-without-expiry",
       .store = "sqlite",
       .wrong = "the holder died, its row did not",
       .story = "A unique row is the lock, and its deletion the release. Alice is killed while she "
                "holds it: the row stays until somebody deletes it by hand.",
       .mistake = must({Class::kOrphaned}),
       .rule = "idle",
       .beside = clean(),
       .script = scripts::row_without_expiry,
       .check = impatient()},
      {.name = "client-clock-expiry",
       .store = "sqlite",
       .wrong = "a clock that is ten seconds fast takes over a fresh row",
       .story = "The row has a time of expiry, by the clock of the client that wrote it, and each "
                "client compares it with its own. Bob's clock is ten seconds fast: he takes over "
                "every row whose lease is shorter than that.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::client_clock_expiry},
      {.name = "delete-without-owner",
       .store = "sqlite",
       .wrong = "a late DELETE frees the row of somebody else",
       .story = "Alice is stopped until her row has expired and bob has taken it over. Then she "
                "deletes the row by the lock's name: it is bob's, and carol gets the lock while "
                "bob works.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::delete_without_owner},
      {.name = "optimistic-version",
       .store = "sqlite",
       .wrong = "under contention most requests fail (no violation)",
       .story = "A version column is no lock and is not wrong. But of four clients that read "
                "before they write, three do their work for nothing, every time.",
       .alone = "with a lock they wait, and none fails",
       .tally = scripts::optimistic_version},
      {.name = "optimistic-retry-storm",
       .store = "sqlite",
       .wrong = "callers that fail retry at once, and fail again (no violation)",
       .story = "Sixteen callers sell four articles each, by the version of one row. A caller that "
                "fails tries again at once, so all of them meet at the row again and one wins. "
                "With a random pause and then the lock of the row, a sale costs two failed "
                "attempts at most.",
       .beside = clean(),
       .tally = scripts::optimistic_retry_storm}};
}

std::vector<Exhibit> databases() {
  return {
      {.name = "advisory-behind-pooler",
       .store = "postgres",
       .wrong = "the pooler gives both clients one session, which has the lock",
       .story = "An advisory lock belongs to a session of the server. Behind a pooler each "
                "transaction gets any session: bob's request comes to the one that has taken the "
                "lock for alice, and a session may take its own lock again.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::advisory_behind_pooler,
       .unavailable = scripts::no_pooler},
      {.name = "for-update-then-insert",
       .store = "mariadb",
       .wrong = "both find no row, lock the gap, and insert: deadlock",
       .story = "SELECT ... FOR UPDATE locks the row. There is none yet, so under REPEATABLE READ "
                "it locks the gap where the row would be, for both. Each INSERT waits for the "
                "other's gap, and the server ends one transaction with error 1213.",
       .beside = clean(),
       .tally = scripts::for_update_then_insert,
       .unavailable = scripts::no_mariadb},
      {.name = "memcached-evicts",
       .store = "memcached",
       .wrong = "the cache needs room and evicts the lock",
       .story = "Alice has taken the lock with add. Other programs fill the cache, and the server "
                "evicts the item, which nobody has read for longest. Bob's add succeeds. Alice "
                "never asks again, so both hold for the rest of her lease. Holdfast's store on "
                "the same server tells alice at her next renewal, and no store on memcached can "
                "do it sooner.",
       .mistake = must({Class::kV1}),
       .beside = must({}, {Class::kV1}),
       .script = scripts::memcached_evicts,
       .unavailable = scripts::no_memcached}};
}

// The next store of a chain, without any outage.
std::vector<Exhibit> chains() {
  return {
      {.name = "fallback-on-busy",
       .store = "redis + sqlite",
       .wrong = "the lock is busy, so the next store gives it",
       .story = "The chain asks Redis, and whoever gets no lock there asks the database. Alice "
                "holds the lock in Redis, nothing is broken, and bob gets it in the database. "
                "Holdfast's chain of the same stores tells bob that the lock is busy.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::fallback_on_busy},
      {.name = "fallback-on-exception",
       .store = "redis + sqlite",
       .wrong = "the work failed, so each store of the chain runs it again (no violation)",
       .story = "The chain runs the work under the lock of the first store, and an exception means "
                "that this store does not work. Here the work itself throws, after it has charged "
                "the customer. A chain of three stores charges ten customers three times each; "
                "those that paid more than once are counted as failed. Holdfast's chain gives the "
                "lock once, and never sees what the work throws.",
       .beside = clean(),
       .tally = scripts::fallback_on_exception}};
}

// Code of articles about locks.
std::vector<Exhibit> articles() {
  return {
      {.name = "finally-delete",
       .wrong = "the loser's finally block deletes the winner's key",
       .story = "The release stands in a finally block, and the try begins before the lock is "
                "taken. Bob does not get the lock, and on his way out he deletes alice's key: "
                "carol gets the lock while alice works.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::finally_delete},
      {.name = "true-on-failure",
       .wrong = "tryLock answers yes when it could not ask",
       .story = "Redis must not stop the shop, so an exception in tryLock counts as the lock. "
                "Bob's connection is reset while alice holds, and both work.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::true_on_failure},
      {.name = "stale-predecessor",
       .store = "zookeeper",
       .wrong = "the node before mine is gone, so it is my turn",
       .story = "Each waiter watches the node before its own, and takes the node's end for its "
                "turn. Bob waits behind alice and dies. His node goes with his session, and "
                "carol, who has watched it, begins while alice works.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::stale_predecessor,
       .unavailable = scripts::no_zookeeper},
      {.name = "ignored-no",
       .store = "zookeeper",
       .wrong = "lock() said no, and nobody read it",
       .story = "A lock with a time limit answers whether it was taken in time. The caller does "
                "not read the answer and works without the lock.",
       .mistake = two_holders(),
       .beside = clean(),
       .script = scripts::ignored_no,
       .unavailable = scripts::no_zookeeper},
      {.name = "zookeeper-herd",
       .store = "zookeeper",
       .wrong = "one node for all: each release wakes everybody (no violation)",
       .story = "The lock is one ephemeral node, and all waiters watch it. Each release wakes all "
                "of them, and one wins. 32 callers take one turn each. The requests are counted at "
                "the server; more than six for each turn are counted as failed.",
       .beside = clean(),
       .tally = scripts::zookeeper_herd,
       .unavailable = scripts::no_zookeeper},
      {.name = "unlock-by-name",
       .store = "etcd",
       .wrong = "unlock by the lock's name deletes nothing, and says OK",
       .story = "etcd's lock service answers with the key that it made for this holder, and that "
                "key is to be unlocked. Alice unlocks the name that she asked for. etcd says OK, "
                "and the lock stays until her lease ends.",
       .mistake = must({Class::kStuck}),
       .rule = "idle",
       .beside = clean(),
       .script = scripts::unlock_by_name,
       .check = impatient(),
       .unavailable = scripts::no_etcd},
      {.name = "no-keepalive",
       .store = "etcd",
       .wrong = "nobody keeps the lease alive",
       .story = "The lock hangs on a lease of two seconds, and nobody sends a keepalive. The job "
                "takes longer, and bob begins in the middle.",
       .mistake = must({Class::kV1}, {Class::kV0}),
       .beside = clean(),
       .script = scripts::no_keepalive,
       .unavailable = scripts::no_etcd}};
}

// Worker numbers, clocks and bits of snowflake ids.
std::vector<Exhibit> mistakes_with_ids() {
  return {
      {.name = "worker-from-address",
       .wrong = "two hosts have the same low bits in their addresses",
       .story = "The worker number is the low ten bits of the host's address. Alice's host is "
                "10.1.3.7 and bob's, in another network, 10.2.3.7: both are worker 775, and every "
                "id that they make in the same millisecond comes twice. With Holdfast both take a "
                "number from a store.",
       .beside = clean(),
       .ids = scripts::worker_from_address},
      {.name = "worker-from-rand",
       .store = "a file",
       .wrong = "128 processes draw from 1,024 numbers, and some draw the same",
       .story =
           "Each process draws its worker number with rand(), which its process number seeds. With "
           "38 processes and 1,024 numbers the chance that two agree is one half already; here are "
           "128. With Holdfast they take free numbers from a file of the host.",
       .beside = clean(),
       .ids = scripts::worker_from_rand},
      {.name = "restart-after-set-back",
       .store = "a file",
       .wrong = "a clock that went back by 5 ms over a restart is tolerated",
       .story = "The service keeps the time of its last id, and does not start when the clock "
                "stands before it. But it tolerates 5 ms, because a time server sets clocks back "
                "by so much. After the restart it gives the ids of these 5 ms again. With Holdfast "
                "the next process begins above a bound in the host's file.",
       .beside = clean(),
       .ids = scripts::restart_after_set_back},
      {.name = "worker-out-of-range",
       .store = "sqlite",
       .wrong = "a worker number of 11 bits sets the lowest bit of the time",
       .story = "Each start inserts a row, and the row's number is the worker number. Alice has "
                "number 7. 1,024 starts later bob has 1031, which needs 11 bits. The layout has "
                "10, so the eleventh sets the lowest bit of the time: bob is worker 7, too. "
                "Holdfast refuses the number.",
       .beside = clean(),
       .ids = scripts::worker_out_of_range}};
}

bool caught(const Exhibit& exhibit, const Verdict& verdict) {
  return std::any_of(verdict.violations.begin(), verdict.violations.end(),
                     [&](const Violation& each) { return each.rule == exhibit.rule; });
}

}  // namespace

const std::vector<Exhibit>& exhibits() {
  static const std::vector<Exhibit> all = [] {
    std::vector<Exhibit> found = commands();
    for (auto&& more : {beliefs(), servers(), majorities(), tables(), databases(), chains(),
                        articles(), mistakes_with_ids()})
      found.insert(found.end(), more.begin(), more.end());
    return found;
  }();
  return all;
}

Performance perform(const Exhibit& exhibit, House& house, bool beside) {
  const std::int64_t begun = now_ns();
  Performance result;
  Play play(house, beside);
  if (exhibit.tally) {
    result.tally = exhibit.tally(play);
    const bool wasteful = result.tally.failed * 3 > result.tally.requests * 2;
    result.as_expected = wasteful != beside;
  } else if (exhibit.ids) {
    result.ids = exhibit.ids(play);
    result.as_expected = result.ids.count() > 0 && result.ids.unique() == beside;
  } else {
    exhibit.script(play);
    result.history = play.history();
    result.names = play.names();
    result.history.limits = {exhibit.check.wake_ns, exhibit.check.grace_ns,
                             exhibit.check.busy_samples > 0};
    result.verdict = check(result.history, exhibit.check);
    result.as_expected =
        beside ? as_expected(exhibit.beside.value(), result.verdict)
               : as_expected(exhibit.mistake, result.verdict) && caught(exhibit, result.verdict);
  }
  result.seconds = static_cast<double>(now_ns() - begun) / 1e9;
  return result;
}

}  // namespace holdfast::lab
