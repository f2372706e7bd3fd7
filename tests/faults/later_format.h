// Text of a later version, which this one cannot read, on each of the consensus stores.
// A lock's record: nobody is admitted beside it, in any mode, and a refused client leaves nothing.
// A contender: it keeps its place, and calls that succeed beside it report it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/holdfast.h"
#include "tests/faults/client_side.h"
#include "tests/faults/listener.h"

namespace holdfast::faults {

struct RecordSite {
  std::function<Client()> connect;
  // Writes a lock's record, and its folder where there is none; "": such as was never written.
  std::function<void(const std::string& lock, const std::string& text)> write;
};

template <typename Got>
void expect_refused(const Got& got, Errc code, const std::string& how) {
  SCOPED_TRACE(how);
  ASSERT_FALSE(got) << "it was let in, or told that the lock is busy";
  EXPECT_EQ(got.error().code(), code) << got.error().message();
  EXPECT_NE(got.error().message().find("record"), std::string::npos) << got.error().message();
}

inline void expect_all_modes_refused(const Client& client, const std::string& lock, Errc code) {
  const AcquireOptions patient{.wait = kLong};
  expect_refused(client.mutex(lock).try_acquire(), code, "a try");
  expect_refused(client.mutex(lock).acquire(patient), code, "exclusive, waiting");
  expect_refused(client.shared_mutex(lock).try_acquire_shared(), code, "a shared try");
  expect_refused(client.shared_mutex(lock).acquire_shared(patient), code, "shared, waiting");
  expect_refused(client.semaphore(lock, 3).try_acquire(), code, "a try for permits");
  expect_refused(client.semaphore(lock, 3).acquire(2, patient), code, "permits, waiting");
  expect_refused(client.inspect(lock), code, "a look");
}

inline void expect_free(const Client& client, const std::string& lock) {
  auto got = client.mutex(lock).try_acquire();
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_TRUE(*got) << "somebody who was refused stands there";
  EXPECT_TRUE((*got)->release());
}

inline void expect_unreadable_records_refused(const RecordSite& site) {
  const Client used = site.connect();
  for (const auto& [text, code] : {std::pair("hf2 something=new", Errc::kVersionMismatch),
                                   std::pair("what is that?", Errc::kCorruptState)}) {
    SCOPED_TRACE(text);
    const std::string lock = std::string("used-") + text[0];
    // As often as makes a client sure that it is alone there.
    for (int i = 0; i < 4; ++i) expect_free(used, lock);
    site.write(lock, text);
    expect_all_modes_refused(used, lock, code);
    site.write(lock, "");
    expect_free(used, lock);
    expect_free(site.connect(), lock);

    const std::string fresh = std::string("fresh-") + text[0];
    site.write(fresh, text);
    expect_all_modes_refused(used, fresh, code);
    site.write(fresh, "");
    expect_free(used, fresh);
  }
}

// An earlier contender holds until it releases; a later one is refused.
inline void expect_a_waiter_refused(const RecordSite& site) {
  const Client one = site.connect();
  const Client two = site.connect();
  Lease lease = hold(one, "queue");
  auto waiting = wait_for(two, "queue");
  site.write("queue", "hf2 something=new");
  EXPECT_TRUE(lease.held());
  EXPECT_TRUE(lease.renew());
  expect_released(lease);
  expect_refused(waiting.get(), Errc::kVersionMismatch, "who waited");
}

// The others are listed; what is left out is told once, with the lock, the reason and what to do.
inline void expect_others_listed(const RecordSite& site, const std::string& url) {
  Listener listener(url);
  const auto told = [&](const std::string& text) { return listener.told(text); };
  const Client& client = listener.client();
  const Lease lease = hold(client, "list/good");
  site.write("list-later", "hf2 something=new");
  site.write("list-rubbish", "what is that?");
  for (int i = 0; i < 2; ++i) {
    const auto listed = client.list("list");
    ASSERT_TRUE(listed) << listed.error().message();
    ASSERT_EQ(listed->size(), 1U);
    EXPECT_EQ(listed->front().name, "list/good");
    EXPECT_TRUE(eventually([&] { return told("list-") == 2; }));
  }
  EXPECT_EQ(told("lock 'list-later': a lock's record is of format hf2, which this version does "
                 "not know: upgrade (key '"),
            1);
  EXPECT_EQ(told("lock 'list-rubbish': a lock's record is not Holdfast's: fix or empty it"), 1);
  EXPECT_EQ(told("list-"), 2);
  site.write("list-later", "");
  site.write("list-rubbish", "");
}

// A watch that has seen a lock held tells of the others when that one cannot be read any more.
inline void expect_others_watched(const RecordSite& site) {
  const Client client = site.connect();
  const Lease lease = hold(client, "watched-later");
  std::mutex mutex;
  std::vector<std::string> told;
  const auto watch = client.watch("watched", [&](const LockEvent& event) {
    const std::lock_guard lock(mutex);
    told.push_back(event.name);
  });
  ASSERT_TRUE(watch) << watch.error().message();
  site.write("watched-later", "hf2 something=new");
  const Lease other = hold(client, "watched-other");
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return !told.empty();
  }));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(told, std::vector<std::string>{"watched-other"});
  site.write("watched-later", "");
}

