// Any server's answers to the log-in, the doctor and a listing: the input is its side of the
// conversation.

#include <utility>

#include "src/stores/redis/doctor/doctor.h"
#include "src/stores/redis/listing.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/lock_view.h"
#include "src/stores/redis/transport/handshake.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_server {
namespace {

using stores::redis::RedisAddress;
using stores::redis::Reply;
using stores::redis::ReplyReader;

// Answers each question with the next reply of the input, and is gone when there is none.
class Server {
 public:
  explicit Server(std::string_view script) { (void)reader_.feed(script); }

  Result<Reply> next() {
    auto reply = reader_.next();
    if (!reply) return reply.error();
    if (!*reply) return Error(Errc::kUnavailable, "the server is gone");
    if ((*reply)->is_error()) return stores::redis::to_error(**reply, "server");
    return **std::move(reply);
  }
  std::optional<Reply> raw() {
    auto reply = reader_.next();
    return reply ? *std::move(reply) : std::nullopt;
  }

 private:
  ReplyReader reader_{{.max_memory = 1U << 20U}};
};

void log_in(std::string_view input) {
  Server server(input);
  RedisAddress address;
  address.password = "S3cr3t";
  address.db = 3;
  stores::redis::Handshake handshake(address);
  while (const auto reply = server.raw()) {
    const auto step = handshake.on_reply(*reply);
    if (!step) {
      demand(!step.error().message().empty(), "a refusal has a reason");
      return;
    }
    if (*step == stores::redis::Handshake::Step::kReady) return;
  }
}

void ask_doctor(std::string_view input) {
  Server server(input);
  stores::redis::DoctorAccess access;
  access.read = [&](const auto&, base::BootInstant, const auto& done) { done(server.next()); };
  const auto tried = [&](base::BootInstant, const port::Done<void>& done) {
    const auto reply = server.next();
    if (!reply) return done(reply.error());
    done({});
  };
  access.try_lock = tried;
  access.subscribe = tried;
  int concluded = 0;
  stores::redis::examine(access, {}, {}, [&](const Result<std::vector<Finding>>& findings) {
    ++concluded;
    if (!findings) return;
    for (const Finding& finding : *findings) {
      demand(!finding.topic.empty() && !finding.what.empty(), "a finding says what it is about");
    }
  });
  demand(concluded == 1, "the doctor comes to one conclusion");
}

void list(std::string_view input) {
  Server server(input);
  int told = 0;
  stores::redis::ListingAccess access;
  access.read = [&](const auto&, base::BootInstant, const auto& done) { done(server.next()); };
  access.inspect = [&](const std::string& name, base::BootInstant, const auto& done) {
    const auto reply = server.next();
    if (!reply) return done(reply.error());
    done(stores::redis::view_of(*reply, name));
  };
  access.alarm = [](const std::string& line) { demand(!line.empty(), "an alarm says something"); };
  constexpr std::size_t kLimit = 8;
  stores::redis::list_locks(access, "", kLimit, {},
                            [&](const Result<std::vector<LockInfo>>& locks) {
                              ++told;
                              demand(!locks || locks->size() <= kLimit, "a list has its limit");
                            });
  demand(told == 1, "a listing ends once");
}

}  // namespace

void run(std::string_view input) {
  log_in(input);
  ask_doctor(input);
  list(input);
  Reply refusal;
  refusal.kind = Reply::Kind::kError;
  refusal.text = std::string(input);
  demand(!stores::redis::to_error(refusal, "server").message().empty(), "a refusal has a reason");
}

}  // namespace holdfast::fuzz::redis_server

HOLDFAST_FUZZ_TARGET(redis_server)
