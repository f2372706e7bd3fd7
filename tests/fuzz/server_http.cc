// HTTP at the lock service: the bytes of a connection, and the answers of a service in memory.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "src/server/http/credentials.h"
#include "src/server/http/http_codec.h"
#include "src/server/http/routes.h"
#include "src/server/journal/memory_journal.h"
#include "src/server/service.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::server_http {
namespace {

struct Silent final : server::ServiceListener {
  void on_push(const server::ClientName&, const port::Push&) override {}
  void on_effect(server::Position, const machine::Effect&, machine::Instant) override {}
  void on_stopped(const Error&) override { demand(false, "the service goes on"); }
};

struct Serving {
  Serving() { demand(service.start().has_value(), "a journal in memory opens"); }

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  Silent listener;
  server::Service service{io, std::make_unique<server::MemoryJournal>(), listener};
  server::HttpWaits waits{io, 4, 4};
};

void check(const server::HttpAnswer& answer) {
  demand(answer.status >= 200 && answer.status < 600, "an answer has a status");
  demand(server::to_bytes(answer, true, false).starts_with("HTTP/1.1 "), "it can be written");
  if (answer.type == "application/json") {
    demand(nlohmann::json::accept(answer.body), "a body of JSON is JSON");
  }
  if (answer.status >= 400 && answer.type == "application/json") {
    const auto body = nlohmann::json::parse(answer.body);
    demand(body.contains("error") && body["error"].contains("next"), "an error says what is next");
  }
}

// The leader reads what this server has read, and nothing behind it.
void check_forwarding(const server::HttpRequest& request) {
  server::HttpRequest sent = request;
  sent.host = "localhost";
  sent.forwarded = "192.0.2.1";
  std::string bytes = to_bytes(sent);
  server::HttpReader leader;
  if (leader.take(bytes) != server::HttpReader::Next::kRequest) {
    return demand(leader.refusal() == 431, "only a head that has become too long is refused");
  }
  const server::HttpRequest read = leader.request();
  demand(bytes.empty(), "nothing is left for a second request");
  demand(read.method == sent.method && read.target == sent.target && read.body == sent.body &&
             read.authorization == sent.authorization && read.content_type == sent.content_type &&
             read.marker == sent.marker && read.forwarded == sent.forwarded,
         "it is the same request");
}

// As if the leader had sent that.
void check_answer_of(std::string_view input) {
  constexpr std::size_t kLongest = 1'000;
  server::HttpAnswerReader reader(kLongest);
  if (reader.take(input) != server::HttpAnswerReader::Next::kAnswer) return;
  const server::HttpAnswer answer = reader.answer();
  demand(answer.body.size() <= kLongest, "an answer has its bound");
  demand(server::to_bytes(answer, true, true).starts_with("HTTP/1.1 "), "it can be passed on");
}

}  // namespace

void run(std::string_view input) {
  static Serving serving;
  const std::set<std::string> hosts{"localhost"};
  check_answer_of(input);
  std::string bytes(input.substr(0, 64 * 1'024));
  server::HttpReader reader;
  for (;;) {
    const auto next = reader.take(bytes);
    if (next == server::HttpReader::Next::kMore) {
      demand(bytes.size() <= 16 * 1'024, "what is kept of a connection has a bound");
      return;
    }
    if (next == server::HttpReader::Next::kBad) {
      const unsigned status = reader.refusal();
      demand(status == 400 || status == 413 || status == 431, "a refusal has its status");
      return;
    }
    const server::HttpRequest request = reader.request();
    static_cast<void>(server::read_credentials(request.authorization));
    check_forwarding(request);
    if (const auto refused = server::refuse_origin(request, hosts)) {
      check(*refused);
      continue;
    }
    server::HttpScene scene;
    scene.shards.front().service = &serving.service;
    scene.waits = &serving.waits;
    std::optional<server::HttpAnswer> answered;
    const auto departure = std::make_shared<server::HttpDeparture>();
    server::answer_request(scene, request, {nullptr, "192.0.2.1", departure},
                           [&](const server::HttpAnswer& answer) { answered = answer; });
    while (!answered && !departure->then) serving.io.run_one();
    if (!answered) departure->then();  // Nobody frees the lock that it waits for.
    if (answered) check(*answered);
  }
}

}  // namespace holdfast::fuzz::server_http

HOLDFAST_FUZZ_TARGET(server_http)