struct ContenderSite {
  std::string url;
  // Puts a contender with that key and text into a lock's folder, as another client does; what it
  // returns takes it away.
  std::function<std::function<void()>(const std::string& lock, const std::string& key,
                                      const std::string& text)>
      stand;
};

inline void expect_looked_at_beside(const ContenderSite& site, const std::string& text, Errc code) {
  SCOPED_TRACE(text);
  Listener listener(site.url);
  const Client& client = listener.client();
  const std::string lock = std::string("stands-") + text[0];
  auto reader = client.shared_mutex(lock).acquire_shared({.wait = kLong});
  ASSERT_TRUE(reader) << reader.error().message();
  const auto remove = site.stand(lock, "00000000000000070000000000000001-s", text);
  for (int i = 0; i < 2; ++i) {
    const auto seen = client.inspect(lock);
    ASSERT_TRUE(seen) << seen.error().message();
    ASSERT_TRUE(*seen);
    ASSERT_EQ((*seen)->holders.size(), 2U);
    EXPECT_EQ((*seen)->holders[0].token, reader->token());
    EXPECT_EQ((*seen)->holders[1].token, Token{}) << "made up";
    EXPECT_EQ((*seen)->holders[1].who.owner, "");
    EXPECT_EQ((*seen)->holders[1].mode, Mode::shared());
    const auto listed = client.list("stands-");
    ASSERT_TRUE(listed) << listed.error().message();
    EXPECT_EQ(listed->size(), 1U);
  }
  EXPECT_TRUE(eventually([&] { return listener.told("keeps its place in the queue") > 0; }));
  EXPECT_EQ(listener.told("lock '" + lock + "': a contender's record "), 1);
  EXPECT_EQ(listener.told("00000000000000070000000000000001-s"), 1) << "with its key";
  const auto tried = client.mutex(lock).try_acquire();
  ASSERT_TRUE(tried) << tried.error().message();
  EXPECT_FALSE(*tried) << "it holds";
  Token other = reader->token();
  ++other.counter;
  const auto untold = client.break_lock(lock, other);
  ASSERT_FALSE(untold);
  EXPECT_EQ(untold.error().code(), code) << untold.error().message();
  const auto broken = client.break_lock(lock, reader->token(), "test");
  EXPECT_TRUE(broken) << broken.error().message();
  // Alone, and the first.
  const auto left = client.inspect(lock);
  ASSERT_TRUE(left && *left);
  EXPECT_EQ((*left)->holders.size(), 1U);
  const Client next = connect(site.url);
  auto waiting = wait_for(next, lock);
  remove();
  const auto got = waiting.get();
  EXPECT_TRUE(got) << got.error().message();
}

inline void expect_unreadable_contenders_shown(const ContenderSite& site) {
  expect_looked_at_beside(site, "hf2 something=new", Errc::kVersionMismatch);
  expect_looked_at_beside(site, "what is that?", Errc::kCorruptState);
}

}  // namespace holdfast::faults
