#!lua
-- Takes a lock at one node of a Redlock cluster, and keeps the node's own record. The lock is held
-- once a majority of nodes gave it: this script never decides that. docs/design/0049-redlock.md.
--
-- KEYS[1] the node's record, a hash: c cluster, t the cluster's list of nodes, l longest ttl (ms),
--   r run id, p replication id (together: the memory that the record was written in), s 'ready' or
--   'lost' (in quarantine), j the end of the quarantine, n whether there was no record before,
--   f the floor: the highest token of all locks.
-- KEYS[2] the lock, a hash. An acquisition id has "mode end lease token seq tag attempt owner"; 'z'
--   and an id: a given-up attempt that may still arrive, "attempt until"; 'b': the last break.
-- ARGV: 1 operation, 2 cluster, 3 the replication id that the client knows; then
--   acquire  4 id, 5 tag of the client, 6 attempt, 7 mode (x or s), 8 ttl (us), 9 token or 0, 10 owner
--   join     4 longest ttl (ms), 5 list of nodes
--   rejoin   4 the end of the quarantine, 5 floor
--   distrust 4 the floor that cannot be
--   init     4 longest ttl (ms), 5 list of nodes, 6 floor
-- Instants are microseconds of this node's clock.
local op, cluster, known = ARGV[1], ARGV[2], ARGV[3]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local N = redis.call('HMGET', KEYS[1], 'c', 'p', 's', 'f', 'l', 'j', 'r')
local joins = op == 'join' or op == 'init'
local info = joins and redis.call('INFO', 'server', 'replication') or redis.call('INFO', 'replication')
local format = string.format

local function text(number) return format('%.0f', number) end

if not string.find(info, 'role:master', 1, true) then return 'replica' end
if N[1] and N[1] ~= cluster then
  return 'foreign ' .. (redis.call('HGET', KEYS[1], 't') or '?')
end

if joins then
  local run = string.match(info, 'run_id:(%x+)')
  local replid = string.match(info, 'master_replid:(%x+)')
  local longest = ARGV[4] * 1000
  local state, ends, floor, new = N[3], tonumber(N[6] or '0'), N[4] or '0', '0'
  if N[1] ~= cluster or N[2] ~= replid or N[7] ~= run then
    state, ends, new = 'lost', now + longest, N[1] and '0' or '1'
    redis.call('HSET', KEYS[1], 'c', cluster, 't', ARGV[5], 'l', ARGV[4], 'r', run, 'p', replid,
      's', state, 'j', text(ends), 'n', new, 'f', floor)
  end
  if op == 'init' then
    if tonumber(ARGV[6]) > tonumber(floor) then floor = ARGV[6] end
    state = 'ready'
    redis.call('HSET', KEYS[1], 's', state, 'f', floor)
  end
  return 'joined ' .. run .. ' ' .. replid .. ' ' .. state .. ' ' .. text(ends) .. ' ' .. floor ..
    ' ' .. text(now) .. ' ' .. redis.call('HGET', KEYS[1], 'n')
end

if N[1] ~= cluster or N[2] ~= known or #known ~= 40 or
  not string.find(info, 'master_replid:' .. known, 1, true) then
  return 'lost'
end

if op == 'rejoin' then
  if N[3] ~= 'lost' or N[6] ~= ARGV[4] or now < tonumber(N[6]) then return 'refused' end
  local floor = ARGV[5]
  if tonumber(N[4]) > tonumber(floor) then floor = N[4] end
  redis.call('HSET', KEYS[1], 's', 'ready', 'f', floor)
  return 'ready'
end
if op == 'distrust' then
  if N[3] ~= 'ready' or N[4] ~= ARGV[4] then return 'refused' end
  redis.call('HSET', KEYS[1], 's', 'lost', 'j', text(now + N[5] * 1000), 'n', '0', 'f', '0')
  return 'lost'
end

-- acquire
if N[3] ~= 'ready' then return 'quarantine ' .. text(math.max(N[6] - now, 0)) end
local id, tag, attempt, mode, ttl = ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
if ttl > N[5] * 1000 then return 'toolong' end
local held = redis.call('HGETALL', KEYS[2])
local over = {}
local first
for i = 1, #held, 2 do
  local field, value = held[i], held[i + 1]
  if #field == 32 then
    local m, ends, _, _, _, t, a = string.match(value, '^(%a) (%d+) (%d+) (%d+) (%d+) (%x+) (%d+) ')
    ends = tonumber(ends)
    if not ends then return 'corrupt' end
    if ends <= now then
      over[#over + 1] = field
    elseif field ~= id and (m == 'x' or mode == 'x') then
      first = math.min(first or ends, ends)
    elseif field == id and (t ~= tag or tonumber(a) > tonumber(attempt)) then
      first = math.min(first or ends, ends)
    end
  elseif #field == 33 then
    local a, until_ = string.match(value, '^(%d+) (%d+)$')
    if tonumber(until_) <= now then
      over[#over + 1] = field
    elseif string.sub(field, 2) == id and tonumber(a) >= tonumber(attempt) then
      return 'ended'
    end
  end
end
if over[1] then redis.call('HDEL', KEYS[2], unpack(over)) end
if first then return 'busy ' .. text(first - now) end
redis.call('HSET', KEYS[2], id, mode .. ' ' .. text(now + ttl) .. ' ' .. ARGV[8] .. ' ' .. ARGV[9] ..
  ' 0 ' .. tag .. ' ' .. attempt .. ' ' .. ARGV[10])
redis.call('PEXPIRE', KEYS[2], N[5] + 1000)
return 'granted ' .. N[4]
