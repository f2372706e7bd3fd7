#include "src/contend/record.h"

#include <gtest/gtest.h>

namespace holdfast::contend {
namespace {

TEST(ContenderRecordTest, KeysAreReadBackAsTheyWereWritten) {
  const machine::AcquisitionId id{1, 0xabcdef};
  for (const Key& key :
       {key_for(id, machine::Mode::exclusive(), {}), key_for(id, machine::Mode::shared(), {}),
        key_for(id, machine::Mode::of_permits(3, 4294967295U), {}),
        key_for(id, machine::Mode::exclusive(), {7, 8}), Key{id, Shape::kShrink, 2, 5, {}}}) {
    EXPECT_EQ(parse_key(to_text(key)), key) << to_text(key);
  }
}

TEST(ContenderRecordTest, WhatIsNoKeyIsRefused) {
  const std::string id = "0000000000000001000000000000000a";
  for (const char* end : {"", "-", "-y", "-x1", "-p", "-p0.1", "-p1.0", "-p1",
                          "-u0000000000000001000000000000000a"}) {
    EXPECT_FALSE(parse_key(id + end)) << end;
  }
  for (const char* text :
       {"", "00000000000000000000000000000000-x", "G000000000000001000000000000000a-x"}) {
    EXPECT_FALSE(parse_key(text)) << text;
  }
}

TEST(ContenderRecordTest, DetailsKeepEveryField) {
  Details details;
  details.weakened = true;
  details.attempt = true;
  details.token = 77;
  details.lease = std::chrono::seconds(10);
  details.session = "s 1%";
  details.owner = std::make_shared<const machine::OwnerInfo>(
      machine::OwnerInfo{"o=1", "host", 12, "prog ram", "why\nnot \xc3\xa9", 1234, "", "trace",
                         std::chrono::milliseconds(1'500)});
  const auto read = parse_details(to_text(details));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->weakened);
  EXPECT_FALSE(read->marked);
  EXPECT_TRUE(read->attempt);
  EXPECT_EQ(read->token, 77U);
  EXPECT_EQ(read->lease, details.lease);
  EXPECT_EQ(read->session, details.session);
  EXPECT_EQ(*read->owner, *details.owner);
}

TEST(ContenderRecordTest, TheRecordKeepsEveryField) {
  Record record;
  record.upgrade = {1, 2};
  record.capacity = 9;
  record.broken = Trace{5, {3, 4}, std::make_shared<const machine::OwnerInfo>()};
  const auto read = parse_record(to_text(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->upgrade, record.upgrade);
  EXPECT_EQ(read->capacity, 9U);
  ASSERT_TRUE(read->broken);
  EXPECT_EQ(read->broken->token, 5U);
  EXPECT_EQ(read->broken->id, (machine::AcquisitionId{3, 4}));
  EXPECT_TRUE(parse_record(""));
}

TEST(ContenderRecordTest, ALaterFormatIsRefusedByNameAndForeignDataAsCorrupt) {
  EXPECT_EQ(parse_details("hf2 marked=1").error().code(), Errc::kVersionMismatch);
  EXPECT_EQ(parse_details("hello").error().code(), Errc::kCorruptState);
  EXPECT_EQ(parse_record("hf1 upgrade=%2").error().code(), Errc::kCorruptState);
  EXPECT_EQ(parse_details(std::string(20'000, 'x')).error().code(), Errc::kCorruptState);
  EXPECT_TRUE(parse_details("hf1 later=thing word"));
}

TEST(ContenderRecordTest, WhatCannotBeReadNamesItsKeyAndWhatToDo) {
  EXPECT_FALSE(read_details("hf1 marked=1", "k").unreadable);
  EXPECT_TRUE(read_details("hf1 marked=1", "k").marked);
  const Details later = read_details("hf2 marked=1", "l/a\n/c/x");
  ASSERT_TRUE(later.unreadable);
  EXPECT_FALSE(later.marked);
  EXPECT_EQ(later.unreadable->code(), Errc::kVersionMismatch);
  EXPECT_EQ(later.unreadable->message(),
            "a contender's record is of format hf2, which this version does not know: upgrade (key "
            "'l/a\\x0a/c/x')");
  const Details rubbish = read_details("", "k");
  ASSERT_TRUE(rubbish.unreadable);
  EXPECT_EQ(rubbish.unreadable->code(), Errc::kCorruptState);
  EXPECT_NE(rubbish.unreadable->message().find(": remove it with"), std::string::npos);
  EXPECT_TRUE(read_record("", "k"));
  const auto record = read_record("hello", "l/a");
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code(), Errc::kCorruptState);
  EXPECT_EQ(record.error().message(),
            "a lock's record is not Holdfast's: fix or empty it with the store's own "
            "tools (key 'l/a')");
}

}  // namespace
}  // namespace holdfast::contend
