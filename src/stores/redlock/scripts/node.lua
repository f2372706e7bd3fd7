#!lua flags=allow-oom
-- Keeps the record of one node of a Redlock cluster.
--
-- hfr1@node is a hash: c cluster, t the cluster's list of nodes, m the name of this one, l longest
--   ttl (ms), r run id, p replication id (together: the memory that the record was written in), s
--   'ready' or 'lost' (in quarantine), j the end of the quarantine, f the floor: the highest token
--   of all locks.
-- ARGV: 1 "cluster replication-id", as the client knows them, 2 operation; then
--   join     3 longest ttl (ms), 4 list of nodes, 5 this node's name
--   rejoin   3 floor, 4 the end of the quarantine
--   distrust 3 the floor that cannot be
--   init     3 floor: nobody holds, says an operator
local record = 'hfr1@node'
local cluster, known, op = string.sub(ARGV[1], 1, 40), string.sub(ARGV[1], 42), ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local N = redis.call('HMGET', record, 'c', 'p', 's', 'f', 'l', 'j', 'r', 'm')
local info = redis.call('INFO', 'server', 'replication')

local function text(number) return string.format('%.0f', number) end

if not string.find(info, 'role:master', 1, true) then return 'replica' end
if N[1] and N[1] ~= cluster then
  return 'foreign ' .. (redis.call('HGET', record, 't') or '?')
end
local replid = string.match(info, 'master_replid:(%x+)')

if op == 'join' then
  local run = string.match(info, 'run_id:(%x+)')
  local state, ends, floor, name = N[3], N[6], N[4] or '0', N[8] or ARGV[5]
  if name ~= ARGV[5] then return 'misnamed ' .. run .. ' ' .. name end
  if N[1] ~= cluster or N[2] ~= replid or N[7] ~= run then
    state, ends = 'lost', text(now + ARGV[3] * 1000)
    redis.call('HSET', record, 'c', cluster, 't', ARGV[4], 'm', name, 'l', ARGV[3], 'r', run,
      'p', replid, 's', state, 'j', ends, 'f', floor)
  end
  return 'joined ' .. run .. ' ' .. replid .. ' ' .. state .. ' ' .. ends .. ' ' .. floor ..
    ' ' .. text(now)
end

if N[1] ~= cluster or N[2] ~= known or replid ~= known then return 'lost' end
if op == 'rejoin' or op == 'init' then
  local waited = op == 'init' or N[6] == ARGV[4] and now >= tonumber(N[6])
  if N[3] ~= 'lost' or not waited then return 'refused' end
  local floor = ARGV[3]
  if tonumber(N[4]) > tonumber(floor) then floor = N[4] end
  redis.call('HSET', record, 's', 'ready', 'f', floor)
  return 'ready'
end
-- distrust
if N[3] ~= 'ready' or N[4] ~= ARGV[3] then return 'refused' end
redis.call('HSET', record, 's', 'lost', 'j', text(now + N[5] * 1000), 'f', '0')
return 'lost'
