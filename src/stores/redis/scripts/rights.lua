#!lua flags=no-writes,allow-stale
-- Returns the commands of the writing scripts that this user may not run on a lock. It runs before
-- the first of these scripts, because a script that is refused halfway leaves its first writes and
-- wrong counts behind.
--
-- KEYS[1] the lock's record; ARGV 'doctor' CHANNEL: also checks what is needed beside the locks. A
-- '?' stands before the name of a command that the server does not have (disabled or renamed).
local key, tickets, queue = KEYS[1], KEYS[1] .. ':t', KEYS[1] .. ':q'
local missing = {}
local function look(command)
  local known, may = pcall(redis.acl_check_cmd, unpack(command))
  if not known then
    missing[#missing + 1] = '?' .. command[1]
  elseif not may then
    missing[#missing + 1] = command[1]
  end
end
look({'GET', key})
-- Every script begins with this command. If it fails, the user may lack permission for the key.
if missing[1] == 'GET' then return missing end
for _, command in ipairs({
  {'SET', key, '1'}, {'DEL', key}, {'EXISTS', key}, {'PEXPIRE', key, '1'}, {'HGET', tickets, 'f'},
  {'HSET', tickets, 'f', '1'}, {'HDEL', tickets, 'f'}, {'HLEN', tickets},
  {'HEXISTS', tickets, 'f'}, {'ZADD', queue, '1', 'm'}, {'ZREM', queue, 'm'},
  {'ZRANGE', queue, '0', '0'}, {'ZRANGEBYSCORE', queue, '0', '1'}, {'ZSCORE', queue, 'm'},
  {'ZRANK', queue, 'm'},
}) do look(command) end
if ARGV[1] == 'doctor' then
  -- Handoffs without delay, inspect, ls.
  for _, command in ipairs({
    {'PUBLISH', ARGV[2], ''}, {'UNSUBSCRIBE', ARGV[2]}, {'HGETALL', tickets}, {'SCAN', '0'},
    {'MGET', key},
  }) do look(command) end
end
return missing
