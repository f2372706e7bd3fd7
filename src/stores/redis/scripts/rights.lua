#!lua flags=no-writes,allow-stale
-- Which commands of the scripts that write this user may not run on a lock. Asked before the first
-- of them: one that is refused half-way leaves what it has written, and counts that are wrong.
--
-- KEYS[1] the lock's record.
local key = KEYS[1]
local missing = {}
-- All of them begin with this one. Perhaps it is the key that is not allowed.
if not redis.acl_check_cmd('GET', key) then return {'GET'} end
for _, command in ipairs({
  {'SET', key, '1'}, {'DEL', key}, {'EXISTS', key}, {'PEXPIRE', key, '1'}, {'HGET', key, 'f'},
  {'HSET', key, 'f', '1'}, {'HDEL', key, 'f'}, {'HLEN', key}, {'HEXISTS', key, 'f'},
  {'ZADD', key, '1', 'm'}, {'ZREM', key, 'm'}, {'ZRANGE', key, '0', '0'},
  {'ZRANGEBYSCORE', key, '0', '1'}, {'ZSCORE', key, 'm'}, {'ZRANK', key, 'm'},
}) do
  if not redis.acl_check_cmd(unpack(command)) then missing[#missing + 1] = command[1] end
end
return missing
