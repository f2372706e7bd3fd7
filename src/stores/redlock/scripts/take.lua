#!lua
-- Takes locks at one node of a Redlock cluster. A lock is held once a majority of nodes gave it:
-- this script never decides that. docs/design/0049-redlock.md; node.lua describes the record.
--
-- KEYS: locks, each a hash. An acquisition id has "end token tag attempt lease seq owner", where
--   end and token are 16 digits; 'z' and an id: a given-up attempt that may still arrive, "attempt
--   until"; 'b': the last break; 'w': somebody was refused, and wants to hear of the release.
-- ARGV: 1 "cluster replication-id", as the client knows them; then for each lock
--   id, ttl (us), "token tag attempt lease seq owner".
-- Instants are microseconds of this node's clock. Several locks have an array of answers.
local call, match, sub, format = redis.call, string.match, string.sub, string.format
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local N = call('HMGET', 'hfr1@node', 'c', 'p', 's', 'f', 'l')
local info = call('INFO', 'replication')
local known = sub(ARGV[1], 42)

local refused  -- Why this node gives nothing at all.
if not string.find(info, 'role:master', 1, true) then
  refused = 'replica'
elseif N[1] and N[1] ~= sub(ARGV[1], 1, 40) then
  refused = 'foreign ' .. (call('HGET', 'hfr1@node', 't') or '?')
elseif N[2] ~= known or not string.find(info, 'master_replid:' .. known, 1, true) then
  refused = 'lost'
elseif N[3] ~= 'ready' then
  refused = 'quarantine ' .. format('%.0f', math.max(call('HGET', 'hfr1@node', 'j') - now, 0))
end

local answers = {}
for i = 1, #KEYS do
  local key, id, ttl, hold = KEYS[i], ARGV[3 * i - 1], tonumber(ARGV[3 * i]), ARGV[3 * i + 1]
  local answer = refused or ttl > N[5] * 1000 and 'toolong'
  local held = answer and {} or call('HGETALL', key)
  if held[1] then  -- Somebody has used it. What is over is dropped.
    local tag, attempt = match(hold, '^%d+ (%x+) (%d+) ')
    local over, first = {}, nil
    for at = 1, #held, 2 do
      local field, value = held[at], held[at + 1]
      if #field == 32 then
        local ends, t, a = match(value, '^(%d+) %d+ (%x+) (%d+) ')
        ends = tonumber(ends)
        if not ends then
          answer = answer or 'corrupt'
        elseif ends <= now then
          over[#over + 1] = field
        elseif field ~= id or t ~= tag or tonumber(a) > tonumber(attempt) then
          first = math.min(first or ends, ends)
        end
      elseif #field == 33 then
        local a, until_ = match(value, '^(%d+) (%d+)$')
        if tonumber(until_) <= now then
          over[#over + 1] = field
        elseif sub(field, 2) == id and tonumber(a) >= tonumber(attempt) then
          answer = answer or 'ended'
        end
      end
    end
    if over[1] then call('HDEL', key, unpack(over)) end
    if first and not answer then
      answer = 'busy ' .. format('%.0f', first - now)
      call('HSET', key, 'w', '')
    end
  end
  if not answer then
    call('HSET', key, id, format('%.0f ', now + ttl) .. hold)
    call('PEXPIRE', key, N[5] + 1000)
    answer = 'granted ' .. N[4]
  end
  answers[i] = answer
end
return answers[2] and answers or answers[1]
