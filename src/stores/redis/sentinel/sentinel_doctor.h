// Examines the Sentinels of a URL: whether they would replace a lost primary, and how soon.
//
// `judge_sentinels` is pure. Its findings are lines of the store's doctor.
//
// Thread-safety: ask_sentinels() runs on the loop, and so does `done`.
// Errors: none. A Sentinel that does not answer is a finding.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"
#include "src/port/examination.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

// One Sentinel's answers.
struct SentinelReport {
  std::string where;
  std::string silent;  // Why it says nothing about the primary; empty: it does.
  std::string host;    // The primary's, as this Sentinel knows it.
  std::string port;
  long epoch = 0;
  long quorum = 0;
  long others = 0;         // Further Sentinels that it knows.
  long replicas = 0;       // That it knows, connected or not.
  long down_after_ms = 0;  // Without an answer for so long, it calls the primary down.
  std::string cannot{};    // SENTINEL CKQUORUM: why no fail-over is possible; empty: it is.
  std::string unasked{};   // Why CKQUORUM was not answered; empty: it was.
};
using SentinelReports = std::vector<SentinelReport>;

// Sends `words` to one Sentinel; the number is its index in the URL.
using AskSentinel =
    std::function<void(std::size_t index, const std::vector<std::string_view>& words,
                       base::BootInstant deadline, port::Done<Reply> done)>;

// Asks all of them at the same time; each has connect_timeout to answer.
void ask_sentinels(const AskSentinel& ask, const RedisAddress& address, base::BootInstant deadline,
                   std::function<void(SentinelReports)> done);

void judge_sentinels(const SentinelReports& reports, port::Findings& findings);

// The most replicas that one of them knows.
long known_replicas(const SentinelReports& reports);

}  // namespace holdfast::stores::redis
