#!lua flags=allow-oom
-- Keeps the record of one node of a Redlock cluster.
--
-- hfr1@node is a text, so that the other scripts read it with one short command:
--   "<cluster> <replication id> <r|q> <floor> <longest> <ends> <expiry> <run id> <name> <list>"
-- The replication id and the run id name the memory that the record was written in. r: ready; q: in
-- quarantine, until <ends>. The floor is the highest token of all locks. <longest> is the longest
-- lease, and <expiry> how long an unused lock's key lives (ms); the other numbers have 16 digits.
-- The name is this node's, the list is the cluster's.
-- ARGV: 1 "cluster replication-id", as the client knows them, 2 operation; then
--   join     3 longest ttl (ms), 4 list of nodes, 5 this node's name
--   rejoin   3 floor, 4 the end of the quarantine
--   distrust 3 the floor that cannot be
--   init     3 floor: nobody holds, says an operator
local cluster, known, op = string.sub(ARGV[1], 1, 40), string.sub(ARGV[1], 42), ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local record = redis.pcall('GET', 'hfr1@node')
local info = redis.call('INFO', 'server', 'replication')

local N = {}
if type(record) == 'string' then
  N.cluster, N.replid, N.state, N.floor, N.longest, N.ends, N.run, N.name, N.list =
    string.match(record, '^(%S+) (%S+) (%a) (%d+) (%d+) (%d+) %d+ (%S+) (%S+) (.*)$')
end

local function text(number) return string.format('%.0f', number) end
local function padded(number) return string.format('%016.0f', number) end
local function save()
  redis.call('SET', 'hfr1@node', table.concat({N.cluster, N.replid, N.state, padded(N.floor),
    padded(N.longest), padded(N.ends), text(N.longest / 1000 + 1000), N.run, N.name, N.list}, ' '))
end

if not string.find(info, 'role:master', 1, true) then return 'replica' end
if N.cluster and N.cluster ~= cluster then return 'foreign ' .. N.list end
local replid = string.match(info, 'master_replid:(%x+)')

if op == 'join' then
  local run = string.match(info, 'run_id:(%x+)')
  if N.name and N.name ~= ARGV[5] then return 'misnamed ' .. run .. ' ' .. N.name end
  if N.cluster ~= cluster or N.replid ~= replid or N.run ~= run then
    N = {
      cluster = cluster, replid = replid, state = 'q', floor = N.floor or 0,
      longest = ARGV[3] * 1000, ends = now + ARGV[3] * 1000, run = run, name = ARGV[5],
      list = ARGV[4],
    }
    save()
  end
  local state = N.state == 'r' and 'ready' or 'lost'
  return 'joined ' .. run .. ' ' .. replid .. ' ' .. state .. ' ' .. text(N.ends) .. ' ' ..
    text(N.floor) .. ' ' .. text(now)
end

if N.cluster ~= cluster or N.replid ~= known or replid ~= known then return 'lost' end
if op == 'rejoin' or op == 'init' then
  local waited = op == 'init' or text(N.ends) == ARGV[4] and now >= tonumber(N.ends)
  if N.state ~= 'q' or not waited then return 'refused' end
  N.state, N.floor = 'r', math.max(ARGV[3], N.floor)
  save()
  return 'ready'
end
-- distrust
if N.state ~= 'r' or text(N.floor) ~= ARGV[3] then return 'refused' end
N.state, N.ends, N.floor = 'q', now + N.longest, 0
save()
return 'lost'
