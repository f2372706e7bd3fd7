-- Acquires all of these locks, or none.
--
-- KEYS the locks' records, at most 64. ARGV: 1 client, then per lock: id, issue, ttl, owner, terms,
-- as acquire.lua has them. Returns one answer per lock, as acquire.lua does. If one lock cannot be
-- had, it returns that lock's number and answer instead: "<number> <answer>".
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster
--@cluster refuse_if_moving(KEYS[1])

--@lock
--@entry

local records = {}  -- The plain locks that are free or ours, for take_here().

local function turn_to(i)
  local first = 5 * i - 3
  ask(ARGV[first], ARGV[1], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4])
  own_id, budget, grown = id, MOST_PER_STEP, {}
end

-- The short way for a lock without a queue: returns an answer, or nil if lock.lua has to decide.
local function look_here(i, key, record)
  local form = record and sub(record, 1, 7)
  local plain = kind == 'e'
  if not record or form == '1 free ' and #record == 57 then
    if record then
      if sub(record, 8, 23) >= '9007199254740980' then return nil end
      local ours = sub(record, 25, 40) == client
      local seen = ours and sub(record, 42, 57) or not ours and call('HGET', key .. ':m', client)
      if seen and seen >= issue then return 'gone' end
      plain = plain and ours
    end
    if permits > capacity then return 'toolarge' end
    records[i] = plain and (record or '')
    return 'held'
  end
  if form ~= '1 held ' or kind == 'p' then return nil end
  local start, lease = match(record, '^(%d+) %d+ (%d+) ', 92)
  if not start or start + lease <= at then return nil end
  if sub(record, 59, 90) ~= id then return 'busy 0' end
  records[i] = record
  return 'held'
end

-- Whether the lock can be had. Lets time pass for the lock, as every step does, and acquires
-- nothing.
local function look(key)
  open(key)
  expire()
  admit()
  local known = read(id)
  local answer
  if known then
    answer = known.kind == 'x' and 'invalid' or known.held and 'held' or 'busy 0'
  elseif is_old(client, issue) then
    answer = 'gone'
  else
    answer = refusal()
    if not answer then
      answer = admits_newcomer() and (can_mint() and 'held' or 'exhausted') or 'busy 0'
    end
  end
  close()
  return answer
end

-- Acquires the locks that look_here() found to be free or ours.
local function take_here(key, record, id, issue, ttl, owner)
  if sub(record, 1, 7) == '1 held ' then
    local seq, lease = match(record, '^%d+ (%d+) (%d+) ', 92)
    return 'held ' .. sub(record, 8, 24) .. seq .. ' ' .. lease
  end
  local token, last = now, record ~= '' and sub(record, 8, 23) or ZERO
  if last >= now then token = padded(last + 1) end
  local held = '1 held ' .. token .. ' ' .. client .. ' ' .. issue .. ' ' .. id .. ' ' .. now ..
    ' 0 ' .. ttl .. ' ' .. owner
  -- Within a thousand seconds of the last grant the key's week need not start again.
  if last < now and sub(last, 1, 7) == sub(now, 1, 7) then
    call('SET', key, held, 'KEEPTTL')
  else
    call('SET', key, held, 'PX', WEEK)
  end
  return 'held ' .. token .. ' 0 ' .. ttl
end

local function take(key)
  open(key)
  if not read(id) then enter(true) end
  admit()
  local answer = describe(id)
  close()
  return answer
end

-- The second round cannot fail: the first one has checked everything.
for i, key in ipairs(KEYS) do
  turn_to(i)
  local answer = look_here(i, key, call('GET', key)) or look(key)
  if answer ~= 'held' then return number(i) .. ' ' .. answer end
end
local answers = {}
for i, key in ipairs(KEYS) do
  local first = 5 * i - 3
  if records[i] then
    answers[i] = take_here(key, records[i], ARGV[first], ARGV[first + 1], ARGV[first + 2],
      ARGV[first + 3])
  else
    turn_to(i)
    answers[i] = take(key)
  end
end
return answers
