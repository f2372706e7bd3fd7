#include "lab/exhibits/scripts.h"

#include <vector>

#include "tests/support/clock_shift.h"

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/sqlite.h"

namespace holdfast::lab::scripts {
namespace {

using namespace std::chrono_literals;

// Somebody else has freed bob's lock, so carol gets it as well, and both work.
void join(Player& bob, Player& carol) {
  carol.acquire(kLong, 200ms);
  sleep_for(kWork);
  carol.write();
  bob.write();
  bob.release();
  carol.release();
}

// Bob gets the lock while alice believes that she holds it, and both write.
void bob_works_too(Player& bob, Player& alice) {
  bob.acquire(kLong);
  sleep_for(kWork);
  bob.write();
  alice.write();
  bob.release();
}

// Bob takes the lock over as soon as alice has it.
void fast_clock(Player& alice, Player& bob) {
  alice.acquire(kLong);
  bob.acquire(kLong);
  sleep_for(kWork);
  alice.write();
  bob.write();
  alice.write();
  bob.release();
  alice.release();
}

// Alice is stopped for longer than her lease, and then frees bob's lock.
void late_release(Player& alice, Player& bob, Player& carol) {
  alice.acquire(200ms);
  alice.pause();
  bob.acquire(kLong, 3s);
  sleep_for(kWork);
  alice.resume();
  alice.release();
  join(bob, carol);
}

// Replication stops, alice takes the lock, and the replica that has not heard of it is promoted.
void take_and_fail_over(Play& play, Replicated& redis, Player& alice) {
  play.begin(FaultKind::kLoss, "replication");
  redis.cut();
  alice.acquire(kLong);
  sleep_for(kWork);
  play.memory_loss(FaultKind::kFailover, "redis", [&] { redis.fail_over(); });
  play.end(FaultKind::kLoss, "replication");
}

}  // namespace

void setnx_then_expire(Play& play) {
  Player& alice = play.player("alice", lab::setnx_then_expire());
  Player& bob = play.player("bob", lab::setnx_then_expire());
  alice.stop_at("between SETNX and EXPIRE");
  alice.begin_acquire(300ms);
  alice.reaches();
  alice.kill9();
  bob.acquire(300ms, 1500ms);
  bob.release();
}

void timestamp_getset(Play& play) {
  Player& alice = play.player("alice", lab::timestamp_getset(0ms));
  fast_clock(alice, play.player("bob", lab::timestamp_getset(10s)));
}

void del_without_check(Play& play) {
  Player& alice = play.player("alice", lab::del_without_check());
  Player& bob = play.player("bob", lab::del_without_check());
  late_release(alice, bob, play.player("carol", lab::del_without_check()));
}

void finally_delete(Play& play) {
  Player& alice = play.player("alice", lab::finally_delete());
  Player& bob = play.player("bob", lab::finally_delete());
  Player& carol = play.player("carol", lab::finally_delete());
  alice.acquire(kLong);
  sleep_for(kWork);
  bob.acquire(kLong);
  join(alice, carol);
}

void true_on_failure(Play& play) {
  support::FaultProxy link({.server_port = play.house().redis().port()});
  Player& alice = play.player("alice", lab::true_on_failure());
  Player& bob =
      play.player("bob", lab::true_on_failure(), {play.house().redis().url({.port = link.port()})});
  alice.acquire(kLong);
  bob.acquire(kLong, 0ms, 1);  // Opens his connection.
  bob.release();
  play.begin(FaultKind::kLoss, "bob's connection");
  link.add({.kind = support::Fault::Kind::kReset});
  bob.acquire(kLong);
  play.end(FaultKind::kLoss, "bob's connection");
  sleep_for(kWork);
  bob.write();
  alice.write();
  alice.release();
}

void get_then_del(Play& play) {
  Player& alice = play.player("alice", lab::get_then_del());
  Player& bob = play.player("bob", lab::get_then_del());
  Player& carol = play.player("carol", lab::get_then_del());
  alice.acquire(200ms);
  alice.stop_at("between GET and DEL");
  alice.begin_release();
  alice.reaches();
  bob.acquire(kLong, 3s);
  sleep_for(kWork);
  alice.go_on();
  alice.finish();
  join(bob, carol);
}

void no_renewal(Play& play) {
  Player& alice = play.player("alice", lab::no_renewal());
  Player& bob = play.player("bob", lab::no_renewal());
  alice.acquire(200ms);
  bob.begin_acquire(kLong, 5s);
  sleep_for(400ms);  // The job.
  alice.write();
  alice.release();
  bob.finish();
  sleep_for(kWork);
  bob.write();
  bob.release();
}

void thread_id(Play& play) {
  Player& alice = play.player("alice", lab::thread_id());
  Player& bob = play.player("bob", lab::thread_id());
  alice.acquire(kLong);
  bob.acquire(kLong);
  sleep_for(kWork);
  alice.write();
  bob.write();
  bob.release();
  alice.release();
}

void lease_from_reply(Play& play) {
  support::FaultProxy link({.server_port = play.house().redis().port()});
  Player& alice = play.player("alice", lab::lease_from_reply(),
                              {play.house().redis().url({.port = link.port()})});
  Player& bob = play.player("bob", lab::lease_from_reply());
  // Opens all her connections.
  alice.acquire(kLong, 0ms, 1);
  sleep_for(kWork);
  alice.release();
  sleep_for(kWork);
  play.begin(FaultKind::kDelay, "alice's replies");
  const int held_back =
      link.add({.kind = support::Fault::Kind::kHold, .direction = support::Direction::kToClient});
  alice.begin_acquire(400ms);
  sleep_for(150ms);
  link.remove(held_back);
  alice.finish();
  play.end(FaultKind::kDelay, "alice's replies");
  bob.begin_acquire(kLong, 5s);
  sleep_for(320ms);
  alice.write();
  alice.release();
  bob.finish();
  bob.write();
  bob.release();
}

void no_second_look(Play& play) {
  Player& alice = play.player("alice", lab::no_second_look());
  Player& bob = play.player("bob", lab::no_second_look());
  Player& carol = play.player("carol", lab::no_second_look());
  alice.acquire(kLong);
  for (Player* waiter : {&bob, &carol}) {
    waiter->stop_at("has to wait");
    waiter->begin_acquire(kLong, 3s);
    waiter->reaches();
    waiter->stop_at("free again");
    waiter->go_on();
    sleep_for(kWork);
  }
  alice.release();
  bob.reaches();
  carol.reaches();
  bob.go_on();
  bob.finish();
  if (play.beside()) bob.release();  // Otherwise carol would wait.
  carol.go_on();
  carol.finish();
  sleep_for(kWork);
  bob.write();
  carol.write();
  bob.release();
  carol.release();
}

void wait_elsewhere(Play& play) {
  Replicated redis;
  // Holdfast asks with WAIT on the connection that has written.
  const std::string confirmed = play.beside() ? "?replicas=1&replicas_timeout=200ms" : "";
  Player& alice = play.player("alice", lab::wait_elsewhere(), {redis.primary_url() + confirmed});
  take_and_fail_over(play, redis, alice);
  Player& bob = play.player("bob", lab::plain_set_nx(), {redis.replica_url()});
  bob_works_too(bob, alice);
}

void async_failover(Play& play) {
  Replicated redis;
  Player& alice = play.player("alice", lab::plain_set_nx(), {redis.primary_url()});
  Player& bob = play.player("bob", lab::plain_set_nx(), {redis.replica_url()});
  take_and_fail_over(play, redis, alice);
  bob_works_too(bob, alice);
}

void promoted_clock_behind(Play& play) {
  support::ClockShift ahead;
  ahead.set(30s);
  Replicated redis(ahead.path());
  Player& alice = play.player("alice", lab::time_token(), {redis.primary_url()});
  Player& bob = play.player("bob", lab::time_token(), {redis.replica_url()});
  take_and_fail_over(play, redis, alice);
  bob_works_too(bob, alice);
}

void incr_token(Play& play) {
  play.guard_with_sql();
  Player& alice = play.player("alice", lab::incr_token());
  alice.acquire(kLong);
  sleep_for(kWork);
  play.memory_loss(FaultKind::kRestartEmpty, "redis",
                   [&] { play.house().redis().restart(support::Memory::kLost); });
  Player& bob = play.player("bob", lab::incr_token());
  bob_works_too(bob, alice);
}

void row_without_expiry(Play& play) {
  const std::string file = "sqlite://" + play.file("locks.db");
  Player& alice = play.player("alice", lab::row_without_expiry(), {file});
  Player& bob = play.player("bob", lab::row_without_expiry(), {file});
  alice.acquire(300ms);
  alice.kill9();
  bob.acquire(300ms, 1500ms);
  bob.release();
}

void client_clock_expiry(Play& play) {
  const std::string file = "sqlite://" + play.file("locks.db");
  Player& alice = play.player("alice", lab::client_clock_expiry(0ms), {file});
  fast_clock(alice, play.player("bob", lab::client_clock_expiry(10s), {file}));
}

void delete_without_owner(Play& play) {
  const std::string file = "sqlite://" + play.file("locks.db");
  Player& alice = play.player("alice", lab::delete_without_owner(), {file});
  Player& bob = play.player("bob", lab::delete_without_owner(), {file});
  late_release(alice, bob, play.player("carol", lab::delete_without_owner(), {file}));
}

// Four clients read the row, then all write what they made of it, again and again.
Tally optimistic_version(Play& play) {
  constexpr std::size_t kClients = 4;
  constexpr int kRounds = 25;
  std::vector<Sqlite> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.emplace_back(play.file("stock.db"));
  clients[0].change("CREATE TABLE stock (id INTEGER PRIMARY KEY, amount, version)");
  clients[0].change("INSERT INTO stock VALUES (1, 1000, 1)");
  Tally tally;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::string> seen;
    seen.reserve(kClients);
    for (Sqlite& client : clients) seen.push_back(*client.ask("SELECT version FROM stock"));
    for (std::size_t i = 0; i < kClients; ++i) {
      const int changed = clients[i].change(
          "UPDATE stock SET amount = amount - 1, version = version + 1 "
          "WHERE id = 1 AND version = CAST(?1 AS INTEGER)",
          {seen[i]});
      ++tally.requests;
      if (changed == 0) ++tally.failed;
    }
  }
  return tally;
}

}  // namespace holdfast::lab::scripts
