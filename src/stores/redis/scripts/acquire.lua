-- Grants locks, queues for them, or says that they are busy. Each lock is treated as if it were
-- asked for alone. For one lock it returns the answer; for several an array of answers, in which
-- the failure of one lock does not affect the others.
--
-- KEYS the locks' records; a lock may occur more than once. ARGV: 1 client, then per lock:
-- acquisition id, issue, ttl, owner, terms: "P" (plain: may take the short way), "T" (the same, and
-- does not wait) or "Q", then "<kind> <permits> <capacity> <may wait> <waiter ttl> <most waiters>
-- <upgrade of>".
local call, sub, byte = redis.call, string.sub, string.byte
local user, clock = ARGV[1], redis.call('TIME')
--@cluster
local now = clock[1] .. sub('00000' .. clock[2], -6)
local now_in_short = sub(now, 1, 7)
local go_the_long_way  -- Made when first needed.

local function take(key, id, issue, ttl, owner, terms)
  --@single local record = call('GET', key)
  --@cluster local record = redis.pcall('GET', key)
  --@cluster if type(record) == 'table' then return alone(record) end
  local form, how = record and sub(record, 1, 7), byte(terms)

  -- The short way for a plain mutex that is free and was last used by this client.
  if how ~= 81 and (not record or form == '1 free ' and #record == 57) then
    local token, ours, fresh = now, true, false
    if record then
      local last = sub(record, 8, 23)
      if last >= now then
        token = string.format('%016.0f', last + 1)
      else
        -- Within a thousand seconds of the last grant the key's week need not start again.
        fresh = sub(last, 1, 7) == now_in_short
      end
      ours = sub(record, 25, 40) == user and sub(record, 42, 57) < issue
    end
    if ours and token < '9007199254740990' then
      local held = '1 held ' .. token .. ' ' .. user .. ' ' .. issue .. ' ' .. id .. ' ' .. now ..
        ' 0 ' .. ttl .. ' ' .. owner
      if fresh then
        call('SET', key, held, 'KEEPTTL')
      else
        call('SET', key, held, 'PX', '604800000')
      end
      return 'held ' .. token .. ' 0 ' .. ttl
    end
  end

  --@cluster refuse_if_moving(key)
  -- The short way if another client holds the lock and the caller does not wait.
  if how == 84 and form == '1 held ' and sub(record, 25, 40) ~= user then
    local start, lease = string.match(record, '^(%d+) %d+ (%d+) ', 92)
    local left = start and start + lease - now or 0
    local seen = redis.call('HGET', key .. ':m', user)
    if left > 0 and not (seen and seen >= issue) then return string.format('busy %.0f', left) end
  end

  -- The short way to the end of a plain mutex' queue in which no lease has ended. It does what
  -- lock.lua would do, with two thirds of the calls. Otherwise it returns nil and changes nothing.
  if how == 80 and form == '1 many ' then
    local function queue_up()
      local match = string.match
      local K, client, at = key, user, tonumber(now)
      local T, H, W, Q, M = K .. ':t', K .. ':h', K .. ':w', K .. ':q', K .. ':m'
      local head, order, tickets, waiters, refreshed, used_by, number = match(record,
        '^(1 many %d+ e f 1 )(%d+) 1 0 0 (%d+) (%d+) %- %- %- (%d+) (%S+) (%d+)$')
      local lease, most = match(terms, '^Pe 1 1 1 (%d+) (%d+) %-$')
      if not head or not lease or waiters == '0' or waiters + 1 ~= tonumber(tickets) then
        return nil
      end
      if at - refreshed > 3600000000 or most ~= '0' and waiters - most >= 0 then return nil end
      local seen = used_by == client and number or call('HGET', M, client)
      if seen and seen >= issue then return nil end
      local holder = call('ZRANGE', H, 0, 0, 'WITHSCORES')
      local dying = call('ZRANGE', W, 0, 0, 'WITHSCORES')
      local left = holder[2] and holder[2] - at or 0
      if left <= 0 or not dying[2] or tonumber(dying[2]) <= at then return nil end
      if call('EXISTS', T, Q) < 2 or call('HEXISTS', T, id) == 1 then return nil end
      if used_by ~= client then
        if used_by == '----------------' or call('HLEN', M) >= 1000 then return nil end
        call('HSET', M, used_by, number)
        call('PEXPIRE', M, '604800000')
      end
      call('ZADD', Q, order, id)
      call('ZADD', W, string.format('%.0f', at + lease), id)
      call('HSET', T, id, 'w e 1 ' .. order .. ' 0 ' .. lease .. ' 0000000000000000 ' .. client ..
        ' - ' .. owner)
      call('SET', K, string.format('%s%.0f 1 0 0 %.0f %.0f - - - %s %s %s', head, order + 1,
        tickets + 1, waiters + 1, refreshed, client, issue), 'PX', '604800000')
      return string.format('waiting 0 %s %s %.0f', lease, waiters, left)
    end
    local answer = queue_up()
    if answer then return answer end
  end

  if not go_the_long_way then
--@lock
--@entry
    go_the_long_way = function(record_key, found, ...)
      ask(...)
      own_id, budget, grown = id, MOST_PER_STEP, {}
      open(record_key, found)
      expire()
      local known = read(id)
      local answer
      if known then
        if known.kind == 'x' then answer = 'invalid' end
      elseif is_old(client, issue) then
        answer = 'gone'
      else
        admit()  -- Tickets admitted by an expiry come before the newcomer.
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
      admit()
      answer = answer or describe(id)
      close()
      return answer
    end
  end
  return go_the_long_way(key, record, id, user, issue, ttl, owner, terms)
end

if #KEYS == 1 then return take(KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]) end
local answers, keys, words, last, number, before = {}, KEYS, ARGV, 0, #KEYS, 0
--@cluster if undeclared then keys, number = words, (#words - 1) / 7 end
--@cluster if undeclared then before = 1 + 5 * number end
local function take_rest()
  for i = last + 1, number do
    last = i
    local first = 5 * i
    --@cluster if undeclared then slot_tag = words[before + number + i] end
    answers[i] = take(keys[before + i], words[first - 3], words[first - 2], words[first - 1],
      words[first], words[first + 1])
  end
end
repeat
  local done, why = pcall(take_rest)
  if not done then
    why = type(why) == 'table' and why.err or tostring(why)
    answers[last] = {err = string.find(why, '^%u+ ') and why or 'ERR ' .. why}
  end
until last == number
return answers
