-- Changes the capacity of a permits lock: at once when growing, in queue order when shrinking.
--
-- KEYS[1] the lock's record. ARGV: 1 id of the request, 2 client, 3 capacity.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster
--@cluster refuse_if_moving(KEYS[1])

--@lock

local id, capacity = ARGV[1], tonumber(ARGV[3])

local function queue_shrink()
  admit()
  local difference = lock.capacity - capacity
  local ticket = {
    id = id, held = false, kind = 'x', permits = difference, order = lock.next, seq = '0', lease = 0,
    token = ZERO, client = ARGV[2], base = '-', owner = '{}',
  }
  lock.next = lock.next + 1
  add(ticket)
  write(ticket)
  lock.shrink = id
  local next = next_admissible()
  if not next or next.id ~= id then return nil end
  shrink(ticket)
  return 'done'
end

local function resize()
  if lock.tickets == 0 then return 'notheld' end
  if lock.family ~= 'p' then
    return 'mismatch ' .. lock.family .. ' ' .. number(lock.capacity)
  end
  if call('HEXISTS', M, 'x' .. id) == 1 then return 'gone' end
  local known = read(id)
  if known and known.kind ~= 'x' then return 'invalid' end
  if known and lock.capacity - known.permits == capacity then
    admit()  -- An expiry in this step may have made room for it; otherwise it keeps its position.
    return not read(id) and 'done' or nil
  end
  if lock.shrink ~= '-' then finish(read(lock.shrink)) end
  if lock.tickets == 0 then return 'notheld' end
  if capacity < lock.capacity then return queue_shrink() end
  if capacity > lock.capacity then
    lock.capacity = capacity
  end
  return 'done'
end

open(KEYS[1])
expire()
local answer = resize()
admit()
answer = answer or describe(id)
close()
return answer
