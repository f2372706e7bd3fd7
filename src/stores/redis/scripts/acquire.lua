-- Grants the lock, queues for it, or says that it is busy.
--
-- KEYS[1] the lock's record. ARGV: 1 acquisition id, 2 client, 3 issue, 4 ttl, 5 owner, 6 terms:
-- "P" (plain: may take the short way), "T" (the same, and does not wait) or "Q", then
-- "<kind> <permits> <capacity> <policy> <may wait> <waiter ttl> <most waiters> <upgrade of>".
local record, clock = redis.call('GET', KEYS[1]), redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
local form, terms = record and string.sub(record, 1, 7), string.byte(ARGV[6])

-- The short way of a plain mutex that is free and was last used by this client ...
if terms ~= 81 and (not record or form == '1 free ' and #record == 57) then
  local token, ours, fresh = now, true, false
  if record then
    local last = string.sub(record, 8, 23)
    if last >= now then
      token = string.format('%016.0f', last + 1)
    else
      -- Within a thousand seconds of the last grant its week need not begin anew.
      fresh = string.sub(last, 1, 7) == string.sub(now, 1, 7)
    end
    ours = string.sub(record, 25, 40) == ARGV[2] and string.sub(record, 42, 57) < ARGV[3]
  end
  if ours and token < '9007199254740990' then
    local held = '1 held ' .. token .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[1] .. ' ' ..
      now .. ' 0 ' .. ARGV[4] .. ' ' .. ARGV[5]
    if fresh then
      redis.call('SET', KEYS[1], held, 'KEEPTTL')
    else
      redis.call('SET', KEYS[1], held, 'PX', '604800000')
    end
    return 'held ' .. token .. ' 0 ' .. ARGV[4]
  end

-- ... or held by another, when the caller would not wait.
elseif terms == 84 and form == '1 held ' and string.sub(record, 25, 40) ~= ARGV[2] then
  local start, lease = string.match(record, '^(%d+) %d+ (%d+) ', 92)
  local left = start and start + lease - now or 0
  local seen = redis.call('HGET', KEYS[1] .. ':m', ARGV[2])
  if left > 0 and not (seen and seen >= ARGV[3]) then return string.format('busy %.0f', left) end
end

-- The short way to the end of a plain mutex' queue, in which nobody's lease is over: what lock.lua
-- would do, with two thirds of the calls. nil when it is not so: nothing is changed then.
local function queue_up()
  local call, match = redis.call, string.match
  local K, id, client, at = KEYS[1], ARGV[1], ARGV[2], tonumber(now)
  local T, H, W, Q, M = K .. ':t', K .. ':h', K .. ':w', K .. ':q', K .. ':m'
  local head, order, tickets, waiters, refreshed, used_by, issue = match(record,
    '^(1 many %d+ e f 1 )(%d+) 1 0 0 (%d+) (%d+) %- %- %- (%d+) (%S+) (%d+)$')
  local lease, most = match(ARGV[6], '^Pe 1 1 f 1 (%d+) (%d+) %-$')
  if not head or not lease or waiters == '0' or waiters + 1 ~= tonumber(tickets) then return nil end
  if at - refreshed > 3600000000 or most ~= '0' and waiters - most >= 0 then return nil end
  local seen = used_by == client and issue or call('HGET', M, client)
  if seen and seen >= ARGV[3] then return nil end
  local holder, dying = call('ZRANGE', H, 0, 0, 'WITHSCORES'), call('ZRANGE', W, 0, 0, 'WITHSCORES')
  local left = holder[2] and holder[2] - at or 0
  if left <= 0 or not dying[2] or tonumber(dying[2]) <= at then return nil end
  if call('EXISTS', T, Q) < 2 or call('HEXISTS', T, id) == 1 then return nil end
  if used_by ~= client then
    if used_by == '----------------' or call('HLEN', M) >= 1000 then return nil end
    call('HSET', M, used_by, issue)
    call('PEXPIRE', M, '604800000')
  end
  call('ZADD', Q, order, id)
  call('ZADD', W, string.format('%.0f', at + lease), id)
  call('HSET', T, id, 'w e 1 ' .. order .. ' 0 ' .. lease .. ' 0000000000000000 ' .. client ..
    ' - ' .. ARGV[5])
  call('SET', K, string.format('%s%.0f 1 0 0 %.0f %.0f - - - %s %s %s', head, order + 1,
    tickets + 1, waiters + 1, refreshed, client, ARGV[3]), 'PX', '604800000')
  return string.format('waiting 0 %s %s %.0f', lease, waiters, left)
end

if terms == 80 and form == '1 many ' then
  local answer = queue_up()
  if answer then return answer end
end

--@lock
--@entry

ask(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
open(KEYS[1], record)
expire()
local known = read(id)
local answer
if known then
  if known.kind == 'x' then
    answer = 'invalid'
  else
    try_barging(known, ttl, '0')  -- Its client counts from its first send, which is no later.
  end
elseif is_old(client, issue) then
  answer = 'gone'
else
  admit()  -- Those whom expiry has let in stand before the newcomer.
  answer = refusal()
  if not answer then
    if admits_newcomer() then
      if can_mint() then enter(true) else answer = 'exhausted' end
    elseif may_wait == '0' then
      answer = 'busy ' .. next_expiry()
    elseif most > 0 and lock.waiters >= most then
      answer = 'full'
    else
      enter(false)
    end
  end
end
settle()
answer = answer or describe(id)
close()
return answer
