#!lua flags=allow-oom
-- Changes what acquisitions already have at one node of a Redlock cluster: it never creates a hold.
-- The keys and the record are those of take.lua.
--
-- KEYS: locks. ARGV: 1 "cluster replication-id", as the client knows them; then five words for each
-- lock, '-' where there is none:
--   confirm   id, "tag attempt", token (16 digits): the write-back
--   renew     id, seq, ttl (us), token (of a break); renewany: also what was not confirmed
--   keep      id, seq, ttl (us); keepany
--   release   id, "tag attempt" or '-': whatever has the id; late: the attempt may still arrive
--   undo      the same for an attempt that came to nothing: whoever waits is not told
--   break     -, token, trace
--   inspect
-- Several locks have an array of answers.
local call, match, sub, format = redis.call, string.match, string.sub, string.format
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local N = call('HMGET', 'hfr1@node', 'c', 'p', 's', 'f', 'l')
local known = N[1] and N[2] and N[1] .. ' ' .. N[2] == ARGV[1]
local floor = tonumber(N[4] or 0)
local raised
local none = '0000000000000000'

local answers = {}
for i = 1, #KEYS do
  local key, at = KEYS[i], 5 * i - 3
  local op, id, a, b, c = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local got = {}
  if known and op == 'release' then
    got = call('HMGET', key, id, 'w')
  elseif known and #id == 32 then
    got[1] = call('HGET', key, id)
  end
  local value = got[1]
  local ends = value and tonumber(sub(value, 1, 16))
  local lives = ends and ends > now
  local answer
  if not known then
    answer = 'lost'
  elseif value and not ends then
    answer = 'corrupt'
  elseif op == 'confirm' then
    answer = 'notheld'
    if N[3] ~= 'ready' then
      answer = 'lost'
    elseif lives and sub(value, 35, 35 + #a) == a .. ' ' then
      answer = 'confirmed'
      call('HSET', key, id, sub(value, 1, 17) .. b .. sub(value, 34))
      if tonumber(b) > floor then
        floor, raised = tonumber(b), true
      end
    end
  elseif op == 'release' or op == 'undo' then
    local mine = value and (a == '-' or sub(value, 35, 35 + #a) == a .. ' ')
    if value and not mine then
      local tag, attempt = match(a, '^(%x+) (%d+)$')
      local t, has = match(value, '^(%x+) (%d+)', 35)
      mine = t == tag and tonumber(has) <= tonumber(attempt)
    end
    if mine and got[2] then
      call('HDEL', key, id, 'w')
      redis.pcall('PUBLISH', key, key)
    elseif mine then
      call('HDEL', key, id)
    elseif b == 'late' then
      call('HSET', key, 'z' .. id, format('%s %.0f', match(a, '%d+$'), now + N[5] * 1000))
      call('PEXPIRE', key, N[5] + 1000)
    end
    answer = mine and lives and 'released' or 'gone'
  elseif op == 'inspect' then
    answer = call('HGETALL', key)
    table.insert(answer, 1, format('%.0f', now))
  elseif op == 'break' then
    answer = 'notheld'
    local all = call('HGETALL', key)
    for field = 1, #all, 2 do
      local until_, has = match(all[field + 1], '^(%d+) 0*(%d+) ')
      if #all[field] == 32 and has == a and tonumber(until_) > now then
        call('HDEL', key, all[field])
        redis.pcall('PUBLISH', key, key)
        call('HSET', key, 'b', a .. ' ' .. b)
        call('PEXPIRE', key, N[5] + 1000)
        answer = 'broken ' .. all[field]
      end
    end
  elseif N[3] ~= 'ready' then
    answer = 'lost'
  else  -- renew, keep
    local keeps = sub(op, 1, 4) == 'keep'
    local broken = not keeps and not lives and call('HGET', key, 'b')
    if broken and match(broken, '^(%d+) ') == c then
      answer = 'broken ' .. sub(broken, #c + 2)
    elseif not lives or sub(value, 18, 33) == none and sub(op, -3) ~= 'any' then
      answer = 'gone'
    elseif tonumber(b) > N[5] * 1000 then
      answer = 'toolong'
    else
      local named, lease, seq, owner = match(value, '^(%x+ %d+) (%d+) (%d+) (.*)$', 35)
      if not named then
        answer = 'corrupt'
      elseif keeps and tonumber(a) < tonumber(seq) then
        answer = 'gone'
      else
        if tonumber(a) > tonumber(seq) and (keeps or now + b > ends) then
          seq, lease = a, b
          call('HSET', key, id, format('%.0f', now + b) .. sub(value, 17, 34) .. named .. ' ' ..
            lease .. ' ' .. seq .. ' ' .. owner)
          call('PEXPIRE', key, N[5] + 1000)
        end
        answer = 'held ' .. format('%.0f', sub(value, 18, 33)) .. ' ' .. seq .. ' ' .. lease
      end
    end
  end
  answers[i] = answer
end
if raised then call('HSET', 'hfr1@node', 'f', format('%.0f', floor)) end
return answers[2] and answers or answers[1]
