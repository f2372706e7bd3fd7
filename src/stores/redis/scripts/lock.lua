-- The lock machine for one lock, restated. Every script includes it after its short way. The
-- differential test keeps it equal to src/machine, command by command.
--
-- A lock is one record. With more state than one plain holder, it has five keys beside it:
--
--   <lock>    1 free <token> <client> <issue>
--             1 held <token> <client> <issue> <id> <lease start> <seq> <lease> <owner>
--             1 many <token> <family> f <capacity> <next order> <exclusive> <shared>
--                    <permits> <tickets> <waiters> <upgrade> <base> <shrink> <refreshed>
--   <lock>:t  hash: id -> <h|w> <kind> <permits> <order> <seq> <lease> <token> <client> <base> <owner>
--   <lock>:h  sorted set of the holders, by the end of the lease
--   <lock>:w  sorted set of the waiters, by the end of the lease
--   <lock>:q  sorted set of the waiters, by their order
--   <lock>:m  hash: client -> highest issue seen from it, or x<id> of a withdrawn resize
--   <lock>:b  the trace of the last break     <lock>:v  the value beside the lock
--
-- Times are microseconds of this server's clock. Tokens and issues have 16 digits, so that they
-- compare as text. All numbers are below 2^53, which a Lua number holds exactly. Only <seq> may be
-- larger, because it grows in large steps when leases are adopted; it always stays a text.
local call, sub, match, format = redis.call, string.sub, string.match, string.format
local WEEK, MOST_PER_STEP, MOST_MARKS = '604800000', 128, 1000
local NOBODY, ZERO = '----------------', '0000000000000000'
local at = tonumber(now)

local K, T, H, W, Q, M     -- The keys.
local lock                 -- The record, as a table.
local grown = {}           -- Keys that may be new and therefore lack an expiry.
local own_id = ARGV[1]     -- It needs no push: its reply says the same.
local budget = MOST_PER_STEP
--@cluster local moving = false  -- Only a renewal goes on while its slot moves.

local function number(value) return format('%.0f', value) end
local function padded(value) return format('%016.0f', value) end
local function is_later(seq, than) return #seq > #than or #seq == #than and seq > than end

-- --- Tickets.

