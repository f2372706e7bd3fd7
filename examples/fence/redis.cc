#include "holdfast/fence/redis.h"

#include <memory>
#include <vector>

#include <hiredis/hiredis.h>

#include "examples/fence/scene.h"

namespace demo {
namespace {

using holdfast::Lease;
using holdfast::Result;

struct Free {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, Free>;

Reply send(redisContext* redis, const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  Reply reply(static_cast<redisReply*>(
      ::redisCommandArgv(redis, static_cast<int>(words.size()), texts.data(), sizes.data())));
  if (reply == nullptr) fail(redis->errstr);
  return reply;
}

// [region: redis]
Result<void> write_stock(redisContext* redis, int items, const Lease& lease) {
  const auto words = holdfast::fence::redis::guarded_set("stock", std::to_string(items),
                                                         lease.token(), lease.mode());
  if (!words) return words.error();
  const auto reply = send(redis, *words);
  if (reply->type != REDIS_REPLY_ERROR) return {};
  return holdfast::fence::redis::refusal({reply->str, reply->len});
}
// [end]

}  // namespace

int play_redis(const std::string& port) {
  redisContext* redis = ::redisConnect("127.0.0.1", std::stoi(port));
  if (redis == nullptr || redis->err != 0) fail("cannot connect to port " + port);
  const int status = play_scene(
      [redis](int items, const Lease& lease) { return write_stock(redis, items, lease); },
      [redis] {
        return std::stoi(send(redis, {"GET", "stock"})->str);
      });
  ::redisFree(redis);
  return status;
}

}  // namespace demo
