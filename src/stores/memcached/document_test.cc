#include "src/stores/memcached/document.h"

#include <string>

#include <gtest/gtest.h>

#include "src/machine/lock_machine.h"
#include "src/stores/memcached/protocol/replies.h"

namespace holdfast::stores::memcached {
namespace {

using namespace std::chrono_literals;
using machine::AcquisitionId;
using machine::Instant;
using machine::Mode;

machine::OwnerPtr owner(const std::string& name) {
  machine::OwnerInfo info;
  info.owner = name;
  info.host = "here";
  info.pid = 77;
  info.reason = "a reason";
  return std::make_shared<const machine::OwnerInfo>(info);
}

// Readers, an upgrade, waiters, a value, a trace.
Document rich() {
  machine::LockMachine machine(machine::Token{0, 1'700'000'000'000'000});
  machine::Effects effects;
  const auto alice = owner("alice");
  const auto acquire = [&](std::uint64_t id, Mode mode, AcquisitionId base = {}) {
    machine::Acquire action{"orders \x01 \xc3\xa4", {7, id}, mode, true, 30s, 5s, 0, base, alice};
    if (id == 3) action.owner = owner("bob");
    return machine.apply({Instant(9s), action}, effects).outcome;
  };
  EXPECT_EQ(acquire(1, Mode::shared()), machine::Outcome::kHeld);
  EXPECT_EQ(acquire(2, Mode::shared()), machine::Outcome::kHeld);
  EXPECT_EQ(acquire(3, Mode::exclusive()), machine::Outcome::kWaiting);
  EXPECT_EQ(acquire(4, Mode::exclusive(), {7, 1}), machine::Outcome::kWaiting);
  machine.apply({Instant(9s), machine::SetValue{"orders \x01 \xc3\xa4", {7, 2}, "a value"}},
                effects);
  machine.apply({Instant(10s), machine::Renew{"orders \x01 \xc3\xa4", {7, 2}, 300, 40s, 5s}},
                effects);
  Document document;
  document.image = *machine.inspect("orders \x01 \xc3\xa4");
  document.keep = true;
  document.broken = Document::Broken{{0, 99}, owner("operator")};
  return document;
}

TEST(MemcachedDocumentTest, ALockComesBackAsItWasButForTheEndsOfLeases) {
  const Document before = rich();
  const auto after = decode(encode(before));
  ASSERT_TRUE(after) << after.error().message();
  machine::LockImage expected = before.image;
  for (auto& ticket : expected.tickets) ticket.lease_end = {};
  ASSERT_EQ(after->image.tickets.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(after->image.tickets[i].owner);
    EXPECT_EQ(*after->image.tickets[i].owner, *expected.tickets[i].owner);
    expected.tickets[i].owner = after->image.tickets[i].owner;  // Compared as pointers.
  }
  EXPECT_EQ(after->image, expected);
  EXPECT_TRUE(after->keep);
  ASSERT_TRUE(after->broken);
  EXPECT_EQ(after->broken->token, before.broken->token);
  EXPECT_EQ(after->broken->by->owner, "operator");
}

TEST(MemcachedDocumentTest, NoPartOfADocumentPassesForAWhole) {
  const std::string whole = encode(rich());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode(whole.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode(whole + "x"));
}

// Never more memory than the bytes account for, and no crash: src/machine judges the rest.
TEST(MemcachedDocumentTest, NoChangedByteDoesHarm) {
  const std::string whole = encode(rich());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[at] = value;
      const auto document = decode(changed);
      EXPECT_TRUE(!document || document->image.tickets.size() <= whole.size() / 24);
    }
  }
}

TEST(MemcachedDocumentTest, ANewerFormatIsToldByName) {
  std::string newer = encode(rich());
  newer[9] = '2';
  const auto document = decode(newer);
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code(), Errc::kVersionMismatch);
}

TEST(MemcachedDocumentTest, AThousandWaitersOfOneClientFit) {
  machine::LockMachine machine(machine::Token{0, 1});
  machine::Effects effects;
  const auto alice = owner("alice");
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    machine.apply(
        {Instant(9s), machine::Acquire{"orders", {id << 40, id}, {}, true, 30s, 5s, 0, {}, alice}},
        effects);
  }
  Document document;
  document.image = *machine.inspect("orders");
  EXPECT_LT(encode(document).size(), kLargestDocument / 8);
}

}  // namespace
}  // namespace holdfast::stores::memcached
