#!lua flags=allow-oom
-- Changes what an acquisition already has at one node of a Redlock cluster: it never creates a
-- hold. The keys and the record are those of take.lua.
--
-- ARGV: 1 operation, 2 cluster, 3 the replication id that the client knows, 4 id, then
--   confirm  5 tag, 6 attempt, 7 token: the write-back
--   renew    5 seq, 6 ttl (us), 7 token (of a break), 8 'any': also what was not confirmed
--   keep     5 seq, 6 ttl (us), 7 'any' or '-'
--   release  5 tag or '-': whatever has the id, 6 attempt, 7 late: the attempt may still arrive
--   break    5 token, 6 trace
--   inspect
local op, cluster, known, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local N = redis.call('HMGET', KEYS[1], 'c', 'p', 's', 'f', 'l')

local function text(number) return string.format('%.0f', number) end

if N[1] ~= cluster or N[2] ~= known then return 'lost' end

if op == 'inspect' then
  local all = redis.call('HGETALL', KEYS[2])
  table.insert(all, 1, text(now))
  return all
end

local function forget(field)
  redis.call('HDEL', KEYS[2], field)
  redis.pcall('PUBLISH', KEYS[2], KEYS[2])
end

if op == 'break' then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local ends, token = string.match(all[i + 1], '^%a (%d+) %d+ (%d+) ')
    if #all[i] == 32 and token == ARGV[5] and tonumber(ends) > now then
      forget(all[i])
      redis.call('HSET', KEYS[2], 'b', ARGV[5] .. ' ' .. ARGV[6])
      redis.call('PEXPIRE', KEYS[2], N[5] + 1000)
      return 'broken ' .. all[i]
    end
  end
  return 'notheld'
end

local value = redis.call('HGET', KEYS[2], id)
local mode, ends, lease, token, seq, tag, attempt, owner
if value then
  mode, ends, lease, token, seq, tag, attempt, owner =
    string.match(value, '^(%a) (%d+) (%d+) (%d+) (%d+) (%x+) (%d+) (.*)$')
  if not ends then return 'corrupt' end
end
local lives = value and tonumber(ends) > now

if op == 'release' then
  local mine = value and (ARGV[5] == '-' or
    (tag == ARGV[5] and tonumber(attempt) <= tonumber(ARGV[6])))
  if mine then forget(id) end
  if ARGV[7] == 'late' and not mine then
    redis.call('HSET', KEYS[2], 'z' .. id, ARGV[6] .. ' ' .. text(now + N[5] * 1000))
    redis.call('PEXPIRE', KEYS[2], N[5] + 1000)
  end
  return mine and lives and 'released' or 'gone'
end

if N[3] ~= 'ready' then return 'lost' end

local function write()
  redis.call('HSET', KEYS[2], id, mode .. ' ' .. ends .. ' ' .. lease .. ' ' .. token .. ' ' .. seq ..
    ' ' .. tag .. ' ' .. attempt .. ' ' .. owner)
  redis.call('PEXPIRE', KEYS[2], N[5] + 1000)
end

if op == 'confirm' then
  if not lives or tag ~= ARGV[5] or attempt ~= ARGV[6] then return 'notheld' end
  token = ARGV[7]
  write()
  if tonumber(token) > tonumber(N[4]) then redis.call('HSET', KEYS[1], 'f', token) end
  return 'confirmed'
end

-- renew, keep
if not lives then
  local broken = op == 'renew' and redis.call('HGET', KEYS[2], 'b')
  if broken and string.match(broken, '^(%d+) ') == ARGV[7] then
    return 'broken ' .. string.sub(broken, #ARGV[7] + 2)
  end
  return 'gone'
end
local any = op == 'renew' and ARGV[8] or ARGV[7]
if token == '0' and any ~= 'any' then return 'gone' end
local length = tonumber(ARGV[6])
if length > N[5] * 1000 then return 'toolong' end
if op == 'keep' then
  if tonumber(ARGV[5]) < tonumber(seq) then return 'gone' end
  if tonumber(ARGV[5]) > tonumber(seq) then
    seq, lease, ends = ARGV[5], ARGV[6], text(now + length)
    write()
  end
elseif tonumber(ARGV[5]) > tonumber(seq) and now + length > tonumber(ends) then
  seq, lease, ends = ARGV[5], ARGV[6], text(now + length)
  write()
end
return 'held ' .. token .. ' ' .. seq .. ' ' .. lease
