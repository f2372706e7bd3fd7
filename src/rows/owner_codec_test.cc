#include "src/rows/owner_codec.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace holdfast::rows {
namespace {

machine::OwnerPtr owner_named(const std::string& name) {
  machine::OwnerInfo info;
  info.owner = name;
  info.host = "host";
  info.pid = 42;
  info.program = "test";
  info.reason = "because";
  info.since_unix_ms = 1'700'000'000'000;
  return std::make_shared<const machine::OwnerInfo>(info);
}

TEST(OwnerCodecTest, WhatWasEncodedComesBack) {
  const auto owner = owner_named("alice");
  std::string bytes;
  encode_owner(owner, "0123456789abcdef", bytes);
  const auto back = decode_owner(bytes);
  ASSERT_TRUE(back && *back);
  machine::OwnerInfo expected = *owner;
  expected.wake = "0123456789abcdef";
  EXPECT_EQ(**back, expected);
  EXPECT_EQ(decode_owner("").value(), nullptr);
}

TEST(OwnerCodecTest, EveryCutAndEveryChangedByteIsRefusedOrHarmless) {
  std::string bytes;
  encode_owner(owner_named("alice"), "0123456789abcdef", bytes);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_owner(std::string_view(bytes).substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_owner(bytes + "x"));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const auto back = decode_owner(changed);
    if (at == 0) {
      EXPECT_FALSE(back);
    }
  }
}

// The owner that a version wrote which knew of no trace ids.
TEST(OwnerCodecTest, AnOwnerWithoutTraceIdIsReadAndWrittenAsBefore) {
  const std::string old = std::string("\x01\x00\x00", 3) + std::string("\x07\0\0\0\0\0\0\0", 8) +
                          std::string(8, '\0') + std::string("\x01\0o", 3) +
                          std::string("\x01\0h", 3) + std::string("\x01\0p", 3) +
                          std::string("\x03\0why", 5);
  const auto owner = decode_owner(old);
  ASSERT_TRUE(owner && *owner);
  EXPECT_EQ((*owner)->reason, "why");
  EXPECT_EQ((*owner)->trace_id, "");
  std::string again;
  encode_owner(*owner, "", again);
  EXPECT_EQ(again, old);
}

TEST(OwnerCodecTest, ATraceIdComesBackAndAnOlderVersionReadsItAsTheEndOfTheReason) {
  for (const std::string reason : {"", "nightly", "with \x1f the mark", "\x1f"}) {
    for (const std::string trace : {"", "00-4bf92f3577b34da6a3ce929d0e0e4736-01"}) {
      machine::OwnerInfo info;
      info.reason = reason;
      info.trace_id = trace;
      std::string bytes;
      encode_owner(std::make_shared<const machine::OwnerInfo>(info), "", bytes);
      EXPECT_EQ(**decode_owner(bytes), info) << reason;
      // The last text, of so many bytes, ends the owner: nothing that it would refuse.
      const bool marked = !trace.empty() || reason.find('\x1f') != reason.npos;
      std::string last = reason;
      if (marked) last.append("\x1f").append(trace);
      std::string end = {static_cast<char>(last.size()), '\0'};
      EXPECT_TRUE(bytes.ends_with(end.append(last)));
    }
  }
}

TEST(OwnerCodecTest, ALockDelayComesBackAndAnOlderVersionReadsItAsTheEndOfTheTraceId) {
  for (const std::string& trace : {std::string(), std::string("trace-1"), std::string("\x1e"),
                                  std::string("a\x1e"
                                              "60000"),
                                  std::string(128, 't')}) {
    for (const auto delay : {std::chrono::milliseconds(0), std::chrono::milliseconds(1'500)}) {
      machine::OwnerInfo info;
      info.reason = "nightly";
      info.trace_id = trace;
      info.lock_delay = delay;
      std::string bytes;
      encode_owner(std::make_shared<const machine::OwnerInfo>(info), "", bytes);
      EXPECT_EQ(**decode_owner(bytes), info) << trace;
      if (delay.count() > 0) {
        EXPECT_TRUE(bytes.ends_with("nightly\x1f" + trace + "\x1e" + "1500"));
      }
    }
  }
}

TEST(OwnerCodecTest, ALongReasonLeavesTheTraceIdWhole) {
  machine::OwnerInfo info;
  info.reason.assign(10'000, 'r');
  info.trace_id.assign(128, 't');
  std::string bytes;
  encode_owner(std::make_shared<const machine::OwnerInfo>(info), "", bytes);
  EXPECT_EQ(decode_owner(bytes).value()->trace_id, info.trace_id);
  EXPECT_EQ(decode_owner(bytes).value()->reason, std::string(1792, 'r'));
}

TEST(OwnerCodecTest, LongTextsAreCut) {
  machine::OwnerInfo info;
  info.reason.assign(10'000, 'r');
  std::string bytes;
  encode_owner(std::make_shared<const machine::OwnerInfo>(info), "", bytes);
  EXPECT_EQ(decode_owner(bytes).value()->reason.size(), 2048U);
}

}  // namespace
}  // namespace holdfast::rows
