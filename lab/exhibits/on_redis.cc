#include "lab/exhibits/on_redis.h"

#include <stdexcept>

namespace holdfast::lab {
namespace {

std::uint16_t port_of(const std::string& url) {
  const std::size_t colon = url.rfind(':');
  return static_cast<std::uint16_t>(std::stoul(url.substr(colon + 1)));
}

}  // namespace

RedisClient::RedisClient(const std::string& url, std::chrono::milliseconds limit)
    : connection_(port_of(url), limit.count() == 0 ? support::RedisConnection::kLimit : limit) {}

support::Reply RedisClient::operator()(const std::vector<std::string>& words) {
  support::Reply reply = connection_.command(words);
  if (reply.is_error()) throw std::runtime_error(reply.text);
  return reply;
}

bool RedisClient::set_nx(const std::string& name, const std::string& value,
                         std::chrono::milliseconds ttl) {
  return !(*this)({"SET", name, value, "NX", "PX", in_ms(ttl)}).is_nil();
}

bool RedisClient::delete_if(const std::string& name, const std::string& value) {
  const std::string script =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
      "return 0";
  return (*this)({"EVAL", script, "1", name, value}).integer == 1;
}

}  // namespace holdfast::lab
