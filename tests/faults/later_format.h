// A lock's record that this version cannot read, on each of the consensus stores: nobody is let in
// beside it, in any mode, and whoever was refused leaves nothing behind.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/holdfast.h"
#include "tests/faults/client_side.h"

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

// Who stands there already holds until he releases; who comes to look is refused.
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
  std::mutex mutex;
  std::vector<std::string> lines;
  ClientOptions options;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  auto client = Client::connect(url, std::move(options));
  ASSERT_TRUE(client) << client.error().message();
  const auto told = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  };
  const Lease lease = hold(*client, "list/good");
  site.write("list-later", "hf2 something=new");
  site.write("list-rubbish", "what is that?");
  for (int i = 0; i < 2; ++i) {
    const auto listed = client->list("list");
    ASSERT_TRUE(listed) << listed.error().message();
    ASSERT_EQ(listed->size(), 1U);
    EXPECT_EQ(listed->front().name, "list/good");
    EXPECT_TRUE(eventually([&] { return told("list-") == 2; }));
  }
  EXPECT_EQ(told("lock 'list-later': a lock's record is of format hf2, which this version does "
                 "not know: upgrade (key '"),
            1);
  EXPECT_EQ(told("lock 'list-rubbish': a lock's record is not Holdfast's: mend or empty it"), 1);
  EXPECT_EQ(told("list-"), 2) << ::testing::PrintToString(lines);
  site.write("list-later", "");
  site.write("list-rubbish", "");
}

}  // namespace holdfast::faults
