#include "holdfast/log_event.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

LogEvent lost() {
  LogEvent event;
  event.time = std::chrono::system_clock::time_point(1'700'000'000'123ms);
  event.severity = LogSeverity::kError;
  event.event = "lock_lost";
  event.text = "lock 'orders/42' was lost: its lease ended";
  event.store = "redis://h:6379";
  event.lock = "orders/42";
  event.token = {0, 17};
  event.trace_id = "00-4b-01";
  event.error = Errc::kLost;
  return event;
}

TEST(LogEventTest, AJsonLineHasEveryField) {
  EXPECT_EQ(json_line(lost()),
            R"({"time":"2023-11-14T22:13:20.123Z","severity":"error","event":"lock_lost",)"
            R"("lock":"orders/42","token":"0000000000.00000000000000000017",)"
            R"("trace_id":"00-4b-01","error":"kLost","store":"redis://h:6379",)"
            R"("text":"lock 'orders/42' was lost: its lease ended"})");
}

TEST(LogEventTest, ALogfmtLineQuotesWhatNeedsIt) {
  EXPECT_EQ(logfmt_line(lost()),
            "time=2023-11-14T22:13:20.123Z severity=error event=lock_lost lock=orders/42 "
            "token=0000000000.00000000000000000017 trace_id=00-4b-01 error=kLost "
            "store=redis://h:6379 text=\"lock 'orders/42' was lost: its lease ended\"");
}

TEST(LogEventTest, WhatIsEmptyIsLeftOut) {
  LogEvent event;
  event.severity = LogSeverity::kWarning;
  event.event = "store";
  event.text = "away";
  EXPECT_EQ(json_line(event),
            R"({"time":"1970-01-01T00:00:00.000Z","severity":"warning","event":"store",)"
            R"("text":"away"})");
}

TEST(LogEventTest, WhateverATextHoldsItStaysOneLine) {
  LogEvent event;
  event.event = "store";
  event.lock = "a\n\"b\"\\\x7f\x1b[0m";
  event.text = "x\xff\xc3\xbc\xed\xa0\x80";
  const std::string json = json_line(event);
  EXPECT_NE(json.find(R"("lock":"a\u000a\"b\"\\\u007f\u001b[0m")"), json.npos) << json;
  EXPECT_NE(json.find("\"text\":\"x\xef\xbf\xbd\xc3\xbc\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
            json.npos)
      << json;
  const std::string line = logfmt_line(event);
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_NE(line.find(R"(lock="a\u000a\"b\"\\\u007f\u001b[0m")"), line.npos) << line;
}

}  // namespace
}  // namespace holdfast
