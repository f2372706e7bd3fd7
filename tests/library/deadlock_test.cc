// Owners that wait for each other: one of them is told, the others go on.
#include "tests/library/fixture.h"

namespace holdfast::testing {

class DeadlockTest : public LibraryTest {
 protected:
  // Takes its own lock, and once all have theirs, waits for the next one's. The client is one per
  // party when `apart`.
  struct Party {
    Client client;
    Owner owner;
    std::string own;
    std::string next;
  };

  // Two clients wait for each other, on locks of their own.
  static std::vector<Party> two_of(const Client& client) {
    return {{client, Owner("c"), "left", "right"}, {client, Owner("d"), "right", "left"}};
  }

  static void await_waiter(const Client& client, const std::string& name) {
    while (true) {
      const auto seen = client.inspect(name);
      if (!seen || (*seen && !(*seen)->waiters.empty())) break;
      std::this_thread::sleep_for(1ms);
    }
  }

  struct Outcome {
    int told = 0;
    int went_on = 0;
    std::string message;
  };

  static Outcome run(const std::vector<Party>& parties, Mode mode = Mode::exclusive()) {
    std::vector<Lease> held;
    for (const Party& party : parties) {
      auto lease = party.client.acquire(party.own, mode, {.ttl = 60s, .owner = party.owner});
      EXPECT_TRUE(lease) << lease.error().message();
      if (lease) held.push_back(*std::move(lease));
    }
    if (held.size() != parties.size()) return {};
    std::vector<std::future<Result<Lease>>> waits;
    for (const Party& party : parties) {
      waits.push_back(std::async(std::launch::async, [party, mode] {
        return party.client.acquire(party.next, mode,
                                    {.wait = 60s, .ttl = 60s, .owner = party.owner});
      }));
    }
    Outcome outcome;
    // Whoever is told lets go of what it holds, as its message says.
    for (std::size_t ended = 0; ended < parties.size();) {
      for (std::size_t i = 0; i < parties.size(); ++i) {
        if (!waits[i].valid() || waits[i].wait_for(5ms) != std::future_status::ready) continue;
        const Result<Lease> got = waits[i].get();
        ++ended;
        if (got) {
          ++outcome.went_on;
        } else {
          EXPECT_TRUE(fails_with(got, Errc::kWouldDeadlock));
          ++outcome.told;
          outcome.message = got.error().message();
        }
        EXPECT_TRUE(held[i].release());
      }
    }
    return outcome;
  }
};
HOLDFAST_ON_EVERY_STORE(DeadlockTest);

TEST_P(DeadlockTest, OfTwoThatWaitForEachOtherOneIsToldAndTheOtherGoesOn) {
  const Outcome outcome = run({{connect(), Owner("anna"), "stock", "account"},
                               {connect(), Owner("bert"), "account", "stock"}});
  EXPECT_EQ(outcome.told, 1);
  EXPECT_EQ(outcome.went_on, 1);
  for (const char* part : {"anna#", "bert#", "'stock'", "'account'"}) {
    EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
  }
}

TEST_P(DeadlockTest, ACircleOfThreeOfOneClientIsFound) {
  const Client client = connect({});
  const Outcome outcome = run({{client, Owner("a"), "x", "y"},
                               {client, Owner("b"), "y", "z"},
                               {client, Owner("c"), "z", "x"}});
  EXPECT_EQ(outcome.told, 1);
  EXPECT_EQ(outcome.went_on, 2);
}

TEST_P(DeadlockTest, WhoWaitsForALockItHoldsItselfIsTold) {
  const Client client = connect();
  const Owner me("me");
  const Lease held = take(client.mutex("orders"), {.owner = me});
  const auto again = client.mutex("orders").acquire({.wait = 60s, .owner = me});
  EXPECT_TRUE(fails_with(again, Errc::kWouldDeadlock));
}

// A circle beside it is told: then all that waited before has been looked at.
TEST_P(DeadlockTest, WithoutNamesNobodyIsTold) {
  const Client anna = connect();
  const Client bert = connect();
  const Lease stock = take(anna.mutex("stock"));
  const Lease account = take(bert.mutex("account"), {.owner = Owner("bert")});
  std::stop_source stop;
  const AcquireOptions long_wait{.wait = 120s, .cancel = stop.get_token()};
  AcquireOptions named = long_wait;
  named.owner = Owner("bert again");
  auto one =
      std::async(std::launch::async, [&] { return anna.mutex("account").acquire(long_wait); });
  auto other = std::async(std::launch::async, [&] { return bert.mutex("stock").acquire(named); });
  await_waiter(anna, "account");
  await_waiter(anna, "stock");
  EXPECT_EQ(run(two_of(bert)).told, 1);
  stop.request_stop();
  EXPECT_TRUE(fails_with(one.get(), Errc::kCancelled));
  EXPECT_TRUE(fails_with(other.get(), Errc::kCancelled));
}

TEST_P(DeadlockTest, AWaitThatEndsByItselfIsNotTold) {
  const Client client = connect();
  const Owner anna("anna");
  const Owner bert("bert");
  Lease stock = take(client.mutex("stock"), {.owner = anna});
  Lease account = take(client.mutex("account"), {.owner = bert});
  auto waits = std::async(std::launch::async, [&] {
    return client.mutex("stock").acquire({.wait = 60s, .owner = bert});
  });
  await_waiter(client, "stock");
  EXPECT_EQ(run(two_of(client)).told, 1);
  ASSERT_TRUE(stock.release());
  EXPECT_TRUE(waits.get());
}

}  // namespace holdfast::testing
