#!lua
-- Takes locks at one node of a Redlock cluster. A lock is held once a majority of nodes gave it:
-- this script never decides that (docs/design/0049-redlock.md). node.lua describes the node's
-- record.
--
-- KEYS: locks, each a text of lines. The first one is the hold, or empty:
--   "<end> <id><mark><token> <lease> <tag> <attempt> <seq> <owner>": end, token and lease have 16
--   digits; the mark is 'w' if somebody was refused and wants to hear of the release, else ' '.
-- Then there may be lines that begin with
--   z   "<id> <attempt> <until>": a given-up attempt that may still arrive
--   !   "<token> <trace>": the last break
--   w   somebody was refused by a hold that is over
-- A lock that nobody has used lately has no key, so that one command finds this out and takes it.
-- ARGV: 1 "cluster replication-id", as the client knows them; then for each lock
--   "<id> <token> <lease> <tag> <attempt> <seq> <owner>".
-- Instants and leases are microseconds of this node's clock. Several locks have an array of
-- answers.
local call, match, sub, byte, find = redis.call, string.match, string.sub, string.byte, string.find
local clock = redis.call('TIME')
local now = clock[1] .. sub('00000' .. clock[2], -6)
local node = redis.pcall('GET', 'hfr1@node')
local info = call('INFO', 'replication')
if type(node) ~= 'string' then node = '' end

local refused  -- Why this node gives nothing at all.
if not find(info, 'role:master', 1, true) then
  refused = 'replica'
elseif node ~= '' and sub(node, 1, 40) ~= sub(ARGV[1], 1, 40) then
  refused = 'foreign ' .. (match(node, '^%S+ %S+ %a %d+ %d+ %d+ %d+ %S+ %S+ (.*)$') or '?')
elseif sub(node, 1, 81) ~= ARGV[1] or
    not find(info, 'master_replid:' .. sub(ARGV[1], 42), 1, true) then
  refused = 'lost'
elseif byte(node, 83) ~= 114 then
  refused = 'quarantine ' .. string.format('%.0f', math.max(sub(node, 119, 134) - now, 0))
end
local longest, expiry = sub(node, 102, 117), match(node, '^%d+', 136)
local granted = 'granted ' .. sub(node, 85, 100)

-- Somebody has used the lock. What is over is dropped.
local function take_used(key, ends, asked)
  local text = redis.pcall('GET', key)
  if type(text) ~= 'string' then return 'corrupt' end
  local id, tag, attempt = match(asked, '^(%x+) %d+ %d+ (%x+) (%d+) ')
  local first, rest = match(text, '^([^\n]*)(.*)$')
  local wanted, kept = false, ''
  for line in string.gmatch(rest, '\n([^\n]+)') do
    local who, a, until_ = match(line, '^z(%x+) (%d+) (%d+)$')
    if line == 'w' then
      wanted = true
    elseif not who then
      kept = kept .. '\n' .. line
    elseif until_ > now then
      if who == id and tonumber(a) >= tonumber(attempt) then return 'ended' end
      kept = kept .. '\n' .. line
    end
  end
  if first ~= '' then
    local until_, who, mark, t, a = match(first, '^(%d+) (%x+)([ w])%d+ %d+ (%x+) (%d+) ')
    if not until_ then return 'corrupt' end
    local own = who == id and t == tag and tonumber(a) <= tonumber(attempt)
    if until_ > now and not own then
      if mark ~= 'w' then call('SETRANGE', key, '49', 'w') end
      return 'busy ' .. string.format('%.0f', until_ - now)
    end
    wanted = wanted or mark == 'w'
  end
  if wanted then asked = sub(asked, 1, 32) .. 'w' .. sub(asked, 34) end
  call('SET', key, ends .. asked .. kept, 'PX', expiry)
  return granted
end

local answers, lease, ends = {}, nil, nil
for i = 1, #KEYS do
  local key, asked = KEYS[i], ARGV[i + 1]
  local its_lease = sub(asked, 51, 66)
  if its_lease ~= lease then  -- Mostly all have the same.
    lease, ends = its_lease, string.format('%.0f ', now + its_lease)
  end
  local answer = refused or lease > longest and 'toolong'
  if not answer then
    local taken = call('SET', key, ends .. asked, 'NX', 'PX', expiry)
    answer = taken and granted or take_used(key, ends, asked)
  end
  answers[i] = answer
end
return answers[2] and answers or answers[1]
