#!lua flags=allow-oom
-- Releases locks, or leaves their queues, and grants each lock to its next waiter in the same step.
-- Each lock is treated as if it were asked for alone. For one lock it returns the answer; for
-- several an array of answers, in which the failure of one lock does not affect the others.
--
-- KEYS the locks' records; a lock may occur more than once. ARGV: 1 client, then per lock:
-- acquisition id, issue, "release" or "cancel".
local call, sub, user = redis.call, string.sub, ARGV[1]
--@cluster
local now
local go_the_long_way  -- Made when first needed.

local function give_back(key, id, issue, how)
  --@single local record = call('GET', key)
  --@cluster local record = redis.pcall('GET', key)
  --@cluster if type(record) == 'table' then return alone(record) end
  local form = record and sub(record, 1, 7)

  -- The short way for the only holder. Even if its lease has ended, nobody has taken the lock
  -- since.
  if form == '1 held ' and sub(record, 59, 90) == id then
    call('SET', key, '1 free ' .. sub(record, 8, 57), 'KEEPTTL')
    return 'released'
  end

  --@cluster refuse_if_moving(key)
  if not now then
    local clock = redis.call('TIME')
    now = clock[1] .. sub('00000' .. clock[2], -6)
  end

  -- The short way for a handoff: the only holder of a plain mutex passes it to a plain head of the
  -- queue, no lease has ended, and no key needs a new expiry. It does what lock.lua would do, with
  -- two thirds of the calls and little of the text. Otherwise it returns nil and changes nothing.
  if form == '1 many ' then
    local function hand_over()
      local match = string.match
      local K, at = key, tonumber(now)
      local T, H, W, Q = K .. ':t', K .. ':h', K .. ':w', K .. ':q'
      local last, order, tickets, waiters, refreshed, used_by = match(record,
        '^1 many (%d+) e f 1 (%d+) 1 0 0 (%d+) (%d+) %- %- %- (%d+) (.*)$')
      if not last or at - refreshed > 3600000000 or waiters + 1 ~= tonumber(tickets) then
        return nil
      end
      local holds_until, dying = call('ZSCORE', H, id), call('ZRANGE', W, 0, 0, 'WITHSCORES')
      if not holds_until or tonumber(holds_until) <= at then return nil end
      if not dying[1] or tonumber(dying[2]) <= at then return nil end
      local head = call('ZRANGE', Q, 0, 0)[1]
      local ticket = head and call('HGET', T, head)
      if not ticket then return nil end
      local place, seq, lease, client, owner = match(ticket,
        '^w e 1 (%d+) (%d+) (%d+) %d+ (%S+) %- (.*)$')
      if not place then return nil end
      local token = last < now and now or string.format('%016.0f', last + 1)
      if token >= '9007199254740990' then return nil end
      local lease_end = dying[1] == head and dying[2] or call('ZSCORE', W, head)
      if waiters == '1' then
        call('DEL', T, H, W, Q)
        call('SET', K, '1 held ' .. token .. ' ' .. used_by .. ' ' .. head .. ' ' ..
          string.format('%016.0f', lease_end - lease) .. ' ' .. seq .. ' ' .. lease .. ' ' .. owner,
          'PX', '604800000')
      else
        call('ZREM', Q, head)
        call('ZREM', W, head)
        call('ZADD', H, lease_end, head)
        call('ZREM', H, id)
        call('HDEL', T, id)
        call('HSET', T, head, 'h e 1 ' .. place .. ' ' .. seq .. ' ' .. lease .. ' ' .. token ..
          ' ' .. client .. ' - ' .. owner)
        call('SET', K, string.format('1 many %s e f 1 %s 1 0 0 %.0f %.0f - - - %s %s', token, order,
          tickets - 1, waiters - 1, refreshed, used_by), 'PX', '604800000')
      end
      redis.pcall('PUBLISH', 'hf1:@' .. client,
        'granted ' .. head .. ' ' .. token .. ' ' .. seq .. ' ' .. lease)
      return 'released'
    end
    local answer = hand_over()
    if answer then return answer end
  end

  if not go_the_long_way then
--@lock
--@ending
    go_the_long_way = function(record_key, found, ticket, number_of_it, wish)
      own_id, budget, grown = ticket, MOST_PER_STEP, {}
      open(record_key, found)
      local answer = end_ticket(ticket, user, number_of_it)
      if answer == 'gone' and wish == 'cancel' then put_mark('x' .. ticket, '1') end
      admit()
      close()
      return answer
    end
  end
  return go_the_long_way(key, record, id, issue, how)
end

if #KEYS == 1 then return give_back(KEYS[1], ARGV[2], ARGV[3], ARGV[4]) end
local answers, keys, words, last, number, before = {}, KEYS, ARGV, 0, #KEYS, 0
--@cluster if undeclared then keys, number = words, (#words - 1) / 5 end
--@cluster if undeclared then before = 1 + 3 * number end
local function give_back_rest()
  for i = last + 1, number do
    last = i
    local first = 3 * i
    --@cluster if undeclared then slot_tag = words[before + number + i] end
    answers[i] = give_back(keys[before + i], words[first - 1], words[first], words[first + 1])
  end
end
repeat
  local done, why = pcall(give_back_rest)
  if not done then
    why = type(why) == 'table' and why.err or tostring(why)
    answers[last] = {err = string.find(why, '^%u+ ') and why or 'ERR ' .. why}
  end
until last == number
return answers
