#!lua flags=allow-oom
-- Extends leases of holders and waiters. Returns one answer per lock; the failure of one lock does
-- not affect the others.
--
-- The end of a lease never moves back unless this clock was set back, which a start in the future
-- shows. Then the lease starts again. Otherwise it could neither be renewed nor end until the clock
-- has caught up.
--
-- KEYS the locks' records, at most 128. ARGV: 1 client, then per lock: id, seq, ttl, waiter ttl.
-- After the answers for the locks comes this clock's time.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster

--@lock
--@moving

-- The value beside a lock lives for a week, and longer while the lock is held. Refreshing it once
-- an hour is enough. One that was set without an expiry gets none.
local function keep_value(key, last_renewed)
  local hour = 3600000000
  if math.floor(last_renewed / hour) ~= math.floor(at / hour) then
    --@single call('PEXPIRE', key .. ':v', WEEK, 'XX')
    --@cluster redis.pcall('PEXPIRE', key .. ':v', WEEK, 'XX')
  end
end

-- The short way for a plain holder; nil for anything else.
local function renew_held(key, id, seq, ttl)
  local record = call('GET', key)
  if not record or sub(record, 1, 7) ~= '1 held ' or sub(record, 59, 90) ~= id then return nil end
  local start, applied, lease, owner = match(record, '^(%d+) (%d+) (%d+) (.*)$', 92)
  local lease_end = start and start + lease or 0
  if lease_end <= at then return nil end
  local later = at + ttl > lease_end or tonumber(ttl) >= tonumber(lease) and tonumber(start) > at
  if later and is_later(seq, applied) then
    applied, lease = seq, ttl
    call('SET', key, sub(record, 1, 91) .. now .. ' ' .. seq .. ' ' .. ttl .. ' ' .. owner, 'PX',
      WEEK)
    keep_value(key, tonumber(start))
  end
  return 'held ' .. sub(record, 8, 24) .. applied .. ' ' .. lease
end

local function extend(ticket, length, seq)
  local key = ticket.held and H or W
  local lease_end, last = at + length, tonumber(call('ZSCORE', key, ticket.id))
  if lease_end <= last and (length < ticket.lease or last - ticket.lease <= at) then return end
  if ticket.held then keep_value(K, last - ticket.lease) end
  ticket.seq, ticket.lease = seq, length
  call('ZADD', key, number(lease_end), ticket.id)
  write(ticket)
end

local function renew(key, client, id, seq, ttl, waiter_ttl)
  --@cluster check_moving(key, id)
  open(key)
  expire()
  local ticket = read(id)
  local answer
  if not ticket or ticket.kind == 'x' then
    answer = 'gone'
  elseif is_later(seq, ticket.seq) then
    ticket.client = client  -- Pushes about it go to the client that renews.
    local length = ticket.held and ttl or waiter_ttl
    extend(ticket, length, seq)
  end
  admit()
  answer = answer or describe(id)
  close()
  if answer == 'gone' then
    local trace = call('GET', key .. ':b')
    if trace then answer = 'broken ' .. trace end
  end
  return answer
end

local answers = {}
for i, key in ipairs(KEYS) do
  local first = 4 * i - 2
  local id, seq, ttl, waiter_ttl = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  own_id, budget, grown = id, MOST_PER_STEP, {}
  local done, answer = pcall(renew_held, key, id, seq, ttl)
  if done and not answer then
    done, answer = pcall(renew, key, ARGV[1], id, seq, tonumber(ttl), tonumber(waiter_ttl))
  end
  if not done and type(answer) == 'table' then answer = answer.err end
  answers[i] = done and answer or 'error ' .. tostring(answer)
end
answers[#KEYS + 1] = now
return answers
