// The link of the SQL stores on a real server.
#include "src/sql/link.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "src/port/store_url.h"
#include "src/stores/postgres/connection.h"
#include "src/stores/postgres/url.h"
#include "tests/support/postgres_server.h"

namespace holdfast::stores::postgres {
namespace {

using namespace std::chrono_literals;
using base::BootClock;

using sql::Answer;
using sql::Fate;
using sql::Link;

Link::Settings settings_for(const support::PostgresServer& server) {
  auto url = *port::StoreUrl::parse(server.url());
  return {[address = *parse_postgres_url(url)] {
            return std::make_unique<PostgresConnection>(address,
                                                        std::make_shared<std::atomic<bool>>(false));
          },
          400ms, "test", /*keep=*/true};
}

class LinkLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};

// Each of these takes half of connect_timeout, so the last ones are answered long after it. A
// second try would only add to what the server has to do.
TEST_F(LinkLiveTest, AStatementBehindOthersIsAwaitedWhileTheyAreAnswered) {
  support::PostgresServer server{{}};
  std::vector<std::promise<Answer>> answers(8);
  Link link(settings_for(server), {});
  link.start();
  link.post([&] {
    for (auto& answer : answers) {
      link.send({{"SELECT 7 FROM pg_sleep(0.2)"}, BootClock::now() + 60s,
                 [&answer](Answer given) { answer.set_value(std::move(given)); }});
    }
  });
  for (auto& answer : answers) {
    const Answer given = answer.get_future().get();
    ASSERT_EQ(given.fate, Fate::kDone) << given.message;
    EXPECT_EQ(given.rows->number(0, 0), 7);
  }
  link.close();
}

TEST_F(LinkLiveTest, AServerThatOwesAnAnswerAndSaysNothingIsGivenUp) {
  support::PostgresServer server{{}};
  std::promise<Answer> answer;
  Link link(settings_for(server), {});
  link.start();
  link.post([&] {
    link.send({{"SELECT pg_sleep(20)"}, BootClock::now() + 60s,
               [&answer](Answer given) { answer.set_value(std::move(given)); }});
  });
  const auto begun = BootClock::now();
  EXPECT_EQ(answer.get_future().get().fate, Fate::kUnknown);
  EXPECT_GE(BootClock::now() - begun, 400ms);
  EXPECT_LT(BootClock::now() - begun, 15s);
  link.close();
}

}  // namespace
}  // namespace holdfast::stores::postgres
