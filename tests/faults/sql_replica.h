// An asynchronous replica of a SQL server is promoted: the same demands on each kind of server.
//
// `Servers` is a primary and its replica: url() names both, has(lock) says whether the replica
// knows the lock as held, part() cuts the replica off, fail_over() ends the primary and promotes
// the replica.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/faults/sql_server_suite.h"
#include "tests/support/clock_shift.h"
#include "tests/support/eventually.h"

namespace holdfast::faults {

// The replica keeps what it has heard, and the rest is granted again, as the stores' pages declare.
template <typename Servers>
void expect_that_only_the_unknown_is_granted_again(Servers& servers) {
  const Client one = connect(servers.url());
  Lease known = hold_for(one, "known", 30s);
  ASSERT_TRUE(eventually([&] { return servers.has("known"); }));
  const auto refused = Client::connect(servers.replica_url());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("only reads"), std::string::npos)
      << refused.error().message();

  servers.part();
  Lease unknown = hold_for(one, "unknown", 6s);
  servers.fail_over();
  const Client two = connect(servers.url());
  EXPECT_FALSE(*two.mutex("known").try_acquire());
  Lease next = hold_for(two, "unknown", 30s);
  // The declared cell: the first one believes until its next renewal.
  EXPECT_GT(next.token(), unknown.token());
  EXPECT_TRUE(eventually([&] { return known.renew().has_value(); }));
  EXPECT_TRUE(fires(unknown.lost(), 20s));
  EXPECT_FALSE(unknown.release());
  EXPECT_TRUE(next.renew());
  expect_released(known);
}

// `servers`: the primary's clock runs ahead by an hour.
template <typename Servers>
void expect_that_tokens_are_bound_by_the_old_clock(Servers& servers) {
  const Client one = connect(servers.url());
  const Lease warm = hold_for(one, "known", 30s);
  ASSERT_TRUE(eventually([&] { return servers.has("known"); }));
  servers.part();
  const Lease unknown = hold_for(one, "unknown", 30s);
  servers.fail_over();
  const Client two = connect(servers.url());
  EXPECT_LT(hold_for(two, "unknown", 30s).token(), unknown.token()) << "no bound: say so";
  // A lock whose row is there grows on, whatever the clock says.
  const auto broken = two.break_lock("known", warm.token());
  ASSERT_TRUE(broken) << broken.error().message();
  EXPECT_GT(hold_for(two, "known", 30s).token(), warm.token());
}

}  // namespace holdfast::faults
