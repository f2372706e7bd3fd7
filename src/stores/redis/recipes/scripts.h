// The requests of each form to the server, as scripts. Each looks at the key's type first: another
// type is held by somebody unknown, and stays as it is.
//
//   script      keys   arguments                answer
//   take        one    mark, lease [, channel]  {1, seconds, micros} or {0, PTTL}
//   renew       some   lease, marks             {1 or 0 for each}
//   give_back   one    mark [, channel]         1, or 0: not ours
//   inspect     one                             {} or {type, PTTL, holder's mark}
//
// A mark is the holder's hash field, or the string's value. Times are milliseconds.
//
// A script that is refused halfway leaves its first writes behind, so that a lock could have no
// expiry. Therefore each asks first whether this user may do the rest (Redis 7.0 and later).
#pragma once

#include <string_view>

namespace holdfast::stores::redis::recipe_scripts {

struct Form {
  std::string_view take;
  std::string_view renew;
  std::string_view give_back;
  std::string_view inspect;
};

inline constexpr Form kRedisson{.take = R"lua(
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and (kind ~= 'hash' or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0) then
  return {0, redis.call('PTTL', KEYS[1])}
end
local may = redis.acl_check_cmd
if may and not (may('PEXPIRE', KEYS[1], ARGV[2]) and may('HDEL', KEYS[1], ARGV[1])
                and may('PUBLISH', ARGV[3], '0')) then
  return redis.error_reply('NOPERM pexpire, hdel or publish')
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, time[1], time[2]}
)lua",
                                .renew = R"lua(
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  if redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, ARGV[i + 1]) == 1 then
    held[i] = redis.call('PEXPIRE', key, ARGV[1])
  end
end
return held
)lua",
                                .give_back = R"lua(
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('PUBLISH', ARGV[2], '0') end
return 1
)lua",
                                .inspect = R"lua(
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return {} end
local mark = ''
if kind == 'hash' then mark = redis.call('HSCAN', KEYS[1], 0, 'COUNT', 1)[2][1] end
return {kind, redis.call('PTTL', KEYS[1]), mark}
)lua"};

inline constexpr Form kSetNx{.take = R"lua(
local may = redis.acl_check_cmd
if may and not (may('GET', KEYS[1]) and may('DEL', KEYS[1])
                and may('PEXPIRE', KEYS[1], ARGV[2])) then
  return redis.error_reply('NOPERM get, del or pexpire')
end
local time = redis.call('TIME')
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {1, time[1], time[2]} end
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, time[1], time[2]}
end
return {0, redis.call('PTTL', KEYS[1])}
)lua",
                             .renew = R"lua(
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[i + 1] then
    held[i] = redis.call('PEXPIRE', key, ARGV[1])
  end
end
return held
)lua",
                             .give_back = R"lua(
if redis.call('TYPE', KEYS[1]).ok ~= 'string' then return 0 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
)lua",
                             .inspect = R"lua(
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return {} end
local mark = ''
if kind == 'string' then mark = redis.call('GETRANGE', KEYS[1], 0, 255) end
return {kind, redis.call('PTTL', KEYS[1]), mark}
)lua"};

}  // namespace holdfast::stores::redis::recipe_scripts