local function read(id)
  local text = call('HGET', T, id)
  if not text then return nil end
  local held, kind, permits, order, seq, lease, token, client, base, owner =
    match(text, '^(%a) (%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  if not held then error('HOLDFAST-CORRUPT ticket of ' .. K) end
  return {
    id = id, held = held == 'h', kind = kind, permits = tonumber(permits), order = tonumber(order),
    seq = seq, lease = tonumber(lease), token = token, client = client, base = base, owner = owner,
  }
end

local function write(ticket)
  call('HSET', T, ticket.id, (ticket.held and 'h ' or 'w ') .. ticket.kind .. ' ' ..
    number(ticket.permits) .. ' ' .. number(ticket.order) .. ' ' .. ticket.seq .. ' ' ..
    number(ticket.lease) .. ' ' .. ticket.token .. ' ' .. ticket.client .. ' ' .. ticket.base ..
    ' ' .. ticket.owner)
end

-- A push without permission must not stop a step halfway. It is lost, like any other push may be.
local function tell(ticket, text) redis.pcall('PUBLISH', 'hf1:@' .. ticket.client, text) end

local function hint(ticket)
  if ticket.id ~= own_id then tell(ticket, 'hint ' .. ticket.id) end
end

-- --- The admission rule, on running sums.

local function admits(kind, permits)
  if kind == 'e' then return lock.exclusive == 0 and lock.shared == 0 and lock.permits == 0 end
  if kind == 's' then return lock.exclusive == 0 and lock.permits == 0 end
  return lock.exclusive == 0 and lock.shared == 0 and lock.permits + permits <= lock.capacity
end

local function admits_upgrade()
  return lock.exclusive == 0 and lock.shared == 1 and lock.permits == 0
end

local function count(ticket, sign)
  if ticket.kind == 'e' then
    lock.exclusive = lock.exclusive + sign
  elseif ticket.kind == 's' then
    lock.shared = lock.shared + sign
  else
    lock.permits = lock.permits + sign * ticket.permits
  end
end

-- --- Marks: which acquisitions are too old to be new.

local function is_old(client, issue)
  if lock.client == client then return lock.issue >= issue end
  local seen = call('HGET', M, client)
  return seen and seen >= issue
end

local function put_mark(field, value)
  if call('HLEN', M) >= MOST_MARKS then call('DEL', M) end
  call('HSET', M, field, value)
  call('PEXPIRE', M, WEEK)
end

local function mark(client, issue)
  if lock.client == client then
    if lock.issue < issue then lock.issue = issue end
    return
  end
  if lock.client ~= NOBODY then put_mark(lock.client, lock.issue) end
  lock.client, lock.issue = client, issue
end

-- --- The record.

local function add(ticket, lease_end)
  lock.tickets = lock.tickets + 1
  lock.waiters = lock.waiters + 1
  call('ZADD', Q, number(ticket.order), ticket.id)
  if ticket.kind ~= 'x' then call('ZADD', W, number(lease_end), ticket.id) end
  grown[T], grown[Q], grown[W] = true, true, true
end

local function open_held(record)
  local client, issue, id = sub(record, 25, 40), sub(record, 42, 57), sub(record, 59, 90)
  local start, seq, lease, owner = match(record, '^(%d+) (%d+) (%d+) (.*)$', 92)
  if not start then error('HOLDFAST-CORRUPT record ' .. K) end
  lock.client, lock.issue, lock.exclusive, lock.tickets, lock.next = client, issue, 1, 1, 2
  write({
    id = id, held = true, kind = 'e', permits = 1, order = 1, seq = seq, lease = tonumber(lease),
    token = lock.token, client = client, base = '-', owner = owner,
  })
  call('ZADD', H, number(start + lease), id)
  grown[T], grown[H] = true, true
end

local function open_many(record)
  local family, capacity, next, exclusive, shared, permits, tickets, waiters, upgrade, base,
    shrink, refreshed, client, issue = match(record, '^1 many %d+ (%a) %a (%d+) (%d+) (%d+) ' ..
    '(%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+) (%S+) (%d+)$')
  if not family then error('HOLDFAST-CORRUPT record ' .. K) end
  lock.family, lock.capacity, lock.next = family, tonumber(capacity), tonumber(next)
  lock.exclusive, lock.shared, lock.permits = tonumber(exclusive), tonumber(shared),
    tonumber(permits)
  lock.tickets, lock.waiters = tonumber(tickets), tonumber(waiters)
  lock.upgrade, lock.base, lock.shrink = upgrade, base, shrink
  lock.refreshed, lock.client, lock.issue = tonumber(refreshed), client, issue
  local expected = 1 + (lock.tickets > lock.waiters and 1 or 0) + (lock.waiters > 0 and 1 or 0) +
    (lock.waiters > (shrink ~= '-' and 1 or 0) and 1 or 0)
  --@cluster if moving then lock.refreshed = at return end
  if call('EXISTS', T, H, Q, W) == expected then return end
  --@cluster error(TRYAGAIN)
  -- The server has evicted a part of the lock. Its holders are unknown now, so it has none.
  call('DEL', T, H, W, Q)
  lock.exclusive, lock.shared, lock.permits, lock.tickets, lock.waiters, lock.upgrade, lock.base,
    lock.shrink = 0, 0, 0, 0, 0, '-', '-', '-'
end

-- `record` is the value that the short way has read already.
local function open(key, record)
  K, T, H, W, Q, M = key, key .. ':t', key .. ':h', key .. ':w', key .. ':q', key .. ':m'
  lock = {
    token = ZERO, client = NOBODY, issue = ZERO, family = 'e', capacity = 1, next = 1,
    exclusive = 0, shared = 0, permits = 0, tickets = 0, waiters = 0, upgrade = '-', base = '-',
    shrink = '-', refreshed = 0,
  }
  record = record or call('GET', key)
  lock.record = record
  local form = record and sub(record, 1, 7)
  if form ~= '1 many ' then call('DEL', T, H, W, Q) end  -- Left over from an evicted record.
  if not record then return end
  lock.token = sub(record, 8, 23)
  if form == '1 free ' and #record == 57 then
    lock.client, lock.issue = sub(record, 25, 40), sub(record, 42, 57)
  elseif form == '1 held ' then
    open_held(record)
  elseif form == '1 many ' then
    open_many(record)
  elseif match(record, '^%d+ ') and sub(record, 1, 2) ~= '1 ' then
    error('HOLDFAST-VERSION ' .. match(record, '^%d+') .. ' of ' .. key)
  else
    error('HOLDFAST-CORRUPT record ' .. key)
  end
end

-- A single plain holder needs no more than the record.
local function close_held()
  local id = call('ZRANGE', H, 0, 0)[1]
  local ticket = id and read(id)
  if not ticket then error('HOLDFAST-CORRUPT holders of ' .. K) end
  local start = tonumber(call('ZSCORE', H, id)) - ticket.lease
  call('DEL', T, H, W, Q)
  return '1 held ' .. lock.token .. ' ' .. lock.client .. ' ' .. lock.issue .. ' ' .. id .. ' ' ..
    padded(start) .. ' ' .. ticket.seq .. ' ' .. number(ticket.lease) .. ' ' .. ticket.owner
end

local function close_many()
  if at - lock.refreshed > 3600000000 then
    lock.refreshed = at
    grown[T], grown[H], grown[W], grown[Q] = true, true, true, true
  end
  for key in pairs(grown) do call('PEXPIRE', key, WEEK) end
  return '1 many ' .. lock.token .. ' ' .. lock.family .. ' f ' ..
    number(lock.capacity) .. ' ' .. number(lock.next) .. ' ' .. number(lock.exclusive) .. ' ' ..
    number(lock.shared) .. ' ' .. number(lock.permits) .. ' ' .. number(lock.tickets) .. ' ' ..
    number(lock.waiters) .. ' ' .. lock.upgrade .. ' ' .. lock.base .. ' ' .. lock.shrink .. ' ' ..
    number(lock.refreshed) .. ' ' .. lock.client .. ' ' .. lock.issue
end

local function close()
  local record
  if lock.tickets == 0 then
    if not lock.record and lock.token == ZERO and lock.client == NOBODY then return end
    record = '1 free ' .. lock.token .. ' ' .. lock.client .. ' ' .. lock.issue
  elseif lock.tickets == 1 and lock.exclusive == 1 then
    record = close_held()
  else
    record = close_many()
  end
  call('SET', K, record, 'PX', WEEK)
end

-- --- Ends.

local function drop(ticket)
  call('HDEL', T, ticket.id)
  if ticket.held then
    call('ZREM', H, ticket.id)
    count(ticket, -1)
  else
    call('ZREM', Q, ticket.id)
    call('ZREM', W, ticket.id)
    lock.waiters = lock.waiters - 1
  end
  lock.tickets = lock.tickets - 1
  if lock.upgrade == ticket.id then lock.upgrade, lock.base = '-', '-' end
  if lock.shrink == ticket.id then lock.shrink = '-' end
end

-- The upgrade of a ticket ends before it.
local function finish(ticket)
  if lock.base == ticket.id then drop(read(lock.upgrade)) end
  drop(ticket)
end

local function expire_from(key)
  repeat
    local due = call('ZRANGEBYSCORE', key, '-inf', number(at), 'LIMIT', 0, MOST_PER_STEP)
    for _, id in ipairs(due) do
      local ticket = read(id)
      if ticket then finish(ticket) else call('ZREM', key, id) end
    end
  until #due < MOST_PER_STEP
end

local function expire()
  if lock.tickets == 0 then return end
  expire_from(H)
  if lock.waiters > 0 then expire_from(W) end
end

-- --- Admission.

local function next_token() return math.max(tonumber(lock.token) + 1, at) end
local function can_mint() return next_token() < 9007199254740990 end

local function grant(ticket)
  local lease_end = call('ZSCORE', W, ticket.id)
  call('ZREM', W, ticket.id)
  call('ZREM', Q, ticket.id)
  lock.waiters = lock.waiters - 1
  lock.token = padded(next_token())
  ticket.token, ticket.held = lock.token, true
  count(ticket, 1)
  call('ZADD', H, lease_end, ticket.id)
  grown[H] = true
  write(ticket)
  if ticket.id ~= own_id then
    tell(ticket, 'granted ' .. ticket.id .. ' ' .. ticket.token .. ' ' .. ticket.seq .. ' ' ..
      number(ticket.lease))
  end
end

local function drop_larger_than(capacity)
  for _, id in ipairs(call('ZRANGE', Q, 0, -1)) do
    local ticket = read(id)
    if ticket.kind ~= 'x' and ticket.permits > capacity then
      drop(ticket)
      hint(ticket)
    end
  end
end

local function shrink(ticket)
  drop(ticket)
  lock.capacity = lock.capacity - ticket.permits
  drop_larger_than(lock.capacity)
end

local function next_admissible()
  if lock.upgrade ~= '-' and admits_upgrade() then return read(lock.upgrade) end
  if lock.waiters == 0 or lock.exclusive > 0 then return nil end
  local head = call('ZRANGE', Q, 0, 0)[1]
  if not head or head == lock.upgrade then return nil end
  local ticket = read(head)
  return admits(ticket.kind, ticket.permits) and ticket or nil
end

-- Admits in order, for as long as the step's limit allows.
local function admit()
  while budget > 0 do
    local ticket = next_admissible()
    if not ticket then return end
    if ticket.kind == 'x' then
      shrink(ticket)
    elseif can_mint() then
      grant(ticket)
    else
      return
    end
    budget = budget - 1
  end
end

-- --- Answers.

-- Microseconds until a holder's lease ends; 0 if nobody holds, so that asking again may help.
local function next_expiry()
  local first = call('ZRANGE', H, 0, 0, 'WITHSCORES')
  return first[2] and number(tonumber(first[2]) - at) or '0'
end

-- Finishes the step, and describes a ticket after it.
local function describe(id)
  local ticket = read(id)
  if not ticket then return 'toolarge' end  -- It waited, and the capacity fell in this very step.
  local terms = ticket.seq .. ' ' .. number(ticket.lease)
  if ticket.held then return 'held ' .. ticket.token .. ' ' .. terms end
  local ahead = ticket.base ~= '-' and 0 or call('ZRANK', Q, id)
  return 'waiting ' .. terms .. ' ' .. number(ahead) .. ' ' .. next_expiry()
end
