#include "src/cli/look/who.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

OwnerInfo known() {
  OwnerInfo who;
  who.owner = "host/1/abc";
  who.host = "vm\x1b";
  who.pid = 4711;
  who.program = "make";
  who.since = std::chrono::system_clock::time_point(480'000h);
  return who;
}

TEST(WhoTest, AnOwnerIsShownAsItSays) {
  EXPECT_EQ(who_text(known()), "make");
  EXPECT_EQ(host_text(known()), "vm\\x1b");
  EXPECT_EQ(pid_text(known()), "4711");
  EXPECT_NE(since_text(known()), "-");
  EXPECT_EQ(left_text({known(), Mode::exclusive(), Token{}, 28s}), "28s");
  EXPECT_EQ(left_text({known(), Mode::exclusive(), Token{}, 0s}), "0ms");
  EXPECT_EQ(sentence_of(known()), "make on vm\\x1b (pid 4711)");
  EXPECT_EQ(sentence_of(known(), "since noon"), "make on vm\\x1b (pid 4711, since noon)");
}

TEST(WhoTest, ACallerOfHttpIsShownByItsOwnName) {
  OwnerInfo caller;
  caller.program = "http";
  EXPECT_EQ(who_text(caller), "http");
  caller.owner = "nightly\x1b";
  caller.host = "10.0.0.7";
  EXPECT_EQ(who_text(caller), "http: nightly\\x1b");
  EXPECT_EQ(sentence_of(caller), "http: nightly\\x1b on 10.0.0.7");
}

TEST(WhoTest, WhatAnotherProgramDoesNotTellIsNotMadeUp) {
  const OwnerInfo nobody;
  EXPECT_EQ(who_text(nobody), "-");
  EXPECT_EQ(host_text(nobody), "-");
  EXPECT_EQ(pid_text(nobody), "-");
  EXPECT_EQ(since_text(nobody), "-");
  EXPECT_EQ(left_text({nobody, Mode::exclusive(), Token{}, 0s}), "-");
  EXPECT_EQ(left_text({nobody, Mode::exclusive(), Token{}, 15s}), "15s");
  EXPECT_EQ(sentence_of(nobody), "another program");
  EXPECT_EQ(sentence_of(nobody, "\"why\""), "another program (\"why\")");
}

}  // namespace
}  // namespace holdfast::cli
